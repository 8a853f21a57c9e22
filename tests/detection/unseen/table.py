"""What became of the unseen bugs: a table for the terminal, totals, and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.table import Table

from detection.unseen.run import Outcome

_LEVELS = ("all", "modules", "layer", "logits")
_CELL = 160
"""So many characters of an answer stand in the table; the JSON has it whole."""


def totals(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """By level: how many bugs, how many are caught, blamed exactly, without innocents, and named first."""
    found = {}
    for level in _LEVELS:
        some = [one for one in outcomes if one.level == level]
        if some:
            found[level] = {
                "bugs": len(some),
                "caught": sum(one.caught for one in some),
                "blamed": sum(one.blamed for one in some),
                "innocents": sum(len(one.innocents) for one in some),
                "named": sum(one.named == "yes" for one in some),
                "behind": sum(one.named == "behind" for one in some),
                "failures": sum(bool(one.failure) for one in some),
                "median_seconds": round(median(one.seconds for one in some), 2),
                "worst_seconds": round(max(one.seconds for one in some), 2),
            }
    return found


def terminal(outcomes: Sequence[Outcome]) -> Table:
    """A row a bug and level."""
    table = Table("bug", "mistake", "level", "caught", "blamed", "innocent", "said first", "named", box=None)
    for column in table.columns:
        column.overflow = "fold"
    for one in outcomes:
        table.add_row(
            one.name,
            one.says,
            one.level,
            "yes" if one.caught else "NO",
            "yes" if one.blamed else f"not {' '.join(one.missed)}",
            " ".join(one.innocents),
            one.failure or "\n".join(line[:_CELL] for line in one.said),
            one.named,
            style="" if one.named == "yes" else "yellow",
        )
    return table


def sums(outcomes: Sequence[Outcome]) -> Table:
    """A row a level."""
    found = totals(outcomes)
    heads = next(iter(found.values()), {})
    table = Table("level", *(head.replace("_", " ") for head in heads), box=None)
    for level, numbers in found.items():
        table.add_row(level, *map(str, numbers.values()))
    return table


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Totals and every outcome."""
    return {"totals": totals(outcomes), "bugs": [asdict(one) | {"blamed": one.blamed} for one in outcomes]}
