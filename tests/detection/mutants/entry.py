"""An entry of the catalogue, written shortly."""

from __future__ import annotations

from collections.abc import Iterable

from detection.mutants.mutant import Mutant, Seed, words


def entry(name: str, says: str, seed: Seed, wrong: Iterable[str], named: str, cases: Iterable[str]) -> Mutant:
    """A mutant with its taps and cases as sequences, its diagnoses as the words of a text."""
    return Mutant(name, says, seed, frozenset(wrong), words(named), tuple(cases))
