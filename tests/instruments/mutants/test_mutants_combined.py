"""Two and three bugs at once: each is blamed as it is alone, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from detection.mutants import catalogue
from detection.mutants.combined import Combination, combinations


def inexact(found: Sequence[Combination]) -> list[Combination]:
    return [one for one in found if not one.exact]


@pytest.mark.slow
def test_a_pair_and_a_triple_are_blamed_exactly() -> None:
    found = list(combinations(catalogue(), 2))
    assert sorted(len(one.names) for one in found) == [2, 3]
    assert not inexact(found)


@pytest.mark.slow
def test_98_in_100_combinations_are_blamed_exactly() -> None:
    found = list(combinations(catalogue(), 100, seed=1))
    print(f"\n{len(found) - len(inexact(found))} of {len(found)} pairs and triples are blamed exactly")
    for one in inexact(found):
        missed, innocents = sorted(one.expected - one.blamed), sorted(one.blamed - one.expected)
        print(f"{one.case}: {' + '.join(one.names)}: not {missed}, but {innocents}")
    assert len(inexact(found)) <= 2
