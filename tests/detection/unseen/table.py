"""What became of the unseen bugs: a table for the terminal, totals, and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.table import Table

from detection.draws import by_level
from detection.unseen.run import Outcome

_CELL = 160
"""So many characters of an answer stand in the table; the JSON has it whole."""


def totals(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """By level: how many bugs, how many are caught, blamed exactly, without innocents, and named first."""
    return {
        level: {
            "bugs": len(at_level),
            "caught": sum(bug.caught for bug in at_level),
            "blamed": sum(bug.blamed for bug in at_level),
            "innocents": sum(len(bug.innocents) for bug in at_level),
            "named": sum(bug.named == "yes" for bug in at_level),
            "behind": sum(bug.named == "behind" for bug in at_level),
            "failures": sum(bool(bug.failure) for bug in at_level),
            "median_seconds": round(median(bug.seconds for bug in at_level), 2),
            "worst_seconds": round(max(bug.seconds for bug in at_level), 2),
        }
        for level, at_level in by_level(outcomes)
    }


def terminal(outcomes: Sequence[Outcome]) -> Table:
    """A row a bug and level."""
    table = Table("bug", "mistake", "level", "caught", "blamed", "innocent", "said first", "named", box=None)
    for column in table.columns:
        column.overflow = "fold"
    for bug in outcomes:
        table.add_row(
            bug.name,
            bug.says,
            bug.level,
            "yes" if bug.caught else "NO",
            "yes" if bug.blamed else f"not {' '.join(bug.missed)}",
            " ".join(bug.innocents),
            bug.failure or "\n".join(": ".join(lines[:2])[:_CELL] for lines in bug.said),
            bug.named,
            style="" if bug.named == "yes" else "yellow",
        )
    return table


def sums(outcomes: Sequence[Outcome]) -> Table:
    """A row a level."""
    every = totals(outcomes)
    heads = next(iter(every.values()), {})
    table = Table("level", *(head.replace("_", " ") for head in heads), box=None)
    for level, numbers in every.items():
        table.add_row(level, *map(str, numbers.values()))
    return table


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Totals and every outcome."""
    return {"totals": totals(outcomes), "bugs": [asdict(bug) | {"blamed": bug.blamed} for bug in outcomes]}
