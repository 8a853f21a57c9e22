"""The survivors that somebody has looked at: why no case objects, from `survivors.txt` beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from detection.reasons import Reason, reasons

JUDGED = Path(__file__).with_name("survivors.txt")
KINDS = ("equivalent", "missing case")
_ANY = " *"


def judged(path: Path = JUDGED) -> dict[str, Reason]:
    """Reasons by key of the mutant; a function and ` *` stand for the mutants of its lines that no case runs.

    A kind says why a mutant survives: no number changes, or no case shows it. Raises `ParityError` as `reasons`.
    """
    return reasons(path, KINDS)


def reason_of(key: str, known: Mapping[str, Reason], *, reached: bool) -> Reason | None:
    """The reason given for a mutant: its own, or where no case runs the line, that of its function."""
    return known.get(key) or (None if reached else known.get(_function(key) + _ANY))


def stale(known: Mapping[str, Reason], survived: Iterable[str], unreached: Iterable[str]) -> list[str]:
    """The judged keys that no survivor has any more: caught by now, or gone from the source."""
    left = list(unreached)
    return sorted(set(known) - {*survived, *left, *(_function(key) + _ANY for key in left)})


def _function(key: str) -> str:
    """The module and the function of a mutant's key."""
    return " ".join(key.split(" ", 2)[:2])
