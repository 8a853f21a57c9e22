"""The blind draw: rows with their threads and answers, seeds that show, and a run that no row can stop."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from detection.blind import command, draw, run
from detection.blind.answers import answers
from detection.blind.row import Row
from detection.blind.run import Judged, judged
from detection.blind.shows import first_moved, moved
from detection.draws import write_results
from detection.mutants.judged import short
from qwen3_golden import GOLDEN_ROOT, table

ROWS = {row.name: row for row in draw()}
SKIPPED = ROWS["B007"]
NEUTRAL = (
    "fit.concentrated: 93 % of the error stands in rows 1 and 2 of 3, in steps 1 to 4 of 5, in heads 2 and 3",
    "weight.unknown: these weights are of no tensor of the checkpoint",
    "fit.size: the error is 0.9 of its size; 12 of 400 elements are wrong, the largest by 3.4",
    "fit.everywhere: wrong at every position from step 1 on, right in step 0",
    "fit.past: right without a past and wrong in every step with one: what the cache holds, or what decode steps do in "
    "another way; cache_keys and cache_values tell which",
    "fit.rows: only the last token of the batch's row 2, slot 3, position 5",
    "unknown: no known mistake; the inputs are right and the output is not",
)
"""Texts that say where and how much, and no mechanism."""


def test_each_row_has_a_thread_and_a_name_of_its_own() -> None:
    rows = draw()
    assert len(rows) >= 90 and len(ROWS) == len({row.source for row in rows}) == len(rows)
    assert not [row.source for row in rows if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", row.source)]
    assert len({row.family for row in rows}) >= 20


def test_wrong_taps_and_cases_are_in_the_golden_set() -> None:
    known = {short(row.pattern) for row in table()}
    assert not [(row.name, tap) for row in draw() for tap in (row.wrong | row.also) - known]
    cases = {case for row in draw() for case in row.cases}
    assert not [case for case in cases if not (GOLDEN_ROOT / "cases" / f"{case}.pb").is_file()]


@pytest.mark.parametrize("name", ROWS)
def test_the_mechanism_itself_is_a_right_answer_and_a_mere_place_is_none(name: str) -> None:
    answer = answers()[name]
    assert answer.is_right(answer.expect)
    assert not [text for text in NEUTRAL if answer.is_right(text)]


def test_each_answer_is_of_a_row() -> None:
    assert list(answers()) == list(ROWS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("B007", "B105") else pytest.mark.slow) for name in ROWS]
)
def test_a_seed_moves_its_own_taps_first_and_shows_at_its_levels(name: str) -> None:
    row = ROWS[name]
    first, levels = first_moved(moved(row))
    assert first in row.wrong | row.also and levels == set(row.levels)


def test_a_seed_that_does_nothing_moves_nothing() -> None:
    assert first_moved(moved(replace(SKIPPED, seed=lambda _patch: None))) == ("", frozenset())


def fault(place: str, text: str, *others: str) -> Any:
    said = (SimpleNamespace(name="x", says=text),)
    return SimpleNamespace(places=(place, *others), name="x", explanations=said, findings=())


def answered(monkeypatch: pytest.MonkeyPatch, *faults: Any) -> Judged:
    monkeypatch.setattr("detection.levels.blamed.diagnose", lambda *_: SimpleNamespace(faults=faults, misplaced=()))
    return judged(SKIPPED, ["all"])[0]


Q, K = (f"decoder.layers.{{layer}}.merged_attn.{name}_norm" for name in "qk")


@pytest.mark.slow
def test_answers_are_judged_by_place_and_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    both = answered(monkeypatch, fault(Q, "the norm is left out"), fault(K, "not normed"))
    assert (both.caught, both.blamed, both.is_right) == (True, True, True)
    half = answered(monkeypatch, fault(Q, "the norm is left out"))
    assert (half.blamed, half.is_right, half.missed) == (False, True, ("merged_attn.k_norm",))
    blames_two = answered(monkeypatch, fault(Q, "another eps", K), fault("decoder.norm", "not normed"))
    assert (blames_two.blamed, blames_two.is_right, blames_two.innocents) == (False, False, ("decoder.norm",))
    assert [answer.is_right for answer in blames_two.said] == [False, True]


def test_no_fault_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = answered(monkeypatch)
    assert (silent.caught, silent.blamed, silent.is_right) == (True, False, False)


def die(_patch: Any) -> None:
    os._exit(3)


def hang(_patch: Any) -> None:
    time.sleep(3600)


def fail(_patch: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("seed", "limit", "failure"),
    [(die, 600.0, "the process died"), (hang, 0.5, "time limit"), (fail, 600.0, "ZeroDivisionError")],
)
def test_a_row_that_crashes_fails_alone(seed: Callable[[Any], None], limit: float, failure: str) -> None:
    row = replace(SKIPPED, seed=seed)
    [at_all, at_logits] = judged(row, ["all", "logits"], limit)
    assert failure in at_all.failure and failure in at_logits.failure and not at_all.caught


def test_the_command_prints_each_row_and_the_sums_and_goes_on_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def invented(row: Row, levels: list[str], _timeout: float) -> list[Judged]:
        ran.extend(levels)
        said = (run.Said("decoder.norm", "norm.x", "not normed", row.name == "B007"),)
        return [Judged(row.name, level, True, caught=True, said=said) for level in levels]

    monkeypatch.setattr(command, "judged", invented)
    out = tmp_path / "rows.json"
    arguments = ["--only", "B007", "--only", "B008", "--json", str(out)]
    done = CliRunner().invoke(command.blind, [*arguments, "--level", "all"])
    assert done.exit_code == 0, done.output
    assert "B007 all: caught, blamed, right\n    + decoder.norm: norm.x: not normed" in done.output
    assert "B008 all: caught, blamed, not right" in done.output and "1 of 2" in done.output
    assert CliRunner().invoke(command.blind, [*arguments, "--level", "all", "--level", "logits"]).exit_code == 0
    assert ran == ["all", "all", "logits", "logits"] and len(json.loads(out.read_text())) == 4


def test_a_row_that_is_not_caught_where_it_shows_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "judged", lambda row, levels, _: [Judged(row.name, level, True) for level in levels])
    done = CliRunner().invoke(command.blind, ["--only", "B007", "--level", "modules"])
    assert done.exit_code == 1 and "B007 modules: not caught" in done.output


def test_a_name_that_is_no_rows_and_a_file_that_is_no_run_are_said(tmp_path: Path) -> None:
    assert "no row has such a name" in CliRunner().invoke(command.blind, ["--only", "X*"]).output
    path = tmp_path / "rows.json"
    for level in ("", "lower"):
        write_results(path, [Judged("B007", level, True)])
        done = CliRunner().invoke(command.blind, ["--only", "B007", "--json", str(path)])
        assert done.exit_code == 2 and "these are no rows of the blind draw" in done.output
