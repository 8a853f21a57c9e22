"""Two and three bugs at once: each is blamed as it is alone, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from detection.mutants import catalogue
from detection.mutants.combined import Combination, combinations


def inexact(drawn: Sequence[Combination]) -> list[Combination]:
    return [combination for combination in drawn if not combination.exact]


@pytest.mark.slow
def test_a_pair_and_a_triple_are_blamed_exactly() -> None:
    drawn = list(combinations(catalogue(), 2))
    assert sorted(len(combination.names) for combination in drawn) == [2, 3]
    assert not inexact(drawn)


@pytest.mark.slow
def test_98_in_100_combinations_are_blamed_exactly() -> None:
    drawn = list(combinations(catalogue(), 100, seed=1))
    print(f"\n{len(drawn) - len(inexact(drawn))} of {len(drawn)} pairs and triples are blamed exactly")
    for combination in inexact(drawn):
        missed, innocents = (
            sorted(combination.expected - combination.blamed),
            sorted(combination.blamed - combination.expected),
        )
        print(f"{combination.case}: {' + '.join(combination.names)}: not {missed}, but {innocents}")
    assert len(inexact(drawn)) <= 2
