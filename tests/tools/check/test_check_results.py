"""What a run of each kind of case must deliver, and that it says how it was trained or how tokens were chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, Tensor, pb, read, write
from qwen3_parity.check import check
from qwen3_parity.judge.match import results


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def copy(recording: Recording, path: Path, *, without: str = "", case: pb.Case | None = None) -> Path:
    """A candidate with the golden's own taps, one of them left out and said to be."""
    run = pb.Run.FromString(recording.run.SerializeToString())
    run.materialised[:] = [pattern for pattern in run.materialised if pattern != without]
    tensors: list[Tensor] = [item for item in recording if item.info.name != without]
    write(path, Recording(case or recording.case, recording.provenance, run, tensors, recording.parameters))
    return path


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("encoder/one_token", "encoder.norm"),
        ("encdec/ragged", "logits"),
        ("training/causal", "loss"),
        ("training/causal", "gradient.shared.weight"),
        ("generation/greedy", "generated_ids"),
        ("decoder/generation", "generated_ids"),
        ("generation/sample", "next_token_probs"),
        ("classic/bert", "post_norm.last_hidden_state"),
        ("classic/pre_norm", "pre_norm.norm"),
        ("op/rope", "output.k"),
    ],
)
def test_a_run_that_leaves_its_result_out_and_says_so_is_partial(name: str, result: str, tmp_path: Path) -> None:
    whole = golden(name)
    assert check(whole, copy(whole, tmp_path / "whole.pb")).word == "parity"
    verdicts = check(whole, copy(whole, tmp_path / "less.pb", without=result))
    assert (verdicts.word, verdicts.exit_code, verdicts.problems) == ("partial", 1, [])
    assert {where.rpartition(" (step")[0] for where in verdicts.no_results} == {result}


def test_who_asks_for_a_part_gets_exit_code_0_and_still_not_the_word_parity(tmp_path: Path) -> None:
    whole = golden("encoder/one_token")
    verdicts = check(whole, copy(whole, tmp_path / "less.pb", without="encoder.norm"), partial=True)
    assert (verdicts.word, verdicts.exit_code) == ("partial", 0)


def test_a_part_that_is_wrong_is_a_divergence_though_no_more_was_asked_for(tmp_path: Path) -> None:
    whole = golden("encoder/one_token")
    less = read(copy(whole, tmp_path / "less.pb", without="encoder.norm"))
    wrong = [Tensor(t.info, t.array * 2 if t.info.op == "swiglu" else t.array) for t in less]
    verdicts = check(whole, replace(less, tensors=wrong), partial=True)
    assert (verdicts.word, verdicts.exit_code) == ("divergence", 1)


def test_one_step_of_a_declared_result_that_is_left_out_is_a_divergence() -> None:
    whole = golden("encdec/ragged")
    less = [item for item in whole if item.key != ("logits", 2)]
    assert check(whole, replace(whole, tensors=less)).word == "divergence"  # logits are declared


def test_embeddings_and_positions_alone_are_no_parity_by_a_golden_that_has_nothing_else() -> None:
    """As `capture --taps` makes it."""
    whole = golden("encoder/one_token")
    tensors = [t for t in whole if t.info.name.endswith(("embed_tokens", "position_ids")) or t.info.op == "input"]
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER, materialised=[t.info.name for t in tensors])
    captured = replace(whole, tensors=tensors, run=run)
    assert check(captured, captured).word == "partial"


def test_the_result_of_a_mode_that_nobody_knows_yet_is_its_last_tap() -> None:
    whole = golden("encoder/one_token")
    case = pb.Case.FromString(whole.case.SerializeToString())
    case.mode = 99  # type: ignore[assignment]
    assert results(replace(whole, case=case)) == [("encoder.norm", 0)]


def test_another_row_that_nothing_trains_is_another_case(tmp_path: Path) -> None:
    whole = golden("training/causal")
    changed = pb.Case.FromString(whole.case.SerializeToString())
    changed.training.padding_idx = 4
    with pytest.raises(ParityError, match="padding_idx"):
        check(whole, copy(whole, tmp_path / "other.pb", case=changed))


def test_another_filter_is_another_case(tmp_path: Path) -> None:
    whole = golden("generation/sample")
    changed = pb.Case.FromString(whole.case.SerializeToString())
    changed.generation.top_p = 0.95
    with pytest.raises(ParityError, match="top_p"):
        check(whole, copy(whole, tmp_path / "other.pb", case=changed))
