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
    every = [one for found in results.values() for one in found]
    print(f"\n{totals(every)}")
    assert not [(one.name, one.pattern, one.blamed) for one in every if one.caught and not one.exact]


def test_the_library_fails_at_no_place(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    assert not {text for found in results.values() for one in found for text in one.failures}


def test_every_answer_is_the_committed_one(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    """Otherwise look at what changed, and write it: python -m detection.derived --write."""
    found = {kind: table.answers(some) for kind, some in results.items() if some}
    committed = table.committed()
    assert {kind: some for kind, some in found.items() if committed.get(kind) != some} == {}
    assert not set(committed) - set(found)


def test_no_mistake_that_shows_is_missed(results: Mapping[Kind, Sequence[Outcome]]) -> None:
    every = [one for found in results.values() for one in found]
    assert not [(one.name, one.pattern, one.case) for one in every if one.shown and not one.caught]
