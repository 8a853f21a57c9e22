"""What the judge of tokenizers lets pass, what it does not, and what it says of the difference.

It runs `text.compare`, `stages.rendered_ids`, `stages.symbols`, too.
"""

from __future__ import annotations

import pytest
from tokenization_by_hand import SPOILT, changed, failing

from qwen3_golden import STAGES, Recording, pb
from qwen3_golden.stages import BATCH, CONVERSATION, DECODING, ENCODING
from qwen3_parity.check import check
from qwen3_parity.text.stages.chunks import early
from qwen3_parity.text.table import TABLE

TEXT = "Hello, don't 12\u00e9"


def test_every_stage_can_be_spoilt_shown_and_asked_for() -> None:
    assert set(SPOILT) == set(TABLE) == set(STAGES)


def test_a_recording_is_in_parity_with_itself_and_every_stage_of_every_text_counts(golden: Recording) -> None:
    verdicts = check(golden, changed(golden))
    assert verdicts.word == "parity" and verdicts.exit_code == 0 and verdicts.identical
    count = 2 * len(ENCODING) + 2 * len(DECODING) + len(BATCH) + len(CONVERSATION)
    assert verdicts.compared == verdicts.of == count
    assert all(tap.exact and tap.metrics is not None and tap.metrics.count > 0 for tap in verdicts.taps)


@pytest.mark.parametrize("stage", STAGES)
def test_one_spoilt_stage_fails_alone_and_is_named_with_its_text(stage: str, golden: Recording) -> None:
    verdicts = check(golden, changed(golden, SPOILT[stage]))
    assert verdicts.exit_code == 1 and failing(verdicts) == [stage]
    [problem] = verdicts.problems
    assert problem.where.startswith(f"tokenizer.{stage} of ") and problem.first_bad == problem.where
    assert problem.expected != problem.got and problem.fault == "candidate"
    assert problem.next_step == "qwen3-parity diagnose golden.pb candidate.pb"


def test_ids_of_a_pre_token_are_judged_beside_those_of_the_whole(golden: Recording) -> None:
    verdicts = check(golden, changed(golden, lambda made: made.encoding[0].segment[0].pre_token[0].id.append(1)))
    assert failing(verdicts) == ["ids"]
    assert "ids of each pre-token" in verdicts.problems[0].rule


def test_the_first_stage_of_a_text_is_named_in_all_that_follow(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        SPOILT["symbols"](made)
        SPOILT["ids"](made)
        SPOILT["decoded"](made)

    first = [problem.first_bad for problem in check(golden, changed(golden, change)).problems]
    assert first == ["tokenizer.symbols of words"] * 2 + ["tokenizer.decoded of cut"]


def test_a_message_shows_the_pieces_around_the_first_difference_and_the_place_in_the_text(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        one = made.encoding[0].segment[2].pre_token
        one[0].end = one[0].end_byte = 4
        del one[1]

    [problem, *_] = check(golden, changed(golden, change)).problems
    assert problem.where == "tokenizer.pre_tokens of words"
    assert "first at 1 of 3, in the text 'Hello <x>▸ you'" in problem.rule
    assert (problem.expected, problem.got) == ("Hello| |you", "Hello| you")


def test_what_a_person_cannot_see_is_escaped(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        made.decoding[0].text = "a\u202e\x1b[31m"

    [problem] = check(golden, changed(golden, change)).problems
    assert "\x1b" not in str(problem) and r"\x1b" in problem.got and r"\u202e" in problem.got


def test_symbols_stay_readable_and_what_no_screen_shows_is_escaped(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        made.encoding[0].segment[2].pre_token[0].symbols = "Ġ\x1b"

    [problem] = check(golden, changed(golden, change)).problems
    assert problem.got == r"Hello|Ġ\x1b|you"


def test_a_long_text_is_cut_around_the_difference(golden: Recording) -> None:
    golden.tokenization.conversation[0].rendered = "a" * 5000 + "b" + "c" * 5000
    other = changed(golden, lambda made: setattr(made.conversation[0], "rendered", "a" * 5000 + "B" + "c" * 5000))
    [problem] = check(golden, other).problems
    assert len(str(problem)) < 500 and "5000 of 10001" in problem.rule and "aB" in problem.got


def test_a_stream_may_give_text_out_earlier(golden: Recording) -> None:
    early = changed(golden, lambda made: made.decoding[0].chunk.__setitem__(slice(None), ["a", "é", "\ufffd", ""]))
    assert check(golden, early).exit_code == 0


def test_what_can_never_be_a_character_may_be_given_out_before_the_next_byte() -> None:
    """Half a surrogate: Python's decoder still waits for its third byte, others need not."""
    assert early([b"\xed", b"\xa0", b"\x80"], ["", "\ufffd\ufffd", "\ufffd", ""]) is None


@pytest.mark.parametrize(
    ("chunks", "at"),
    [
        (["a\u00e9\ufffd", "", "", ""], 0),
        (["a\u00e9", "", "\ufffd", ""], 0),
        (["a", "\u00e9\ufffd", "", ""], 1),
    ],
)
def test_a_stream_that_gives_out_what_its_ids_have_not_brought_fails(
    chunks: list[str], at: int, golden: Recording
) -> None:
    ahead = changed(golden, lambda made: made.decoding[0].chunk.__setitem__(slice(None), chunks))
    [problem] = check(golden, ahead).problems
    assert f"gave out what its ids had not brought, first at chunk {at}" in problem.rule


def test_a_stream_that_holds_whole_characters_back_is_late(golden: Recording) -> None:
    late = changed(golden, lambda made: made.decoding[0].chunk.__setitem__(slice(None), ["a", "", "", "é\ufffd"]))
    [problem] = check(golden, late).problems
    assert "whole characters are held back, first at chunk 2" in problem.rule


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        (["a\ufffd", "\ufffd", "\u00e9", ""], "half a character"),
        (["a", "", "\u00e9", ""], "do not join"),
        (["a", "", "\u00e9\ufffd"], "a chunk for each id"),
    ],
)
def test_chunks_are_whole_characters_that_make_the_text_one_for_each_id(
    chunks: list[str], says: str, golden: Recording
) -> None:
    [problem] = check(golden, changed(golden, lambda m: m.decoding[0].chunk.__setitem__(slice(None), chunks))).problems
    assert says in problem.rule
