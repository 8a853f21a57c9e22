"""Parity means both: the run within its budget, and every op right on the candidate's own inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, tensor, write
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_at_hand
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.report.verdicts import summary

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
CASE = "encdec/second_request"
WRONG = "logits"
"""Nothing reads them. A run may drift there: an error of 48 roundings of each element stays within its budget."""


def hidden(golden: Recording) -> Recording:
    """The golden with one op's output slightly wrong, which the budget of the whole run hides."""
    moved = []
    for item in golden:
        info = pb.Tensor.FromString(item.info.SerializeToString())
        noise = np.random.default_rng(0).standard_normal(item.array.shape)
        wrong = (item.array * (1 + 48 * 2.0**-24 * noise)).astype(np.float32)
        moved.append(Tensor(info, wrong if info.name == WRONG else item.array))
    return replace(golden, tensors=moved)


@pytest.fixture(scope="module")
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{CASE}.pb")


@pytest.fixture(scope="module")
def candidate(golden: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hidden") / "hidden.pb"
    write(path, hidden(golden))
    return path


def test_an_op_that_the_runs_budget_hides_is_a_divergence_where_the_checkpoint_is_at_hand(
    golden: Recording, candidate: Path
) -> None:
    assert check(golden, candidate).word == "parity"
    verdicts = check(golden, candidate, weights_at_hand(golden, CHECKPOINTS))
    assert (verdicts.word, verdicts.exit_code, verdicts.judged) == ("divergence", 1, "run and ops")
    assert {problem.where.partition(" ")[0] for problem in verdicts.problems} == {WRONG}


def test_a_share_below_its_budget_is_said_to_be_the_runs(golden: Recording, candidate: Path) -> None:
    line = summary(check(golden, candidate, weights_at_hand(golden, CHECKPOINTS)))
    assert f"wrong alone, on its own inputs: {WRONG}; the run is within its budget, worst " in line
    assert "alone" not in summary(check(golden, candidate))


def test_its_message_says_the_op_the_share_and_the_next_command(golden: Recording, candidate: Path) -> None:
    problem = check(golden, candidate, weights_at_hand(golden, CHECKPOINTS)).problems[0]
    assert "linear is wrong on the candidate's own inputs" in problem.rule
    assert problem.share is not None and problem.share > 1
    assert problem.next_step == f"qwen3-parity diagnose {candidate}"  # a committed golden is found by its name
    assert problem.first_bad == f"linear at {WRONG} (step 0)"


@pytest.mark.slow
def test_check_and_diagnose_agree_about_it(golden: Recording, candidate: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(candidate), "--json"])
    report = json.loads(result.output)
    assert (result.exit_code, report["verdict"], report["judged"]) == (1, "divergence", "run and ops")
    assert report["wrong_alone"] == [WRONG]
    weights = weights_at_hand(golden, CHECKPOINTS)
    assert weights is not None
    diagnosis = diagnose(golden, read(candidate), weights)
    assert (diagnosis.verdicts.exit_code, diagnosis.verdicts.judged) == (1, "run and ops")
    assert [fault.places[0].rpartition(".")[2] for fault in diagnosis.faults] == ["logits"]


@pytest.mark.parametrize("name", ["encdec/bfloat16", "classic/bert", "generation/greedy", "training/causal", "op/rope"])
def test_a_golden_of_each_kind_is_at_parity_with_itself_run_and_ops(name: str) -> None:
    golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
    verdicts = check(golden, golden, weights_at_hand(golden, CHECKPOINTS))
    assert (verdicts.word, verdicts.judged) == ("parity", "run and ops")


def test_without_a_checkpoint_the_verdict_is_of_the_run_only(golden: Recording) -> None:
    case = pb.Case.FromString(golden.case.SerializeToString())
    for checkpoint in case.checkpoint:
        checkpoint.name = "somebody-elses"
    foreign = replace(golden, case=case)
    assert weights_at_hand(foreign, CHECKPOINTS) is None
    assert check(foreign, foreign).judged == "run only"


def test_a_tap_of_another_shape_is_one_divergence_and_its_readers_are_judged_all_the_same(golden: Recording) -> None:
    name = "decoder.layers.1.merged_attn.q_proj"
    shorter = [tensor(name, t.array[..., :-1], axes=t.info.axes) if t.key == (name, 0) else t for t in golden]
    verdicts = check(golden, replace(golden, tensors=shorter), weights_at_hand(golden, CHECKPOINTS))
    assert [problem.rule for problem in verdicts.problems] == ["another shape"]


def test_a_layer_that_the_golden_has_not_is_a_message(golden: Recording) -> None:
    extra = tensor("decoder.layers.9.output", np.zeros((2, 3, 40), np.float32), axes=("batch", "query", "hidden"))
    verdicts = check(golden, replace(golden, tensors=[*golden, extra]), weights_at_hand(golden, CHECKPOINTS))
    assert [problem.rule for problem in verdicts.problems] == ["it has a layer too many"]


def test_quantised_numbers_are_told_their_ops_errors_and_not_judged_by_them(golden: Recording) -> None:
    run = pb.Run.FromString(golden.run.SerializeToString())
    run.arithmetic = pb.ARITHMETIC_OTHER
    verdicts = check(golden, replace(hidden(golden), run=run), weights_at_hand(golden, CHECKPOINTS))
    assert (verdicts.word, verdicts.wrong_alone) == ("within budget, no parity", [WRONG])


OPS = sorted((GOLDEN_ROOT / "cases" / "op").glob("*.pb"))


@pytest.mark.parametrize("path", OPS, ids=lambda path: path.stem)
def test_a_case_of_one_op_brings_its_parameters_and_is_judged_alone(path: Path) -> None:
    verdicts = check(path, path)
    assert (verdicts.word, verdicts.judged, verdicts.wrong_alone) == ("parity", "run and ops", [])


def test_a_wrong_op_of_a_case_of_its_own_is_wrong_alone() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "linear.pb")
    wrong = [Tensor(t.info, t.array * np.float32(1.01) if t.info.name == "output.y" else t.array) for t in golden]
    verdicts = check(golden, replace(golden, tensors=wrong))
    assert (verdicts.word, verdicts.wrong_alone) == ("divergence", ["output.y"])
