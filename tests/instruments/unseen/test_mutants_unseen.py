"""The unseen bugs: each is caught and blamed exactly with every tap; an answer is right by its name and its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from detection.mutants.isolated import CHECKPOINTS, golden_of
from detection.mutants.judged import by_replay, short
from detection.unseen import Row, rows
from detection.unseen.command import unseen
from detection.unseen.row import Rule, row
from detection.unseen.run import recorded, run_all
from detection.unseen.table import totals
from qwen3_golden import pattern_of, table
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.tap_sets import TAP_SETS

QUICK = {"B4", "X19", "G8"}
"""Bugs of small goldens, which `make test` runs."""


def test_there_are_70_with_a_name_of_their_own_a_golden_and_levels() -> None:
    assert len({bug.name for bug in rows()}) == len(rows()) == 70
    assert all(golden_of(bug.case).tensors and set(bug.levels) <= set(TAP_SETS) and bug.answers for bug in rows())


def test_what_is_wrong_of_a_bug_are_taps_of_networks() -> None:
    known = {short(bug.pattern) for bug in table()}
    gradients = {"gradient.shared.weight", "next_token_probs", "loss"}
    parameters = {f"gradient.{name}.weight" for name in known}
    assert {name for bug in rows() for name in bug.wrong} <= known | gradients | parameters


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=bug.name, marks=[] if bug.name in QUICK else pytest.mark.slow) for bug in rows()]
)
def test_with_every_tap_a_bug_is_caught_and_its_ops_are_blamed_and_no_other(bug: Row, tmp_path: Path) -> None:
    golden = golden_of(bug.case)
    candidate = recorded(bug, golden, tmp_path)
    assert check(golden, candidate).exit_code == 1
    groups = [
        frozenset(map(short, sought.places))
        for sought in by_replay(golden, candidate, weights_of(candidate, CHECKPOINTS))
    ]
    there = {short(pattern_of(item.info.name)) for item in candidate}
    assert groups and not [group for group in groups if not group & bug.wrong]
    assert not (bug.wrong & there).difference(*groups)


def test_an_answer_is_right_by_its_name_or_by_what_it_says_beside_it() -> None:
    sought = row("X", "a bug", None, "logits", ["cache.slot_map", "from.*: row 0", "*: multiple of 4"], "a/b", "layer")
    assert sought.answers == (Rule("cache.slot_map"), Rule("from.*", "row 0"), Rule("*", "multiple of 4"))
    assert sought.fits("cache.slot_map", "") and sought.fits("from.other_row", "Row 0 stands there")
    assert sought.fits("fit.size", "in steps whose length is a multiple of 4")
    assert (
        not sought.fits("from.other_row", "row 1")
        and not sought.fits("cache.slot", "row 0")
        and not sought.fits("", "")
    )


def test_a_bug_that_raises_is_a_failure_of_ours_at_every_level_and_the_others_go_on() -> None:
    def seed(patch: object) -> None:
        raise RuntimeError("broken seed")

    broken = row("X", "a bug", seed, "logits", ["norm.eps"], "encoder/one_token", "layer")
    first, second = run_all([broken, broken], [], 600.0)
    assert first == second and [outcome.level for outcome in first] == ["all", "layer"]
    assert not [outcome for outcome in first if "broken seed" not in outcome.failure or outcome.caught]
    assert totals(first)["all"]["failures"] == totals(first)["layer"]["failures"] == 1


def test_a_bug_that_the_judge_fails_at_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("detection.levels.blamed.diagnose", fails)
    (bug,) = [bug for bug in rows() if bug.name == "B4"]
    ((outcome,),) = run_all([bug], ["all"], 600.0)
    assert outcome.caught and not outcome.blamed and "ZeroDivisionError" in outcome.failure


@pytest.mark.slow
def test_the_command_writes_what_it_says_and_tells_totals(tmp_path: Path) -> None:
    done = CliRunner().invoke(unseen, ["--only", "X2", "--level", "all", "--json", str(tmp_path / "x2.json")])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "x2.json").read_text())
    assert written["totals"]["all"]["caught"] == written["totals"]["all"]["blamed"] == 1
    assert [bug["name"] for bug in written["bugs"]] == ["X2"] and written["bugs"][0]["said"]


def test_a_name_that_no_bug_has_is_refused_with_exit_code_2() -> None:
    done = CliRunner().invoke(unseen, ["--only", "Q99"])
    assert done.exit_code == 2 and "no bug has such an id" in done.output
