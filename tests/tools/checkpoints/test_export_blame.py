"""An exported checkpoint is read where its directory is: the same weights, digests and blame, without a copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from parts_on_disk import CHECKPOINTS, COMMITTED, parts_of, rewrite

from qwen3_golden import GOLDEN_ROOT, ParityError, Tensor, pb, read, write
from qwen3_parity import replay
from qwen3_parity.checkpoints.export_weights import export_weights
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.judge.spoken import in_words
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.stored import read_config, read_directory
from qwen3_reference.checkpoints.weights import checkpoint_message, load_weights, parameters

GOLDEN = GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb"
HALF = GOLDEN_ROOT / "cases" / "encdec" / "bfloat16.pb"
TAP = "decoder.layers.1.merged_attn.v_proj"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def checkpoint_of(golden: Path) -> str:
    return read(golden).case.checkpoint[0].name


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A candidate whose values of one layer are transposed within each head."""

    def turn(item: Tensor) -> Tensor:
        if item.info.name != TAP:
            return item
        array = item.array.reshape(*item.array.shape[:-1], 2, 2, -1).swapaxes(-1, -2).reshape(item.array.shape)
        return Tensor(item.info, np.ascontiguousarray(array))

    golden = read(GOLDEN)
    path = tmp_path / "wrong.pb"
    write(path, replace(golden, tensors=[turn(item) for item in golden]))
    return path


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", COMMITTED)
def test_the_weights_are_those_of_the_directory(name: str, committed_export: Callable[[str], Path]) -> None:
    stored, exported = (load_weights(None, folder) for folder in (CHECKPOINTS / name, committed_export(name)))
    assert list(stored) == list(exported) and all(np.array_equal(stored[key], exported[key]) for key in stored)
    assert parameters(stored) == parameters(exported)


@pytest.mark.parametrize("name", COMMITTED)
def test_checkpoint_and_configuration_are_those_of_the_directory(
    name: str, committed_export: Callable[[str], Path]
) -> None:
    source, folder = CHECKPOINTS / name, committed_export(name)
    assert checkpoint_message("decoder", folder, "x") == checkpoint_message("decoder", source, "x")
    assert read_config(folder) == read_config(source) and model_config(folder) == model_config(source)


def test_the_checkpoints_digest_is_computed_and_not_believed(exported: Path) -> None:
    before = checkpoint_message("decoder", exported, "x")
    for part in parts_of(exported):
        rewrite(part, lambda weights, case: setattr(case.checkpoint[0], "sha256", bytes(32)))
    assert checkpoint_message("decoder", exported, "x") == before


def test_tensors_are_views_of_the_parts(committed_export: Callable[[str], Path]) -> None:
    for tensor in read_directory(committed_export("bfloat16")).values():
        assert tensor.file.name.startswith("weights-") and tensor.file.is_file()
        assert tensor.dtype == pb.BF16 and not tensor.bits.flags.owndata and not tensor.bits.flags.writeable


def test_a_directory_that_has_changed_is_read_again(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CHECKPOINTS / "tied-decoder", tmp_path / "x"))
    before = read_directory(folder)
    shutil.rmtree(folder)
    export_weights(CHECKPOINTS / "even-window", folder, "x")
    after = read_directory(folder)
    assert before.keys() != after.keys() and {tensor.file.suffix for tensor in after.values()} == {".pb"}


def test_parts_that_do_not_belong_together_are_refused_here_too(exported: Path) -> None:
    parts_of(exported)[1].unlink()
    with pytest.raises(ParityError, match="parts are missing"):
        load_weights(None, exported)


def test_a_folder_with_config_json_is_hugging_faces_whatever_else_it_holds(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(CHECKPOINTS / "even-window", tmp_path / "both")
    shutil.copy(parts_of(exported)[0], folder)
    assert parameters(load_weights(None, folder)) == parameters(load_weights(None, CHECKPOINTS / "even-window"))


@pytest.mark.parametrize("golden", [GOLDEN, HALF], ids=lambda path: path.stem)
def test_every_op_is_judged_alike_from_the_directory_and_from_the_export(
    golden: Path, committed_export: Callable[[str], Path]
) -> None:
    recording, name = read(golden), checkpoint_of(golden)
    stored, exported = (
        replay(recording, weights_of(recording, GOLDEN_ROOT, folder))
        for folder in (CHECKPOINTS / name, committed_export(name))
    )
    assert stored == exported and len(stored) > 50 and all(verdict.passed for verdict in stored)


def said_of_both(verb: str, wrong: Path, committed_export: Callable[[str], Path]) -> list[str]:
    """What is said with the directory and with the export, but for which of the two the next command names."""
    name = checkpoint_of(GOLDEN)
    done = {
        folder: run(verb, GOLDEN, wrong, "--json", "--model", folder)
        for folder in (CHECKPOINTS / name, committed_export(name))
    }
    assert {result.exit_code for result in done.values()} == {1}
    assert all(f"--model {folder}" in result.stdout for folder, result in done.items())
    return [result.stdout.replace(str(folder), "MODEL") for folder, result in done.items()]


def test_diagnose_finds_the_same_from_the_directory_and_from_the_export(
    wrong: Path, committed_export: Callable[[str], Path]
) -> None:
    stored, exported = said_of_both("diagnose", wrong, committed_export)
    assert stored == exported and TAP in stored


def test_check_finds_the_same_from_the_directory_and_from_the_export(
    wrong: Path, committed_export: Callable[[str], Path]
) -> None:
    stored, exported = said_of_both("check", wrong, committed_export)
    assert stored == exported and in_words(TAP) in json.loads(stored)["wrong_alone"]


def test_our_implementation_says_how_to_get_what_it_reads(
    committed_export: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = committed_export(checkpoint_of(GOLDEN))
    result = run("record", GOLDEN, "--model", folder, "--out", tmp_path / "r.pb")
    assert result.exit_code == 2 and f"qwen3-parity weights import {folder} --out" in result.output
    assert not (tmp_path / "r.pb").exists()


def test_capture_says_how_to_get_what_it_reads(exported: Path, tmp_path: Path) -> None:
    result = run("capture", "--model", exported, "--target-ids", "1,2", "--out", tmp_path / "captures")
    assert result.exit_code == 2 and f"qwen3-parity weights import {exported} --out" in result.output
    assert not (tmp_path / "captures").exists()
