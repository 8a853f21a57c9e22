"""What a tokenization may leave out, must declare and must deliver, and which case it is one of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tokenization_by_hand import Change, changed, without

from qwen3_golden import STAGES, ParityError, Recording, pb
from qwen3_golden.stages import BATCH, CONVERSATION, DECODING
from qwen3_parity.check import check

RESULTS = ("ids", "decoded", "batch", "rendered_ids")


@pytest.mark.parametrize("stage", sorted(set(STAGES) - set(RESULTS)))
def test_a_stage_that_is_left_out_counts_as_not_compared(stage: str, golden: Recording) -> None:
    candidate = changed(golden, without(stage), [one for one in STAGES if one != stage])
    verdicts = check(golden, candidate)
    assert verdicts.exit_code == 0, verdicts.problems
    assert verdicts.compared < verdicts.of and {name.split(" ")[0] for name in verdicts.not_materialised} == {
        f"tokenizer.{stage}"
    }


@pytest.mark.parametrize("stage", RESULTS)
def test_without_a_result_a_verdict_is_partial(stage: str, golden: Recording) -> None:
    verdicts = check(golden, changed(golden, without(stage), [one for one in STAGES if one != stage]))
    assert (verdicts.word, verdicts.exit_code) == ("partial", 1) and verdicts.compared < verdicts.of
    assert {where.partition(" ")[0] for where in verdicts.no_results} == {f"tokenizer.{stage}"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_declared_must_be_delivered(stage: str, golden: Recording) -> None:
    verdicts = check(golden, changed(golden, without(stage)))
    assert verdicts.exit_code == 1 and verdicts.compared < verdicts.of
    assert verdicts.problems[0].where == f"tokenizer.{stage}"
    assert verdicts.problems[0].rule == "declared, but never delivered"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_delivered_must_be_declared(stage: str, golden: Recording) -> None:
    verdicts = check(golden, changed(golden, stages=[one for one in STAGES if one != stage]))
    assert verdicts.exit_code == 1
    assert "delivered but not declared" in [problem.rule for problem in verdicts.problems]


def test_a_port_that_shows_nothing_but_ids_is_judged_on_them(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        for text in made.encoding:
            text.ClearField("segment")
            text.ClearField("offset")

    stages = ("ids", *DECODING, *BATCH, *CONVERSATION)
    assert check(golden, changed(golden, change, stages)).exit_code == 0


def test_a_stage_without_a_name_in_the_schema_is_a_failure(golden: Recording) -> None:
    verdicts = check(golden, changed(golden, stages=[*STAGES, "tokens"]))
    assert [problem.where for problem in verdicts.problems] == ["tokenizer.tokens"]


def test_nothing_compared_is_no_pass(golden: Recording) -> None:
    golden.tokenization.Clear()
    verdicts = check(golden, changed(golden))
    assert verdicts.exit_code == 1 and "zero comparisons" in verdicts.problems[0].rule


GIVEN: dict[str, Change] = {
    "encoding 0 (words), field text": lambda made: setattr(made.encoding[0], "text", "Hello"),
    "encoding 1 (empty), field split_special_tokens": lambda m: setattr(m.encoding[1], "split_special_tokens", True),
    "decoding 0 (cut), field id": lambda made: made.decoding[0].id.append(1),
    "batch 0 (rows), field padding_side": lambda made: setattr(made.batch[0], "padding_side", "left"),
    "conversation 0 (talk), field thinking": lambda made: setattr(made.conversation[0], "thinking", pb.THINKING_ON),
    "encoding": lambda made: made.encoding.__delitem__(1),
}


@pytest.mark.parametrize("where", GIVEN)
def test_another_given_field_is_another_case_and_named(where: str, golden: Recording) -> None:
    with pytest.raises(ParityError) as caught:
        check(golden, changed(golden, GIVEN[where]))
    assert caught.value.where == f"candidate.pb: {where}"


def test_another_tokenizer_is_another_case(golden: Recording) -> None:
    other = pb.Case.FromString(golden.case.SerializeToString())
    other.checkpoint[0].sha256 = bytes([1] * 32)
    with pytest.raises(ParityError, match="tokenizer"):
        check(golden, replace(changed(golden), case=other))


def test_a_golden_with_a_name_twice_is_our_fault(golden: Recording) -> None:
    golden.tokenization.encoding[1].name = "words"
    with pytest.raises(ParityError) as caught:
        check(golden, changed(golden))
    assert caught.value.fault == "harness bug"
