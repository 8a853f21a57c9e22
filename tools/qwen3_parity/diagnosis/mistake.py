"""A mistake behind what is wrong in a case or in many, as a terminal, a page, a comment and JSON say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SAID = 4


@dataclass(frozen=True)
class Note:
    """A line of the diagnoses of single cases, with the cases that it stands in."""

    says: str
    cases: tuple[str, ...]


@dataclass(frozen=True)
class Mistake:
    """A mistake: what it `says` completes "it …", and may have other numbers by case.

    Without a `name` none is known: it says what is. `places` are patterns of taps, `cases` those of a folder,
    `link` the case and the first tap (name, step) that show it. `otherwise` are mistakes that the same numbers could as
    well be in all of these cases, `otherwise_in` those that they could be in some. `findings` are what the numbers say
    by themselves, `record_next` taps that would tell more, `evidence` lines that say how sure it is, `origins` lines of
    the candidate's own code that make such taps. `lossy`: these are numbers in few bits that the candidate declares.
    """

    name: str
    says: tuple[str, ...]
    fix: str = ""
    places: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    otherwise_in: tuple[Note, ...] = ()
    findings: tuple[Note, ...] = ()
    record_next: tuple[Note, ...] = ()
    evidence: tuple[str, ...] = ()
    link: tuple[str, str, int] | None = None
    origins: tuple[str, ...] = ()
    lossy: bool = False

    @property
    def sentence(self) -> str:
        """The first ways in which it says what it does, in one line."""
        return "; it ".join(self.says[:_SAID])


def notes(lines: Iterable[tuple[str, str]]) -> tuple[Note, ...]:
    """Lines with their cases, those that stand in most cases first; equal ones in the order of the diagnoses."""
    cases: dict[str, dict[str, None]] = {}
    for text, case in lines:
        cases.setdefault(text, {})[case] = None
    return tuple(Note(text, tuple(those)) for text, those in sorted(cases.items(), key=lambda item: -len(item[1])))
