"""`cases` lists what is committed, and `show` says what a name means: a case, a mistake, a bug, and what is like it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.known_mistakes import known_mistake
from qwen3_parity.diagnosis.known_words import EDITS, FITTED, STRUCTURES
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.golden_path import case_names
from qwen3_parity.mistakes.as_loaded import AS_LOADED

ROOT = GOLDEN_ROOT.parent
EDITS_FOLDER = ROOT / "tools" / "qwen3_parity" / "diagnosis" / "edits"
STRUCTURE = ROOT / "tools" / "qwen3_parity" / "diagnosis" / "findings" / "structure"


def said(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_cases_are_listed_with_level_taps_and_what_they_show() -> None:
    (row,) = (line for line in said("cases").splitlines() if line.split()[:1] == ["decoder/ragged_decode"])
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
    assert row.split()[1:3] == ["cache", str(len(golden.tensors))] and golden.case.description[:20] in row


@pytest.mark.parametrize("level", LEVELS)
def test_the_cases_of_a_level_are_those_that_it_asks_for(level: str) -> None:
    listed = json.loads(said("cases", "--level", level, "--json"))["cases"]
    assert [case["name"] for case in listed] == cases_of([level], case_names())


def test_globs_choose_among_the_cases_of_a_level() -> None:
    listed = json.loads(said("cases", "op/r*", "decoder/*", "--level", "ops", "--json"))["cases"]
    assert listed and all(case["name"].startswith("op/r") and case["level"] == "ops" for case in listed)
    assert "no golden of this name" in said("cases", "nothing/*", code=2)


def test_a_case_is_shown_with_its_inputs_and_where_its_checkpoint_lies() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
    text = said("show", "decoder/ragged_decode", "--tap", "logits")
    (checkpoint,) = golden.case.checkpoint
    assert f"checkpoint decoder: {GOLDEN_ROOT / 'checkpoints' / checkpoint.name}" in text
    ids = golden["input.decoder_input_ids", 0].array
    assert "  " + "; ".join(" ".join(map(str, row)) for row in np.asarray(ids)) in text
    assert f"file {golden.source}" in text


def test_an_op_alone_is_shown_with_its_numbers() -> None:
    assert "attributes: eps 1e-06" in said("show", "op/rms_norm")
    assert json.loads(said("show", "op/rms_norm", "--json"))["attributes"] == {"eps": 1e-6}


def test_a_checkpoint_that_is_named_like_a_way_out_is_looked_for_nowhere(tmp_path: Path) -> None:
    from qwen3_golden import pb
    from qwen3_parity.report.show_case import checkpoint_path

    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
    assert checkpoint_path(golden, pb.Checkpoint(name="../..")) is None


@pytest.mark.parametrize(
    "name", ["rope.interleaved", "pre_tokens.digits_by_three", "edit.constant", "weight.scaled", "weight.as_loaded"]
)
def test_a_mistake_is_shown_with_what_to_do(name: str) -> None:
    lines = said("show", name).splitlines()
    assert lines[0] == name and any(line.startswith("fix: ") for line in lines)


def test_two_mistakes_at_once_are_shown_both() -> None:
    both = json.loads(said("show", "rope.interleaved+norm.eps", "--json"))["mistakes"]
    assert [(mistake["name"], "rope" in mistake["where"]) for mistake in both] == [
        ("rope.interleaved", True),
        ("norm.eps", False),
    ]


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("decoder/plian", "decoder/plain"),
        ("MSK-201", "MSK-20"),
        pytest.param("rope.interleavd", "rope.interleaved", marks=pytest.mark.slow),  # asks the whole library
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(typed: str, near: str) -> None:
    (line,) = (line for line in said("show", typed, code=2).splitlines() if "did you mean " in line)
    assert near in line


def derived(file: str, column: int) -> set[str]:
    """The mistakes of a table of the derived seeds: those with an answer, or those that no seed can make."""
    lines = (ROOT / "tests" / "detection" / "derived" / file).read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return {words[column] for words in rows if len(words) > column}


@pytest.mark.slow
def test_every_name_that_the_judge_gives_is_known() -> None:
    names = derived("outcomes.txt", 1)
    assert len(names) > 300 and not [name for name in sorted(names) if known_mistake(name, weights_of) is None]


def test_general_words_are_for_mistakes_that_there_are() -> None:
    assert set(FITTED) <= derived("outcomes.txt", 1) | derived("reasons.txt", 0)
    grammar = "".join(path.read_text(encoding="utf-8") for path in EDITS_FOLDER.rglob("*.py"))
    written = {word for word in grammar.split('"') if word.startswith("edit.")}
    assert set(EDITS) == written


def test_what_numbers_say_by_their_structure_can_be_shown() -> None:
    """What `structure.orders`, `structure.sums` and their like give."""
    sources = "".join(path.read_text(encoding="utf-8") for path in STRUCTURE.rglob("*.py"))
    written = {word for word in sources.split('"') if word.startswith("structure.") and " " not in word}
    assert set(STRUCTURES) == {*written, AS_LOADED}
    assert said("show", "structure.blocks").startswith("structure.blocks")
