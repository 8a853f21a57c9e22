"""A network bug that nobody here had seen when it was drawn, as data: how it is seeded, and which answers are right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from detection.mutants.mutant import Mutant, Seed, words

REQUEST = r"(earlier|first|previous|last|other) request|request (before|1)\b|encdec/window"
"""How an answer says that numbers are those of the request that ran before."""
PICTURE = "[■□]{3}"
"""A mask that is drawn, a character a key."""


class Rule(NamedTuple):
    """A right answer: `name` is a glob over its name, `text` a pattern that its words must hold ("": whatever)."""

    name: str
    text: str = ""

    def fits(self, name: str, text: str) -> bool:
        """Whether an answer is this one."""
        return fnmatchcase(name, self.name) and re.search(self.text, text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Row:
    """One bug. `name` is its id, `says` the mistake, `case` the golden that shows it.

    `seed` gets a `Patch` of our implementation, on a Llama's golden Hugging Face's model. `wrong` are the taps that are
    wrong on their own inputs, as of `Mutant`; `answers` the first ones that are right, written from the bug alone,
    `levels` those of recording at which it was looked for.
    """

    name: str
    says: str
    seed: Seed
    wrong: frozenset[str]
    answers: tuple[Rule, ...]
    case: str
    levels: tuple[str, ...]

    @property
    def mutant(self) -> Mutant:
        """The bug for whoever runs mutants."""
        return Mutant(self.name, self.says, self.seed, self.wrong, frozenset(), (self.case,))

    def fits(self, name: str, text: str) -> bool:
        """Whether an answer is a right one; `text` are its words, with where and when."""
        return any(answer.fits(name, text) for answer in self.answers)


def row(name: str, says: str, seed: Any, wrong: str | Iterable[str], rules: Sequence[str], case: str, more: str) -> Row:
    """A row; `rules` has globs over names, with ": " and a pattern behind them where words count, `more` the levels
    beside every tap.
    """
    answers = tuple(Rule(glob, text) for glob, _, text in (line.partition(": ") for line in rules))
    places = words(wrong) if isinstance(wrong, str) else frozenset(wrong)
    return Row(name, says, seed, places, answers, case, ("all", *more.split()))
