"""Recordings: complete, the same bytes twice, and what the committed goldens say about themselves."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, ParityError, pattern_of, pb, read, table, verify
from qwen3_reference.__main__ import main
from qwen3_reference.capture.make_golden import Way
from qwen3_reference.capture.record import record, record_request
from qwen3_reference.cases.networks import CASES, case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.versions import check_versions

NAMES = [definition.name for definition in CASES]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", ["encoder/one_token", "encdec/second_request", "encdec/bfloat16"])
def test_a_case_gives_the_same_bytes_twice(checkpoints: Path, tmp_path: Path, name: str) -> None:
    for copy in ("a.pb", "b.pb"):
        record(case(name), checkpoints, tmp_path / copy)
    assert (tmp_path / "a.pb").read_bytes() == (tmp_path / "b.pb").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pb", "b.pb"]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_is_of_its_definition(checkpoints: Path, name: str) -> None:
    definition, golden = case(name), read(GOLDEN_ROOT / "cases" / f"{name}.pb", digests=True)
    verify(golden)
    assert golden.case.name == name
    assert golden.case.mode == definition.mode and golden.case.tier == definition.tier
    chosen = definition.generation is not None  # what was chosen goes on behind the prompt
    assert tuple(golden.case.steps)[: len(definition.steps)] == definition.steps
    assert chosen or len(golden.case.steps) == len(definition.steps)
    assert golden.case.after == definition.after
    assert golden.provenance.threads == 1 and golden.provenance.seed == definition.seed
    assert [pair.key for pair in golden.provenance.versions] == ["numpy", "python", "torch", "transformers"]
    assert golden.case.config == model_config(
        checkpoints / (definition.decoder or definition.encoder), rotate_encoder_keys=definition.rotate_encoder_keys
    )
    for key, array in inputs(definition, golden.case.config.vocab_size, golden.case.config.hidden_size).items():
        assert np.array_equal(golden[key, 0].array[:, : array.shape[1]], array)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_declares_what_it_delivers(name: str) -> None:
    golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
    delivered = {pattern_of(item.info.name) for item in golden}
    order = [row.pattern for row in table()]
    assert list(golden.run.materialised) == [pattern for pattern in order if pattern in delivered]
    assert len({item.key for item in golden}) == len(golden.tensors)
    assert all(item.info.op and len(item.info.axes) == item.array.ndim for item in golden)
    names = {item.info.name for item in golden}
    assert all(set(item.info.inputs) <= names for item in golden)
    assert all(np.isfinite(item.values()).all() for item in golden if item.is_float)


def test_cases_have_unique_names_and_first_requests_that_exist() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {definition.after for definition in CASES} - {""} <= set(NAMES)


def test_cases_meet_the_lengths_paddings_and_paths_that_make_bugs_visible() -> None:
    lengths = {len(row) for c in CASES for row in (*c.encoder_rows, *c.decoder_rows)}
    assert {1, 2, 7, 13} <= lengths and max(lengths) >= 129
    rows = {row for c in CASES for row in (*c.encoder_rows, *c.decoder_rows)}
    assert any(row.startswith("0") and row.endswith("0") and "101" in row for row in rows)
    assert any(set(row) == {"0"} for row in rows)
    assert any(c.steps[:3] == (3, 3, 3) for c in CASES) and max(len(c.steps) for c in CASES) >= 5
    assert {c.first_position for c in CASES} >= {0, 300, 4096, 32768}
    assert any(c.after for c in CASES) and any(c.max_new_tokens for c in CASES)
    assert {c.rotate_encoder_keys for c in CASES if c.mode == pb.ENCODER_DECODER} == {True, False}


def test_the_committed_set_stays_small() -> None:
    files = [path for path in GOLDEN_ROOT.rglob("*") if path.is_file() and "qwen3_golden" not in path.parts]
    assert max(path.stat().st_size for path in files) <= 1 << 20
    assert sum(path.stat().st_size for path in files) < 22_000_000


def test_generated_ids_are_diverse_and_their_margin_is_stored() -> None:
    generating = [c.name for c in CASES if c.max_new_tokens and c.generation is None]
    assert generating
    for name in generating:
        golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
        ids = golden["generated_ids", 0].array
        assert ids.shape[1] == golden.case.max_new_tokens
        assert min(len(set(row)) for row in ids.tolist()) >= 8
        assert golden.case.smallest_margin > 0.05


def test_a_users_request_is_recorded_with_the_taps_that_were_asked_for(checkpoints: Path, tmp_path: Path) -> None:
    directory = checkpoints / "even-window"
    arrays = {
        f"input.{stack}_{part}": value
        for stack in ("encoder", "decoder")
        for part, value in {
            "input_ids": np.array([[5, 6, 7]]),
            "attention_mask": np.ones((1, 3), bool),
            "position_ids": np.arange(3)[None],
        }.items()
    }
    stages: list[str] = []
    path = tmp_path / "mine.pb"
    record_request(directory, directory, arrays, (2, 1), path, taps=("*.output", "logits"), way=Way(stages.append))
    recording = read(path, digests=True)
    assert recording.case.name == "capture/mine" and recording.case.tier == pb.TIER_UNSPECIFIED
    assert {item.info.name for item in recording} == {
        *arrays,
        *(f"{stack}.layers.{layer}.output" for stack in ("encoder", "decoder") for layer in (0, 1)),
        "logits",
    }
    assert recording["logits", 1].info.HasField("floor")
    assert [checkpoint.name for checkpoint in recording.case.checkpoint] == ["even-window"] * 2
    assert stages[0] == "loading" and stages[-2:] == ["sequential float32", "other angles"]
    record_request(directory, directory, arrays, (2, 1), path, taps=("logits",), floors=False)
    assert not read(path)["logits", 0].info.HasField("floor")
    assert list(tmp_path.iterdir()) == [path]


def test_a_bfloat16_checkpoint_can_be_recorded_in_float32(checkpoints: Path, tmp_path: Path) -> None:
    arrays = {
        "input.decoder_input_ids": np.array([[5, 6]]),
        "input.decoder_attention_mask": np.ones((1, 2), bool),
        "input.decoder_position_ids": np.arange(2)[None],
    }
    record_request(None, checkpoints / "bfloat16", arrays, (2,), tmp_path / "x.pb", dtype=torch.float32)
    recording = read(tmp_path / "x.pb")
    assert recording.case.mode == pb.CAUSAL and recording.run.arithmetic == pb.ARITHMETIC_F32
    assert {parameter.dtype for parameter in recording.parameters} == {pb.F32}


def test_nothing_is_left_behind_when_recording_fails(checkpoints: Path, tmp_path: Path) -> None:
    arrays = {"input.encoder_input_ids": np.array([[1]])}
    with pytest.raises(KeyError):
        record_request(checkpoints / "tied-encoder", None, arrays, (), tmp_path / "x.pb")
    assert not list(tmp_path.iterdir())


def test_the_command_records_what_a_glob_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--only", "op/rms*"]) == 0
    assert "4 cases" in capsys.readouterr().out
    assert len(list((tmp_path / "cases" / "op").iterdir())) == 4


def test_the_command_exits_2_when_nothing_has_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--only", "nothing"]) == 2
    assert "'nothing'" in capsys.readouterr().err


def test_the_command_exits_2_when_a_checkpoint_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none")
    assert main([str(tmp_path), "--only", "encoder/one_token", "--checkpoints", missing]) == 2
    assert "config.json" in capsys.readouterr().err


@pytest.mark.slow
def test_another_process_with_another_hash_seed_records_the_same_bytes(tmp_path: Path) -> None:
    names = ["encoder/one_token", "tokenization/decoding", "tokenization/merges"]
    only = [f"--only={name}" for name in names]
    command = [sys.executable, "-m", "qwen3_reference", str(tmp_path / "a"), *only]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "7"}, check=True, capture_output=True)
    assert main([str(tmp_path / "b"), *only]) == 0
    first, second = ([(tmp_path / copy / "cases" / f"{name}.pb").read_bytes() for name in names] for copy in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("torch_version", "transformers_version", "expected", "got"),
    [
        ("2.12.1", "5.23.0", "torch >= 2.13, < 3", "torch 2.12.1"),
        ("2.13.0+cpu", "5.22.2", "transformers >= 5.23, < 6", "transformers 5.22.2"),
        ("2.13.0", "6.0.0", "transformers >= 5.23, < 6", "transformers 6.0.0"),
        ("2.4.0", "4.51.0", "torch >= 2.13, < 3, transformers >= 5.23, < 6", "torch 2.4.0, transformers 4.51.0"),
    ],
)
def test_unsupported_versions_are_refused_with_expected_and_got(
    torch_version: str, transformers_version: str, expected: str, got: str
) -> None:
    with pytest.raises(ParityError) as caught:
        check_versions({"torch": torch_version, "transformers": transformers_version})
    assert (caught.value.expected, caught.value.got) == (expected, got)
    assert "pip install 'qwen3-parity[reference]'" in caught.value.next_step


def test_supported_versions_are_accepted() -> None:
    check_versions({"torch": "2.13.0+cpu", "transformers": "5.23.0"})


def test_a_missing_checkpoint_is_the_users_fault(tmp_path: Path) -> None:
    with pytest.raises(ParityError) as caught:
        record_request(None, tmp_path / "none", {}, (1,), tmp_path / "x.pb")
    assert caught.value.fault == "input"
