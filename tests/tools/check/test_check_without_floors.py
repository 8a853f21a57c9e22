"""A golden without noise floors: judged op by op where its checkpoint is at hand, refused where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, Tensor, pb, read, write
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_at_hand
from qwen3_parity.cli import main

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
NAME = "logits"


def rewritten(recording: Recording, change: Callable[[pb.Tensor, Array], Array]) -> Recording:
    """A copy whose tensors' metadata may be changed in place."""
    tensors = []
    for item in recording:
        info = pb.Tensor.FromString(item.info.SerializeToString())
        tensors.append(Tensor(info, change(info, item.array)))
    return replace(recording, tensors=tensors)


def bare(info: pb.Tensor, array: Array) -> Array:
    info.ClearField("floor")
    return array


@pytest.fixture(scope="module")
def whole() -> Recording:
    return read(GOLDEN_ROOT / "cases" / "decoder" / "window_even.pb")


@pytest.fixture(scope="module")
def golden(whole: Recording) -> Recording:
    return rewritten(whole, bare)


def test_a_golden_without_floors_is_judged_by_its_ops_only(golden: Recording, whole: Recording) -> None:
    verdicts = check(golden, whole, weights_at_hand(golden, CHECKPOINTS))
    assert (verdicts.word, verdicts.judged, verdicts.compared) == ("parity", "ops only", verdicts.of)
    assert verdicts.worst is not None and 0 < verdicts.worst.share < 1


def test_a_wrong_op_is_found_by_it(golden: Recording, whole: Recording) -> None:
    wrong = rewritten(whole, lambda info, array: array * np.float32(1.01) if info.name == NAME else array)
    verdicts = check(golden, wrong, weights_at_hand(golden, CHECKPOINTS))
    assert verdicts.word == "divergence" and verdicts.wrong_alone == [NAME]


def test_without_its_checkpoint_it_is_refused(golden: Recording, whole: Recording) -> None:
    with pytest.raises(ParityError, match="no noise floors") as error:
        check(golden, whole)
    assert "--model" in error.value.next_step and error.value.fault == "input"


def test_floors_of_the_candidate_do_not_count(golden: Recording, whole: Recording) -> None:
    def generous(info: pb.Tensor, array: Array) -> Array:
        if info.HasField("floor"):
            info.floor.CopyFrom(pb.Floor(rms=1e30, max=1e30, row=1e30, head=1e30))
        return array * np.float32(1.5) if info.name == NAME else array

    assert check(golden, rewritten(whole, generous), weights_at_hand(golden, CHECKPOINTS)).word == "divergence"


def test_a_floor_of_the_candidate_on_a_copy_lets_nothing_pass() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "repeat_kv.pb")

    def generous(info: pb.Tensor, array: Array) -> Array:
        if not info.name.startswith("output."):
            return array
        info.floor.CopyFrom(pb.Floor(rms=1e30, max=1e30, row=1e30, head=1e30))
        return array * np.float32(1.5)

    (problem,) = check(golden, rewritten(golden, generous)).problems
    assert problem.rule == "must be an exact copy"


def test_a_nan_is_a_failure_though_nobody_knows_how_far_a_run_may_drift(golden: Recording, whole: Recording) -> None:
    def spoilt(info: pb.Tensor, array: Array) -> Array:
        return np.full_like(array, np.nan) if info.name == "logits" else array

    rules = {p.rule for p in check(golden, rewritten(whole, spoilt), weights_at_hand(golden, CHECKPOINTS)).problems}
    assert rules == {"NaN or infinity"}


def test_the_command_exits_with_2_and_says_what_it_needs(golden: Recording, tmp_path: Path) -> None:
    foreign = replace(golden, case=pb.Case.FromString(golden.case.SerializeToString()))
    for checkpoint in foreign.case.checkpoint:
        checkpoint.name = "somebody-elses"
    write(tmp_path / "golden.pb", foreign)
    result = CliRunner().invoke(main, ["check", str(tmp_path / "golden.pb"), str(tmp_path / "golden.pb")])
    assert result.exit_code == 2 and "no noise floors" in result.output and "--model" in result.output
