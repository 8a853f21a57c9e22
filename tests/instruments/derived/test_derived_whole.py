"""Every named mistake of the library, at every op that it can be made at, against the committed table of answers.

It runs `mistakes.head_gradient`, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from detection.derived import table
from detection.derived.outcome import Kind, Outcome
from detection.derived.run import chosen, run, totals

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results() -> Mapping[Kind, Sequence[Outcome]]:
    return dict(run(chosen(), os.cpu_count() or 1))


def test_no_mistake_blames_another_op_than_its_own(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    every = [outcome for outcomes in results.values() for outcome in outcomes]
    print(f"\n{totals(every)}")
    assert not [
        (outcome.name, outcome.pattern, outcome.blamed) for outcome in every if outcome.caught and not outcome.exact
    ]


def test_the_library_fails_at_no_place(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    assert not {text for outcomes in results.values() for outcome in outcomes for text in outcome.failures}


def test_every_answer_is_the_committed_one(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    """Otherwise look at what changed, and write it: python -m detection.derived --write."""
    answered = {kind: table.answers(outcomes) for kind, outcomes in results.items() if outcomes}
    committed = table.committed()
    assert {kind: names for kind, names in answered.items() if committed.get(kind) != names} == {}
    assert not set(committed) - set(answered)


def test_no_mistake_that_shows_is_missed(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    every = [outcome for outcomes in results.values() for outcome in outcomes]
    assert not [
        (outcome.name, outcome.pattern, outcome.case) for outcome in every if outcome.shown and not outcome.caught
    ]
