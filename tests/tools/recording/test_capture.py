"""Capture: a user's checkpoint and texts become a golden that a candidate is judged by."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.cli import main
from qwen3_parity.recording import capture as capturing
from qwen3_parity.recording.request import parse_ids, request_inputs, step_lengths
from qwen3_parity.recording.sizes import Lengths, expected_bytes, expected_names

CHECKPOINT = GOLDEN_ROOT / "checkpoints" / "tied-decoder"
DATA = os.environ.get("QWEN3_PARITY_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="QWEN3_PARITY_DATA is not set: no third-party data to test on")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def road(tmp_path: Path, model: object, *request: object) -> Path:
    """Capture, record and check; the golden that was captured."""
    captured = run("capture", "--model", model, "--out", tmp_path, *request)
    assert captured.exit_code == 0, captured.output
    golden, candidate = tmp_path / "request.pb", tmp_path / "ours.pb"
    recorded = run("record", golden, "--model", model, "--out", candidate)
    assert recorded.exit_code == 0, recorded.output
    checked = run("check", golden, candidate)
    assert checked.exit_code == 0, checked.output
    return golden


@pytest.mark.parametrize(
    ("request_", "mode"),
    [
        (["--source-ids", "5,6,7;8,9"], pb.ENCODER),
        (["--target-ids", "5,6,7;8,9", "--prefill", 2], pb.CAUSAL),
        (["--source-ids", "5,6,7", "--target-ids", "1,2,3,4", "--prefill", 2], pb.ENCODER_DECODER),
        (["--source-ids", "5,6", "--target-ids", "1,2", "--unrotated"], pb.ENCODER_DECODER),
    ],
    ids=["encoder", "causal", "merged", "unrotated"],
)
def test_a_capture_is_a_golden_that_our_implementation_passes(
    request_: list[object], mode: int, tmp_path: Path
) -> None:
    assert read(road(tmp_path, CHECKPOINT, *request_)).case.mode == mode


def test_only_the_taps_that_were_asked_for_are_captured(tmp_path: Path) -> None:
    golden = read(road(tmp_path, CHECKPOINT, "--target-ids", "1,2,3", "--taps", "logits", "--taps", "*.output"))
    names = {t.info.name for t in golden if t.info.op != "input"}
    assert "logits" in names and all(name == "logits" or name.endswith(".output") for name in names)


@pytest.mark.parametrize(
    ("taps", "partial"), [(["--taps", "logits"], False), (["--taps", "*.output"], True), ([], False)]
)
def test_a_capture_without_its_results_says_that_verdicts_by_it_are_partial(
    taps: list[str], partial: bool, tmp_path: Path
) -> None:
    result = run("capture", "--model", CHECKPOINT, "--out", tmp_path, "--target-ids", "1,2", "--no-floors", *taps)
    assert ("a verdict by it is partial" in result.output) == partial
    assert not partial or "it has no logits" in result.output


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rotated", [True, False])
@pytest.mark.parametrize(
    ("source", "target", "prefill"), [([[5, 6, 7], [8, 9]], [], None), ([], [[1, 2, 3]], 1), ([[5]], [[1, 2, 3]], 2)]
)
def test_the_size_that_is_printed_is_the_size_that_is_written(
    source: list[list[int]],
    target: list[list[int]],
    prefill: int | None,
    rotated: bool,
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    plan = capturing.plan(CHECKPOINT, source, target, prefill=prefill, rotate_encoder_keys=rotated, dtype=dtype)
    capturing.capture(plan, tmp_path / "c.pb", floors=False)
    recording = read(tmp_path / "c.pb")
    assert sum(t.info.bytes for t in recording) == plan.bytes
    assert {t.info.name for t in recording} == set(expected_names(plan.config, plan.lengths))


@pytest.mark.parametrize("request_", [["--source-ids", "5,6,7"], ["--target-ids", "1,2,3,4", "--prefill", 3]])
def test_only_the_last_rows_that_were_asked_for_are_captured(request_: list[object], tmp_path: Path) -> None:
    golden = read(road(tmp_path, CHECKPOINT, *request_, "--rows", 2))
    lengths = {t.info.shape[t.info.axes[:].index("query")] for t in golden if t.info.name.endswith("mlp.act")}
    assert max(lengths) == 2 < max(t.info.shape[1] for t in golden if t.info.name.endswith("k_proj"))


def test_the_size_of_some_rows_is_the_size_that_is_written(tmp_path: Path) -> None:
    plan = capturing.plan(CHECKPOINT, [[5, 6, 7, 8]], [[1, 2, 3, 4]], prefill=3, rows=2)
    capturing.capture(plan, tmp_path / "c.pb", floors=False)
    assert sum(t.info.bytes for t in read(tmp_path / "c.pb")) == plan.bytes


def test_a_recording_that_no_protobuf_library_could_parse_is_refused(tmp_path: Path) -> None:
    plan = capturing.plan(CHECKPOINT, [], [[1, 2, 3]])
    huge = capturing.Plan(**{**plan.__dict__, "bytes": (1 << 31) - 5})
    with pytest.raises(ParityError, match="cannot be that large"):
        capturing.refuse_too_large(huge, tmp_path, floors=False)


def test_the_size_counts_only_the_taps_that_were_asked_for() -> None:
    config = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb").case.config
    lengths = Lengths(1, 0, (3,))
    inputs = 3 * (8 + 1 + 8)
    assert expected_bytes(config, lengths, ["logits"]) == inputs + 3 * config.vocab_size * 4


def test_a_disk_that_is_too_small_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=1000))
    plan = capturing.plan(CHECKPOINT, [], [[1, 2, 3]])
    with pytest.raises(ParityError, match="disk is too small"):
        capturing.refuse_too_large(plan, tmp_path, floors=False)


@pytest.mark.parametrize(
    "request_",
    [
        ["--source-ids", "1,x"],
        ["--source-ids", "1,99999"],
        ["--source-ids", "1;2", "--target-ids", "1"],
        ["--target-ids", "1,2", "--prefill", 5],
        ["--target-ids", "1,2", "--taps", "nothing*"],
        ["--target-ids", "1,2", "--taps", "logits", "--taps", "encoder.*"],
        ["--target-ids", "1,2", "--out", "…/.hidden.pb"],
        ["--target-ids", "1,2", "--out", "…/a:b.pb"],
        ["--source", "text without a tokenizer"],
    ],
)
def test_a_request_that_cannot_run_exits_with_2(request_: list[object], tmp_path: Path) -> None:
    result = run("capture", "--model", CHECKPOINT, "--out", tmp_path, *request_)
    assert result.exit_code == 2, result.output
    assert "expected:" in result.output and not list(tmp_path.iterdir())


def test_a_request_with_nothing_to_read_says_what_may_be(tmp_path: Path) -> None:
    result = run("capture", "--model", CHECKPOINT, "--out", tmp_path)
    assert result.exit_code == 2 and "give what is read: --text or --ids of any model" in result.output


def test_sources_are_padded_on_the_right_and_targets_on_the_left() -> None:
    inputs = request_inputs([[5, 6], [7]], [[1, 2], [3]], 10)
    assert inputs["input.encoder_attention_mask"].tolist() == [[True, True], [True, False]]
    assert inputs["input.decoder_attention_mask"].tolist() == [[True, True], [False, True]]
    assert inputs["input.decoder_input_ids"].tolist() == [[1, 2], [0, 3]]
    assert np.array_equal(inputs["input.decoder_position_ids"], [[0, 1], [0, 0]])


def test_ids_are_read_row_by_row() -> None:
    assert parse_ids("1,2 3; 4") == [[1, 2, 3], [4]]


def test_a_prefill_is_followed_by_single_tokens() -> None:
    assert step_lengths(5, 3) == (3, 1, 1)


@needs_data
def test_a_checkpoint_that_nobody_here_made_passes(tmp_path: Path) -> None:
    assert DATA is not None
    golden = road(
        tmp_path, Path(DATA) / "tiny-qwen3", "--source-ids", "1,2,3,200", "--target-ids", "7,8,9", "--prefill", 1
    )
    assert not read(golden).case.config.tie_word_embeddings


@needs_data
def test_a_checkpoint_that_nobody_here_made_passes_in_bfloat16(tmp_path: Path) -> None:
    assert DATA is not None
    ids = ("--source-ids", "1,2,3,200", "--target-ids", "7,8,9", "--prefill", 1)
    golden = road(tmp_path, Path(DATA) / "tiny-qwen3", *ids, "--dtype", "bfloat16")
    assert read(golden).run.arithmetic == pb.ARITHMETIC_BF16


@pytest.fixture(scope="module")
def small_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with Qwen3-0.6B's vocabulary and head shape, narrow and shallow: real ids need real rows."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=128,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
    )
    directory = tmp_path_factory.mktemp("small") / "qwen3"
    Qwen3ForCausalLM(config).save_pretrained(directory)
    return directory


@pytest.mark.slow
@needs_data
def test_text_is_tokenized_by_the_real_tokenizer(small_qwen3: Path, tmp_path: Path) -> None:
    assert DATA is not None
    texts = ("--source", "Hello", "--target", "Bonjour, le monde !", "--tokenizer", Path(DATA) / "qwen3-tokenizer")
    golden = read(road(tmp_path, small_qwen3, *texts, "--prefill", 2))
    assert golden["input.encoder_input_ids", 0].array.tolist() == [[9707]]


def broken(directory: Path, tmp_path: Path, damage: str) -> Path:
    """A copy of a checkpoint with one thing wrong."""
    copy = tmp_path / "broken"
    shutil.copytree(directory, copy)
    weights = load_file(copy / "model.safetensors")
    name = "model.layers.1.self_attn.k_norm.weight"
    if damage == "missing":
        del weights[name]
    elif damage == "extra":
        weights["model.layers.1.self_attn.gamma.weight"] = weights[name]
    elif damage == "mis-shaped":
        weights[name] = np.ones(3, np.float32)
    if damage == "impossible heads":
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 4}))
    elif damage == "truncated":
        whole = (copy / "model.safetensors").read_bytes()
        (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    else:
        save_file(weights, copy / "model.safetensors")
    return copy


@pytest.mark.parametrize("damage", ["missing", "extra", "mis-shaped", "impossible heads", "truncated"])
def test_a_damaged_checkpoint_exits_with_2_and_leaves_nothing(damage: str, tmp_path: Path) -> None:
    model = broken(CHECKPOINT, tmp_path, damage)
    captured = run("capture", "--model", model, "--out", tmp_path / "out", "--target-ids", "1,2")
    assert captured.exit_code == 2, captured.output
    assert "expected:" in captured.output and not list(tmp_path.glob("out/*"))
    golden = GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb"
    recorded = run("record", golden, "--model", model, "--out", tmp_path / "ours.pb")
    assert recorded.exit_code == 2, recorded.output
    assert "expected:" in recorded.output and not (tmp_path / "ours.pb").exists()
