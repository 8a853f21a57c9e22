"""What a run of each kind of case must deliver, and that it says how it was trained or how tokens were chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, Tensor, pb, read, write
from qwen3_parity.check import check
from qwen3_parity.match import results


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def copy(recording: Recording, path: Path, *, without: str = "", case: pb.Case | None = None) -> Path:
    """A candidate with the golden's own taps, one of them left out and said to be."""
    run = pb.Run.FromString(recording.run.SerializeToString())
    run.materialised[:] = [pattern for pattern in run.materialised if pattern != without]
    kept: list[Tensor] = [item for item in recording if item.info.name != without]
    write(path, Recording(case or recording.case, recording.provenance, run, kept, recording.parameters))
    return path


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("training/causal", "loss"),
        ("training/causal", "gradient.shared.weight"),
        ("generation/greedy", "generated_ids"),
        ("generation/sample", "next_token_probs"),
        ("classic/bert", "post_norm.last_hidden_state"),
    ],
)
def test_a_run_that_leaves_its_result_out_and_says_so_is_no_parity(name: str, result: str, tmp_path: Path) -> None:
    whole = golden(name)
    assert result in results(whole.case)
    assert check(whole, copy(whole, tmp_path / "whole.pb")).word == "parity"
    found = check(whole, copy(whole, tmp_path / "less.pb", without=result))
    assert {problem.rule for problem in found.problems} == {"missing tap"}
    assert all(problem.where.startswith(f"{result} (step") for problem in found.problems)


def test_another_row_that_nothing_trains_is_another_case(tmp_path: Path) -> None:
    whole = golden("training/causal")
    other = pb.Case.FromString(whole.case.SerializeToString())
    other.training.padding_idx = 4
    with pytest.raises(ParityError, match="padding_idx"):
        check(whole, copy(whole, tmp_path / "other.pb", case=other))


def test_another_filter_is_another_case(tmp_path: Path) -> None:
    whole = golden("generation/sample")
    other = pb.Case.FromString(whole.case.SerializeToString())
    other.generation.top_p = 0.95
    with pytest.raises(ParityError, match="top_p"):
        check(whole, copy(whole, tmp_path / "other.pb", case=other))
