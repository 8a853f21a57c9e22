"""`qwen3-parity initialize`: a folder that is whole and verified, or none, and the exit code that says which."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from qwen3_encdec import Qwen3ForSeq2SeqLM, check_agreement, initialize_from_qwen3
from qwen3_encdec.weights import qwen3_checkpoint, sentinel_rows
from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main
from qwen3_parity.commands.weights import initialize as cli_initialize

UNTIED, TIED = (GOLDEN_ROOT / "checkpoints" / name for name in ("even-window", "tied-decoder"))
K_NORM = "merged_attn.k_norm.weight"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["weights", "initialize", *map(str, arguments)])


def info(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "initialization_info.json").read_text())
    return content


def make(out: Path, *arguments: object, source: Path = UNTIED) -> Result:
    return run("--model", source, "--out", out, "--num-sentinel-tokens", 5, *arguments)


@pytest.fixture
def with_tokenizer(tmp_path: Path) -> Path:
    """A checkpoint with a tokenizer whose ids all have rows."""
    directory = tmp_path / "source"
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN_ROOT / "tokenizers" / "tiny")
    rows = max(tokenizer.get_vocab().values()) + 3
    tensors = load_file(TIED / "model.safetensors")
    embedding = torch.randn(rows, tensors["model.embed_tokens.weight"].shape[1])
    tensors["model.embed_tokens.weight"] = embedding
    tensors.pop("lm_head.weight", None)
    shutil.copytree(GOLDEN_ROOT / "tokenizers" / "tiny", directory)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    content = json.loads((TIED / "config.json").read_text()) | {"vocab_size": rows}
    content = {name: value for name, value in content.items() if not name.endswith("_token_id")}
    (directory / "config.json").write_text(json.dumps(content | {"eos_token_id": tokenizer.eos_token_id}))
    return directory


@pytest.mark.parametrize("source", [UNTIED, TIED], ids=["untied", "tied"])
@pytest.mark.parametrize(
    "dtype", [None, "bfloat16", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float32", "float16"))]
)
def test_the_folder_holds_the_verified_model_and_says_so(source: Path, dtype: str | None, tmp_path: Path) -> None:
    out = tmp_path / "made" / "here"
    result = make(out, "--verify", *(("--dtype", dtype) if dtype else ()), source=source)
    assert result.exit_code == 0, result.output
    assert info(out) == {
        "source_model": str(source),
        "num_sentinel_tokens": 5,
        "dtype": dtype or "float32",
        "verification_passed": True,
    }
    loaded = AutoModelForSeq2SeqLM.from_pretrained(out, dtype="auto")
    expected = initialize_from_qwen3(source, 5, dtype=getattr(torch, dtype) if dtype else None)
    assert all(torch.equal(tensor, expected.state_dict()[name]) for name, tensor in loaded.state_dict().items())
    assert [path.name for path in tmp_path.iterdir()] == ["made"] and len(list(out.parent.iterdir())) == 1


def test_fact_12_a_model_that_was_not_verified_has_null_for_a_result(tmp_path: Path) -> None:
    assert make(tmp_path / "out").exit_code == 0
    assert info(tmp_path / "out")["verification_passed"] is None


def test_the_defaults_are_the_contracts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: asked.append(name) or str(UNTIED))
    result = run("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert asked == ["Qwen/Qwen3-0.6B"]
    assert info(tmp_path / "out")["num_sentinel_tokens"] == 100


def test_the_tokenizer_comes_with_its_sentinels(with_tokenizer: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = make(out, "--verify", source=with_tokenizer)
    assert result.exit_code == 0, result.output
    tokenizer, model = AutoTokenizer.from_pretrained(out), Qwen3ForSeq2SeqLM.from_pretrained(out)
    check_agreement(tokenizer, model.config, model)
    assert tokenizer.convert_tokens_to_ids("<extra_id_4>") == model.config.sentinel_start + 4


def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused(with_tokenizer: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(TIED / name, with_tokenizer / name)
    result = make(tmp_path / "out", source=with_tokenizer)
    assert result.exit_code == 2 and "has no row" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_broken_tokenizer_is_refused(with_tokenizer: Path, tmp_path: Path) -> None:
    (with_tokenizer / "tokenizer.json").write_text("{")
    result = make(tmp_path / "out", source=with_tokenizer)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("fault", ["loading", "saving"])
def test_a_check_that_fails_names_the_fault_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    fill, save = qwen3_checkpoint.fill, Qwen3ForSeq2SeqLM.save_pretrained

    def spoil(model: Any) -> None:
        model.decoder.layers[-1].get_parameter(K_NORM).data[0] += 1

    def filled(model: Any, *arguments: Any) -> int:
        count = fill(model, *arguments)
        spoil(model)
        return count

    def saved(model: Any, *arguments: Any, **options: Any) -> None:
        spoil(model)
        save(model, *arguments, **options)

    if fault == "loading":
        monkeypatch.setattr(qwen3_checkpoint, "fill", filled)
    else:
        monkeypatch.setattr(Qwen3ForSeq2SeqLM, "save_pretrained", saved)
    result = make(tmp_path / "out", "--verify")
    assert result.exit_code == 1
    assert f"{K_NORM} (from model.layers." in result.output
    assert "elements differ, first at [0]" in result.output
    assert "1 faults; failed: decoder_attention_match" in result.output
    assert not list(tmp_path.iterdir())


def test_emb_09_sentinels_from_another_seed_fail_the_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert make(tmp_path / "out").exit_code == 0
    monkeypatch.setattr(sentinel_rows, "_SEED", 7)
    result = make(tmp_path / "out", "--verify")
    assert result.exit_code == 1 and "sentinel_rows_seeded: shared.weight" in result.output


def spoil_folder(folder: Path) -> str:
    """One element of the last layer's k_norm in the decoder of a saved model."""
    tensors = load_file(folder / "model.safetensors")
    name = max(name for name in tensors if name.endswith(K_NORM))
    tensors[name][-1] *= 1.0000002
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return name


def test_a_folder_that_was_initialised_is_judged_as_it_stands(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert make(out).exit_code == 0
    assert make(out, "--verify").exit_code == 0
    assert info(out)["verification_passed"] is True
    name = spoil_folder(out)
    before = (out / "model.safetensors").read_bytes()
    result = make(out, "--verify")
    assert result.exit_code == 1
    assert name in result.output and "elements differ, first at [" in result.output
    assert info(out)["verification_passed"] is False
    assert (out / "model.safetensors").read_bytes() == before


def test_a_folder_is_judged_against_the_checkpoint_that_is_given(tmp_path: Path) -> None:
    assert make(tmp_path / "out").exit_code == 0
    result = make(tmp_path / "out", "--verify", source=TIED)
    assert result.exit_code == 1 and "config_matches: config." in result.output


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    assert make(tmp_path, "--verify").exit_code == 0
    assert (tmp_path / "model.safetensors").is_file()


@pytest.mark.parametrize("present", ["a file", "a folder with something"])
def test_what_is_in_the_place_is_never_replaced(tmp_path: Path, present: str) -> None:
    out = tmp_path / "out"
    if present == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = make(out, "--verify")
    assert result.exit_code == 2 and str(out) in result.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("damage", ["weights cut", "weights gone", "info broken", "another height"])
def test_a_folder_that_cannot_be_loaded_is_refused(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    assert make(out).exit_code == 0
    weights = out / "model.safetensors"
    if damage == "weights cut":
        weights.write_bytes(weights.read_bytes()[:-5])
    elif damage == "weights gone":
        weights.unlink()
    elif damage == "info broken":
        (out / "initialization_info.json").write_text("[")
    else:
        save_file({name: tensor[:-1].clone() for name, tensor in load_file(weights).items()}, weights)
    result = make(out, "--verify")
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output


@pytest.mark.parametrize("device", ["nothing", "cuda:77"])
def test_a_device_that_is_not_there_is_refused(tmp_path: Path, device: str) -> None:
    result = make(tmp_path / "out", "--device", device)
    assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output
    assert device in result.output and not list(tmp_path.iterdir())


def test_an_interruption_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_initialize, "_faults", interrupted)
    assert make(tmp_path / "out", "--verify").exit_code != 0
    assert not list(tmp_path.iterdir())
