"""The judge of tokenizers: what it lets pass, what it does not, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from qwen3_golden import GOLDEN_ROOT, STAGES, ParityError, Recording, pb, read, write
from qwen3_golden.stages import BATCH, CONVERSATION, DECODING, ENCODING
from qwen3_parity import report
from qwen3_parity.check import check
from qwen3_parity.regenerate import MOVED, SAME, differences
from qwen3_parity.show import describe
from qwen3_parity.suite import chosen_goldens, goldens, tokenization_goldens
from qwen3_parity.tokenization.given import given
from qwen3_parity.tokenization.views import HAS, VIEWS
from qwen3_parity.verdict import Verdicts

CASES = GOLDEN_ROOT / "cases" / "tokenization"
TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
Change = Callable[[pb.Tokenization], None]

TEXT = "Hello, don't 12\u00e9"


def by_hand() -> Recording:
    """A golden of two texts, two lists of ids, a batch and a conversation; its numbers mean nothing."""
    made = pb.Tokenization()
    text = made.encoding.add(name="words", text="Hello <x> you", id=[7, 8, 90, 9, 5])
    text.offset.extend(pb.Span(begin=b, end=e) for b, e in ((0, 3), (3, 5), (5, 9), (9, 12), (12, 13)))
    left = text.segment.add(begin=0, end=5, normalized="Hello")
    left.pre_token.add(begin=0, end=5, begin_byte=0, end_byte=5, symbols="Hello", merge=[1, 2, 0], id=[7, 8])
    text.segment.add(begin=5, end=9, added_token=90)
    right = text.segment.add(begin=9, end=13, normalized=" you")
    right.pre_token.add(begin=0, end=1, begin_byte=0, end_byte=1, symbols="Ġ", id=[9])
    right.pre_token.add(begin=1, end=4, begin_byte=1, end_byte=4, symbols="you", merge=[4], id=[5])
    made.encoding.add(name="empty")
    ids = made.decoding.add(name="cut", id=[3, 4, 5], text="a\u00e9\ufffd", chunk=["a", "", "\u00e9", "\ufffd"])
    ids.piece.extend([b"a\xc3", b"\xa9", b"\xf0\x9f"])
    made.decoding.add(name="none", chunk=[""])
    rows = made.batch.add(name="rows", text=["x", "x y"], padding_side="right", truncation_side="right")
    rows.row.add(input_id=[1, 0], attention_mask=[1, 0])
    rows.row.add(input_id=[1, 2], attention_mask=[1, 1])
    made.conversation.add(name="talk", messages="[]", rendered="<|im_start|>", id=[90])
    case = pb.Case(name="tokenization/by_hand", tier=pb.TIER_TEXT, mode=pb.TOKENIZATION)
    case.checkpoint.add(role="tokenizer", name="none", sha256=bytes(32))
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=STAGES)
    return Recording(case, pb.Provenance(producer="hand"), run, [], tokenization=made, source="golden.pb")


@pytest.fixture
def golden() -> Recording:
    return by_hand()


def changed(golden: Recording, change: Change = lambda _: None, stages: Sequence[str] = STAGES) -> Recording:
    """A candidate: the golden with one thing changed, which declares `stages`."""
    made = pb.Tokenization()
    made.CopyFrom(golden.tokenization)
    change(made)
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=stages)
    return replace(golden, tokenization=made, run=run, source="candidate.pb")


def without(stage: str) -> Change:
    """Take everything of one stage out of a tokenization."""

    def change(made: pb.Tokenization) -> None:
        for text in made.encoding:
            if stage in ("ids", "offsets"):
                text.ClearField("id" if stage == "ids" else "offset")
            for segment in text.segment:
                if stage == "normalized":
                    segment.ClearField("normalized")
                for name in ("begin", "end", "added_token") if stage == "segments" else ():
                    segment.ClearField(name)  # type: ignore[arg-type]
                own = {
                    "pre_tokens": ("begin", "end", "begin_byte", "end_byte"),
                    "symbols": ("symbols",),
                    "merges": ("merge",),
                    "ids": ("id",),
                }
                for one in segment.pre_token:
                    for name in own.get(stage, ()):
                        one.ClearField(name)  # type: ignore[arg-type]
        for decoding in made.decoding:
            for name in {"pieces": ("piece",), "decoded": ("text",), "chunks": ("chunk",)}.get(stage, ()):
                decoding.ClearField(name)  # type: ignore[arg-type]
        for batch in made.batch if stage == "batch" else ():
            batch.ClearField("row")
        for talk in made.conversation:
            if stage in ("rendered", "rendered_ids"):
                talk.ClearField("rendered" if stage == "rendered" else "id")

    return change


def failing(verdicts: Verdicts) -> list[str]:
    return [tap.name.removeprefix("tokenizer.") for tap in verdicts.taps if not tap.passed]


def set_offset(made: pb.Tokenization) -> None:
    made.encoding[0].offset[1].end += 1


def set_mask(made: pb.Tokenization) -> None:
    made.batch[0].row[0].attention_mask[1] = 1


SPOILT: dict[str, Change] = {
    "segments": lambda made: setattr(made.encoding[0].segment[1], "added_token", 91),
    "normalized": lambda made: setattr(made.encoding[0].segment[2], "normalized", "_you"),
    "pre_tokens": lambda made: setattr(made.encoding[0].segment[2].pre_token[0], "end_byte", 2),
    "symbols": lambda made: setattr(made.encoding[0].segment[2].pre_token[0], "symbols", "_"),
    "merges": lambda made: made.encoding[0].segment[0].pre_token[0].merge.__setitem__(slice(0, 2), [2, 1]),
    "ids": lambda made: made.encoding[0].id.__setitem__(4, 6),
    "offsets": set_offset,
    "pieces": lambda made: made.decoding[0].piece.__setitem__(1, b"\xaa"),
    "decoded": lambda made: setattr(made.decoding[0], "text", "a\u00e9"),
    "chunks": lambda made: made.decoding[0].chunk.__setitem__(1, "\ufffd"),
    "batch": set_mask,
    "rendered": lambda made: setattr(made.conversation[0], "rendered", "<|im_start|> "),
    "rendered_ids": lambda made: made.conversation[0].id.append(90),
}


def test_every_stage_can_be_spoilt_shown_and_asked_for() -> None:
    assert set(SPOILT) == set(VIEWS) == set(HAS) == set(STAGES)


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
def test_the_result_may_not_be_left_out(stage: str, golden: Recording) -> None:
    verdicts = check(golden, changed(golden, without(stage), [one for one in STAGES if one != stage]))
    assert verdicts.exit_code == 1 and verdicts.compared < verdicts.of
    assert [problem.where for problem in verdicts.problems] == [f"tokenizer.{stage}"]
    assert "result" in verdicts.problems[0].rule


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


def malformed(made: pb.Tokenization) -> None:
    text = made.encoding[0]
    text.segment[0].begin, text.segment[0].end = 4_000_000_000, 3
    text.segment[2].pre_token[0].begin, text.segment[2].pre_token[0].end = 900, 2
    text.segment[1].normalized = "x"
    text.segment.add()
    text.offset[0].begin = 4_000_000_000
    del text.offset[3:]
    del text.id[1:]
    made.decoding[0].chunk.extend(["", "\ufffd"])
    del made.batch[0].row[1]
    made.batch[0].row[0].input_id.extend([1, 2, 3])


def test_a_malformed_recording_fails_and_can_be_shown(golden: Recording) -> None:
    candidate = changed(golden, malformed)
    verdicts = check(golden, candidate)
    assert {"segments", "pre_tokens", "ids", "offsets", "chunks", "batch"} <= set(failing(verdicts))
    assert text_of(report.terminal(verdicts, every=True)) and text_of(describe(candidate))


def text_of(page: RenderableType) -> str:
    console = Console(width=200, file=StringIO())
    console.print(page)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_given_keeps_the_given_fields_and_no_others(golden: Recording) -> None:
    bare = given(golden.tokenization)
    assert not any(HAS[stage](item) for stage in ENCODING for item in bare.encoding)
    assert not any(HAS[stage](item) for stage in DECODING for item in bare.decoding)
    assert not bare.batch[0].row and not bare.conversation[0].rendered and not bare.conversation[0].id
    assert bare.encoding[0].text == "Hello <x> you" and list(bare.decoding[0].id) == [3, 4, 5]
    assert list(bare.batch[0].text) == ["x", "x y"] and bare.conversation[0].messages == "[]"


def test_pages_begin_with_the_first_stage_of_each_text_and_count_the_stages(golden: Recording) -> None:
    def change(made: pb.Tokenization) -> None:
        SPOILT["symbols"](made)
        SPOILT["ids"](made)
        SPOILT["decoded"](made)

    verdicts = check(golden, changed(golden, change))
    assert "23 of 23 stages compared (100 %), 3 differ, first tokenizer.symbols of words" in report.summary(verdicts)
    shown = text_of(report.terminal(verdicts))
    assert "other symbols" in shown and "other decoded" in shown and "other ids" not in shown
    assert "1 more failures" in shown
    page = report.html([verdicts])
    assert "other symbols" in page and "<svg" not in page and "tokenizer.offsets" in page
    assert "tokenizer.symbols of words" in text_of(report.overview([verdicts]))


def test_a_page_escapes_what_a_recording_holds(golden: Recording) -> None:
    verdicts = check(golden, changed(golden, lambda m: setattr(m.conversation[0], "rendered", "<script>")))
    assert "<script>" not in report.html([verdicts])


def test_what_a_pass_does_not_prove_no_longer_leaves_tokenization_out() -> None:
    assert not any("tokenization," in sentence for sentence in report.NOT_PROVEN)


def test_show_lists_the_stages_of_each_text(golden: Recording) -> None:
    shown = text_of(describe(golden))
    assert "Hello| |you" in shown and "empty" in shown and "<|im_start|>" in shown
    alone = text_of(describe(golden, ["tokenizer.pre_tokens"]))
    assert "Hello| |you" in alone and "<|im_start|>" not in alone


def test_networks_and_tokenizers_are_listed_apart() -> None:
    assert not set(goldens()) & set(tokenization_goldens())
    assert set(chosen_goldens("*", None)) == {*goldens(), *tokenization_goldens()}
    assert chosen_goldens("*", "somebody:factory") == goldens()
    assert chosen_goldens("tokenization/*", "somebody:factory") == tokenization_goldens()


@pytest.mark.parametrize("path", tokenization_goldens(), ids=lambda path: path.stem)
def test_every_golden_is_in_parity_with_itself(path: Path) -> None:
    verdicts = check(path, path)
    assert verdicts.exit_code == 0 and verdicts.compared == verdicts.of > 0


def test_regenerating_compares_tokenizations_by_equality(tmp_path: Path) -> None:
    for side in ("golden", "staging"):
        (tmp_path / side / "cases" / "tokenization").mkdir(parents=True)
    golden = read(CASES / "decoding.pb")
    write(tmp_path / "golden" / "cases" / "tokenization" / "decoding.pb", golden)
    elsewhere = replace(golden, provenance=pb.Provenance(producer="elsewhere"))
    staged = tmp_path / "staging" / "cases" / "tokenization" / "decoding.pb"

    def late(made: pb.Tokenization) -> None:
        one = next(one for one in made.decoding if one.text)
        one.chunk[:] = [""] * len(one.id) + [one.text]

    write(staged, elsewhere)
    assert [one.kind for one in differences(tmp_path / "staging", tmp_path / "golden")] == [SAME]
    write(staged, replace(changed(elsewhere, late), run=golden.run))
    [difference] = differences(tmp_path / "staging", tmp_path / "golden")
    assert difference.kind == MOVED and "tokenization" in difference.text
