"""Seeded bugs of training are caught by far, blamed on what is wrong alone, and called by their names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_all
from detection.mutants.judged import by_diagnosis, by_replay
from detection.mutants.mutant import Mutant
from detection.mutants.outcome import Outcome

MUTANTS: Mapping[str, Mutant] = {one.name: one for one in catalogue() if one.name.startswith("own/gradient-")}
QUICK = (*("own/gradient-tied-head", "own/gradient-padding", "own/gradient-encoder-cut", "own/gradient-memory-values"),)
NAMED = ("own/gradient-tied-head", "own/gradient-scaled")
"""Those whose diagnosis takes a second; the others' are in the whole catalogue."""


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, Outcome]:
    some = [MUTANTS[name] for name in QUICK]
    return {one.name: one for one in run_all(some, judge=by_replay, cases=lambda one: one.cases[-1:], workers=2)}


def test_there_is_a_bug_of_every_kind() -> None:
    assert len(MUTANTS) == 8
    assert {case for one in MUTANTS.values() for case in one.cases} == {
        *("training/tied", "training/untied", "training/causal")
    }


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", QUICK)
def test_a_bug_of_training_is_caught_and_blamed_on_no_innocent(name: str, outcomes: Mapping[str, Outcome]) -> None:
    found = outcomes[name]
    assert found.caught, found.failure
    assert min(found.shares) >= 2
    assert found.blamed, found.judged


def test_a_bug_of_training_is_called_by_its_name() -> None:
    chosen = [MUTANTS[name] for name in NAMED]
    found = run_all(chosen, judge=by_diagnosis, cases=lambda one: one.cases[-1:], workers=2)
    assert [(one.name, one.judged) for one in found if not one.diagnosed] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_bug_of_training_is_called_by_its_name(name: str) -> None:
    (found,) = run_all([MUTANTS[name]], judge=by_diagnosis, timeout=300)
    assert found.caught and found.blamed and found.diagnosed, found.judged
