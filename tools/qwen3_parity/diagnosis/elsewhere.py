"""Taps that were recorded where their names do not say, of a model that is right there: what is said of them."""

from __future__ import annotations

from typing import NamedTuple

EVERY_TAP = "every tap"
ROWS, STEPS = "rows of the batch", "steps"
"""What may be in another order."""
_NO_PARITY = "a tap that is declared and is another one is no parity"


class Elsewhere(NamedTuple):
    """A place whose taps are not the ones of its name, each with its layer left open; or every tap of a recording.

    `holds` is the place whose numbers they are, empty where a golden has none such. `others` are places without a tap
    that are judged with this one. `order`: the golden's rows or steps, as `of` says, in the order of the candidate's.
    """

    place: str
    holds: str = ""
    others: tuple[str, ...] = ()
    of: str = ""
    order: tuple[int, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Every place that is judged together, the one with the taps first."""
        return self.place, *self.others

    @property
    def short(self) -> str:
        """It in a few words, behind its place."""
        if self.order:
            return f"has the {self.of} in another order: the golden's {', '.join(map(str, self.order))}"
        return f"has the numbers of {_open(self.holds)}" if self.holds else "recorded at another place"

    @property
    def says(self) -> str:
        """It, and why it is no bug of the model."""
        if self.order:
            return f"{self.short}; no bug: in the golden's order they are right"
        without = "under that name they are right, and so is what reads them"
        return f"{self.short}, no bug: {without if self.holds else 'without it everything that reads it is right'}"

    @property
    def fix(self) -> str:
        """What is to be done."""
        if self.order:
            return f"hand the {self.of} over in the golden's order"
        return "correct the name map" if self.holds else "record it where its name says, or leave it out"

    @property
    def rule(self) -> str:
        """What is wrong with a tap of it."""
        return f"has the {self.of} in another order" if self.order else "has the numbers of another name"

    @property
    def expected(self) -> str:
        """What its tap should have."""
        return f"{self.of} {', '.join(map(str, sorted(self.order)))}" if self.order else f"those of {self.place}"

    @property
    def got(self) -> str:
        """What its tap has."""
        return f"{self.of} {', '.join(map(str, self.order))}" if self.order else f"those of {self.holds}"

    def __str__(self) -> str:
        """All of it, with its place."""
        return f"{_open(self.place)}: {self.says}; {self.fix}: {_NO_PARITY}"


def _open(place: str) -> str:
    return place.replace("{layer}", "*")
