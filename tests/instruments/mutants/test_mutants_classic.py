"""Bugs seeded in the classic encoder are caught, blamed on the ops that are wrong and no other, and called by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from detection.mutants import catalogue
from detection.mutants.isolated import run_all
from detection.mutants.judged import by_diagnosis
from detection.mutants.outcome import Outcome

CLASSIC = [one for one in catalogue() if one.name.startswith("own/classic-")]
KINDS = ("norms-exchanged", "post-for-pre", "sum-unnormed", "positions-counted")
"""Some of the kinds."""


@pytest.fixture(scope="module")
def few() -> Mapping[str, Outcome]:
    """Each on the case that shows it best."""
    chosen = [one for one in CLASSIC if one.name.removeprefix("own/classic-") in KINDS]
    return {one.name: one for one in run_all(chosen, judge=by_diagnosis, cases=lambda one: one.cases[:1], workers=2)}


def test_the_catalogue_has_bugs_of_the_classic_encoder() -> None:
    assert len(CLASSIC) == 8 and all(case.startswith("classic/") for one in CLASSIC for case in one.cases)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_of_the_classic_encoder_is_caught_blamed_and_named(kind: str, few: Mapping[str, Outcome]) -> None:
    found = few[f"own/classic-{kind}"]
    assert found.caught and found.blamed and found.diagnosed, (found.failure, found.judged)


@pytest.mark.slow
def test_every_bug_of_the_classic_encoder_is_named_in_all_of_its_cases() -> None:
    wrong = []
    for one in run_all(CLASSIC, judge=by_diagnosis, workers=2):
        for case in one.cases:
            named = case.diagnoses is not None and set(case.diagnoses.values()) <= set(one.named)
            if not (case.caught and case.exactly_blamed and named and case.share >= 2):
                wrong.append(f"{one.name} on {case.case}: {case}")
        wrong += [f"{one.name}: {one.failure}"] if one.failure or not one.cases else []
    assert not wrong
