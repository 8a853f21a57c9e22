"""Tokenizations on the screen and on a page, listed, and regenerated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tokenization_by_hand import SPOILT, changed, failing, text_of

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read, write
from qwen3_golden.stages import DECODING, ENCODING
from qwen3_parity.check import check
from qwen3_parity.judge.selection import EVERY, Selection
from qwen3_parity.recording.regenerate import MOVED, SAME, differences
from qwen3_parity.recording.suite import chosen_goldens, goldens, tokenization_goldens
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.page.contents import Report
from qwen3_parity.report.page.html import html
from qwen3_parity.report.show import describe
from qwen3_parity.text.inputs import inputs_of
from qwen3_parity.text.table import TABLE

CASES = GOLDEN_ROOT / "cases" / "tokenization"


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


def test_given_keeps_the_given_fields_and_no_others(golden: Recording) -> None:
    bare = inputs_of(golden.tokenization)
    assert not any(TABLE[stage].has(item) for stage in ENCODING for item in bare.encoding)
    assert not any(TABLE[stage].has(item) for stage in DECODING for item in bare.decoding)
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
    page = html(Report([verdicts]))
    assert "other symbols" in page and "tokenizer.offsets" in page
    assert "tokenizer.symbols of words" in text_of(report.overview([verdicts]))


def test_a_page_escapes_what_a_recording_holds(golden: Recording) -> None:
    verdicts = check(golden, changed(golden, lambda m: setattr(m.conversation[0], "rendered", "<script>")))
    assert html(Report([verdicts])).count("<script>") == 2


def test_what_a_pass_does_not_prove_no_longer_leaves_tokenization_out() -> None:
    assert not any("tokenization," in sentence for sentence in report.NOT_PROVEN)


def test_show_lists_the_stages_of_each_text(golden: Recording) -> None:
    shown = text_of(describe(golden))
    assert "Hello| |you" in shown and "empty" in shown and "<|im_start|>" in shown
    alone = text_of(describe(golden, ["tokenizer.pre_tokens"]))
    assert "Hello| |you" in alone and "<|im_start|>" not in alone


def test_networks_and_tokenizers_are_listed_apart() -> None:
    assert not set(goldens()) & set(tokenization_goldens())
    assert set(chosen_goldens(EVERY, None)) == {*goldens(), *tokenization_goldens()}
    assert chosen_goldens(EVERY, "somebody:factory") == goldens(kinds=())
    assert chosen_goldens(Selection(("tokenization/*",)), "somebody:factory") == tokenization_goldens()


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
