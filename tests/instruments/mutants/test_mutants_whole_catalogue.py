"""The whole catalogue of seeded bugs on every case that should show them: how many are caught, blamed and named."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_all
from detection.mutants.judged import by_diagnosis
from detection.mutants.outcome import CaseOutcome, Outcome
from detection.mutants.sampling import MUTANTS
from detection.mutants.table import markdown, totals

pytestmark = pytest.mark.slow

Shown = tuple[str, CaseOutcome]
"""A mutant's name and one of its cases."""


@pytest.fixture(scope="module")
def outcomes() -> Sequence[Outcome]:
    found = list(run_all(catalogue(), judge=by_diagnosis, workers=os.cpu_count() or 1, timeout=900))
    return sorted(found, key=lambda one: one.name)


@pytest.fixture(scope="module")
def shown(outcomes: Sequence[Outcome]) -> Sequence[Shown]:
    return [(one.name, case) for one in outcomes for case in one.cases if case.caught]


def unlike(outcomes: Sequence[Outcome], what: str) -> list[str]:
    return [one.name for one in outcomes if not getattr(one, what)]


def test_every_bug_is_run_and_caught(outcomes: Sequence[Outcome]) -> None:
    print(f"\n{markdown(outcomes)}\n{totals(outcomes)}")
    silent = [f"{one.name} on {case.case}" for one in outcomes for case in one.cases if not case.caught]
    print(f"listed cases that do not show their bug: {silent}")
    assert len(outcomes) == len(catalogue())
    assert [f"{one.name}: {one.failure}" for one in outcomes if one.failure or not one.caught] == []


def test_98_in_100_are_blamed_exactly(outcomes: Sequence[Outcome]) -> None:
    others = unlike(outcomes, "blamed")
    print(f"\nblamed exactly: {len(outcomes) - len(others)} of {len(outcomes)}; not {others}")
    assert len(others) <= 0.02 * len(outcomes)


def test_nobody_innocent_is_blamed_in_any_case(shown: Sequence[Shown]) -> None:
    innocents = [f"{name} on {case.case}: {' '.join(case.innocents)}" for name, case in shown if case.innocents]
    print(f"\n{len(innocents)} of {len(shown)} runs blame an innocent op")
    assert not innocents


def test_98_in_100_runs_of_all_cases_are_blamed_exactly(shown: Sequence[Shown]) -> None:
    others = [f"{name} on {case.case}: not {' '.join(case.missed)}" for name, case in shown if not case.exactly_blamed]
    print(f"\nblamed exactly: {len(shown) - len(others)} of {len(shown)} runs\n" + "\n".join(others))
    assert len(others) <= 0.02 * len(shown)


def test_90_in_100_are_named_first(outcomes: Sequence[Outcome]) -> None:
    others = unlike(outcomes, "diagnosed")
    print(f"\nnamed first: {len(outcomes) - len(others)} of {len(outcomes)}; not {others}")
    assert len(others) <= 0.1 * len(outcomes)


def test_every_bug_of_the_classic_encoder_of_training_and_of_choices_is_blamed_and_named(
    outcomes: Sequence[Outcome],
) -> None:
    choices = {one.name for one in MUTANTS}
    those = [one for one in outcomes if one.name.startswith(("own/classic-", "own/gradient-")) or one.name in choices]
    assert len(those) == 16 + len(choices)
    assert [one.name for one in those if not (one.blamed and one.diagnosed)] == []
    classic = [(one, case) for one in those if "classic" in one.name for case in one.cases]
    others = [case for _, case in classic if not (case.caught and case.exactly_blamed and case.share >= 2)]
    others += [case for one, case in classic if not {*(case.diagnoses or {"": ""}).values()} <= {*one.named}]
    assert others == []


def test_every_bug_uses_two_budgets_or_more_where_it_shows_most(outcomes: Sequence[Outcome]) -> None:
    shares = sorted((max(one.shares), one.name) for one in outcomes if one.shares)
    smallest = [(share, name) for share, name in shares if math.isfinite(share)]
    print("\nsmallest bugs, in budgets: " + ", ".join(f"{share:.3g} ({name})" for share, name in smallest[:8]))
    assert smallest[0][0] >= 2
