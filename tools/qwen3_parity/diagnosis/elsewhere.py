"""Taps that were recorded where their names do not say, of a model that is right there: what is said of them."""

from __future__ import annotations

from typing import NamedTuple

_NO_PARITY = "a tap that is declared and is another one is no parity"


class Elsewhere(NamedTuple):
    """A place whose taps are not the ones of its name, each with its layer left open.

    `holds` is the place whose numbers they are; empty where that is none that a golden has. `others` are places without
    a tap that are judged with this one.
    """

    place: str
    holds: str = ""
    others: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Every place that is judged together, the one with the taps first."""
        return self.place, *self.others

    @property
    def short(self) -> str:
        """It in a few words, behind its place."""
        return f"has the numbers of {_open(self.holds)}" if self.holds else "recorded at another place"

    @property
    def says(self) -> str:
        """It, and why it is no bug of the model."""
        without = "under that name they are right, and so is what reads them"
        return f"{self.short}, no bug: {without if self.holds else 'without it everything that reads it is right'}"

    @property
    def fix(self) -> str:
        """What is to be done."""
        return "correct the name map" if self.holds else "record it where its name says, or leave it out"

    def __str__(self) -> str:
        """All of it, with its place."""
        return f"{_open(self.place)}: {self.says}; {self.fix}: {_NO_PARITY}"


def _open(place: str) -> str:
    return place.replace("{layer}", "*")
