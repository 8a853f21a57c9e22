"""The table of families: a row each, and what was found over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from detection.families.measure import Family

_COLUMNS: dict[str, Callable[[Family], object]] = {
    "family": lambda row: row.family,
    "honest": lambda row: row.honest,
    "false": lambda row: len(row.alarms),
    "worst": lambda row: _short(row.worst_honest),
    "mistakes": lambda row: row.mistakes,
    "caught": lambda row: row.mistakes - len(row.missed),
    "blamed": lambda row: row.mistakes - len(row.missed) - len(row.astray),
    "innocents": lambda row: len(row.innocent),
    "smallest": lambda row: _short(row.smallest_wrong),
    "capture s": lambda row: f"{row.capture_seconds:.0f}",
    "diagnose s": lambda row: f"{row.diagnose_seconds:.1f}",
}


def _short(share: float) -> str:
    return f"{share:.2g}" if math.isfinite(share) else "–"


def cells(rows: Sequence[Family]) -> list[list[str]]:
    """The table with its head and its last line, the sums."""
    sums = Family(
        f"{len([row for row in rows if row.honest])} of {len(rows)}",
        honest=sum(row.honest for row in rows),
        alarms=[alarm for row in rows for alarm in row.alarms],
        mistakes=sum(row.mistakes for row in rows),
        missed=[name for row in rows for name in row.missed],
        astray=[name for row in rows for name in row.astray],
        innocent=[name for row in rows for name in row.innocent],
        worst_honest=max((row.worst_honest for row in rows), default=0.0),
        smallest_wrong=min((row.smallest_wrong for row in rows), default=math.inf),
        capture_seconds=max((row.capture_seconds for row in rows), default=0.0),
        diagnose_seconds=max((row.diagnose_seconds for row in rows), default=0.0),
    )
    return [list(_COLUMNS), *([str(of(row)) for of in _COLUMNS.values()] for row in (*rows, sums))]


def remarks(rows: Sequence[Family]) -> list[str]:
    """Whatever is not as it should be, a line each, and what a row leaves out."""
    kinds: dict[str, Callable[[Family], Sequence[str]]] = {
        "false alarm": lambda row: row.alarms,
        "missed": lambda row: row.missed,
        "blamed elsewhere": lambda row: row.astray,
        "innocent blamed": lambda row: row.innocent,
        "refused": lambda row: row.refused,
        "left out": lambda row: [row.note] if row.note else [],
    }
    return [f"{row.family}: {kind}: {line}" for row in rows for kind, of in kinds.items() for line in of(row)]


def markdown(rows: Sequence[Family], head: str) -> str:
    """The table as a page."""
    top, *lines = cells(rows)
    table = [top, ["---"] * len(top), *lines]
    text = "\n".join(f"| {' | '.join(line)} |" for line in table)
    below = "\n".join(f"- {line}" for line in remarks(rows))
    return f"{head}\n\n{text}\n" + (f"\n{below}\n" if below else "")
