"""What a row of the blind draw is, as data."""

from __future__ import annotations

from dataclasses import dataclass

from detection.draws import LEVELS
from detection.mutants.mutant import Mutant, Seed, words

THINNER = LEVELS[1:]
"""Recordings of fewer taps than every one."""


@dataclass(frozen=True)
class Row:
    """A bug from somebody's tracker, seeded in our implementation; `answers` has what is right to say of it.

    `source` is the thread, `family` the kind of mistake. `wrong` are the taps that must be blamed, as `Mutant` has
    them, `also` those that may be. `levels`: of `THINNER` those whose taps show it.
    """

    name: str
    says: str
    source: str
    family: str
    cases: tuple[str, ...]
    seed: Seed
    wrong: frozenset[str]
    also: frozenset[str]
    levels: tuple[str, ...]

    @property
    def mutant(self) -> Mutant:
        """The row as the recorder of seeded bugs takes it; nothing is named."""
        return Mutant(self.name, self.says, self.seed, self.wrong, frozenset(), self.cases)


def row(
    name: str,
    says: str,
    source: str,
    family: str,
    cases: str,
    seed: Seed,
    wrong: str | tuple[str, ...],
    also: str = "",
    levels: str = " ".join(THINNER),
) -> Row:
    """A row with its sets as the words of a text."""
    taps = words(wrong if isinstance(wrong, str) else " ".join(wrong))
    return Row(name, says, source, family, tuple(cases.split()), seed, taps, words(also), tuple(levels.split()))
