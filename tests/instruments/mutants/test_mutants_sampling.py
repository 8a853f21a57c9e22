"""Seeded bugs of choosing tokens: each on the place that is wrong, and no other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import golden_of, run_all
from detection.mutants.judged import by_diagnosis, by_replay
from detection.mutants.outcome import Outcome
from detection.mutants.sampling import MUTANTS

NAMED = ("SMP-06", "SMP-08")
BLAMED = ("SMP-10", "own/filters-top-p-last")


def run(names: tuple[str, ...], judge: object) -> Mapping[str, Outcome]:
    chosen = [one for one in catalogue() if one.name in names]
    for mutant in chosen:
        golden_of(mutant.cases[0])  # read once: forks find it in memory
    found = run_all(chosen, judge=judge, cases=lambda one: one.cases[:1], workers=2)  # type: ignore[arg-type]
    return {one.name: one for one in found}


@pytest.fixture(scope="module")
def diagnosed() -> Mapping[str, Outcome]:
    return run(NAMED, by_diagnosis)


@pytest.fixture(scope="module")
def replayed() -> Mapping[str, Outcome]:
    return run(BLAMED, by_replay)


@pytest.mark.parametrize("name", NAMED)
def test_a_wrong_choice_is_caught_blamed_and_named(name: str, diagnosed: Mapping[str, Outcome]) -> None:
    found = diagnosed[name]
    assert found.caught and found.blamed and found.diagnosed, (found.failure, found.judged)
    assert min(found.shares) >= 2


@pytest.mark.parametrize("name", BLAMED)
def test_a_wrong_choice_is_caught_and_blamed(name: str, replayed: Mapping[str, Outcome]) -> None:
    found = replayed[name]
    assert found.caught and found.blamed, (found.failure, found.judged)


@pytest.mark.slow
def test_every_wrong_choice_is_caught_blamed_and_named() -> None:
    found = run(tuple(one.name for one in MUTANTS), by_diagnosis)
    assert set(found) == {one.name for one in MUTANTS}
    assert [name for name, one in found.items() if not (one.caught and one.blamed)] == []
    assert [name for name, one in found.items() if not one.diagnosed] == []
