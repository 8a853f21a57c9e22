"""What became of mutants: a table for the terminal, for a page, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from detection.mutants.outcome import Outcome

COLUMNS = ("mutant", "wrong code", "caught", "blamed", "named", "said", "worst share", "smallest share", "cases")


def totals(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many there are, and of how many the check, the blame and the diagnosis are right."""
    return {
        "mutants": len(outcomes),
        "caught": sum(outcome.caught for outcome in outcomes),
        "blamed": sum(outcome.blamed for outcome in outcomes),
        "named": sum(outcome.diagnosed for outcome in outcomes),
        "failures": sum(bool(outcome.failure or any(case.failure for case in outcome.cases)) for outcome in outcomes),
    }


def _share(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "exact"


def _cells(outcome: Outcome) -> list[str]:
    first, shares = outcome.judged, outcome.shares
    said = " ".join(dict.fromkeys(name or "?" for name in ((first and first.diagnoses) or {}).values()))
    if first is None or outcome.failure:
        said = outcome.failure
    elif first.failure:
        said = first.failure
    elif first.refused:
        said = f"refused: {first.refused}"
    else:
        wrong = [f"{word} {' '.join(of)}" for word, of in (("also", first.innocents), ("not", first.missed)) if of]
        said = "; ".join([said, *wrong])
    return [
        outcome.name,
        outcome.says,
        "yes" if outcome.caught else "NO",
        "yes" if outcome.blamed else "no",
        "yes" if outcome.diagnosed else "no",
        said,
        _share(max(shares)) if shares else "",
        _share(min(shares)) if shares else "",
        f"{sum(case.caught for case in outcome.cases)} of {len(outcome.cases)}",
    ]


def _last_row(outcomes: Sequence[Outcome]) -> list[str]:
    sums = totals(outcomes)
    return [
        f"{sums['mutants']} mutants",
        f"{sums['failures']} could not be run" if sums["failures"] else "",
        *(str(sums[name]) for name in ("caught", "blamed", "named")),
        "",
        "",
        _share(min((min(outcome.shares) for outcome in outcomes if outcome.shares), default=math.inf)),
        "",
    ]


def terminal(outcomes: Sequence[Outcome]) -> Table:
    """One row for each mutant, a last one with totals."""
    table = Table(*COLUMNS, show_footer=True)
    for column, footer in zip(table.columns, _last_row(outcomes), strict=True):
        column.footer = footer
        column.overflow = "fold"
    for outcome in outcomes:
        table.add_row(
            *_cells(outcome), style="" if outcome.caught and outcome.blamed and outcome.diagnosed else "yellow"
        )
    return table


def _family(name: str) -> str:
    if name.startswith("own/tokenizer-"):
        return "own, of tokenizers"
    return "own" if name.startswith("own/") else name.partition("-")[0]


def markdown(outcomes: Sequence[Outcome]) -> str:
    """One row for each family of bugs (its letters in the catalogue, or "own"), in Markdown."""
    families: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        families.setdefault(_family(outcome.name), []).append(outcome)
    rows = [["bugs", "seeded", "caught", "blamed exactly", "named first", "smallest share of a budget"], ["---"] * 6]
    for name, members in [*families.items(), ("all", list(outcomes))]:
        sums = totals(members)
        smallest = min((min(outcome.shares) for outcome in members if outcome.shares), default=math.inf)
        share = f"{smallest:.3g} ×" if math.isfinite(smallest) else "exact"
        rows.append([name, *(str(sums[column]) for column in ("mutants", "caught", "blamed", "named")), share])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Totals and every outcome; an infinite share is null."""
    return {"totals": totals(outcomes), "mutants": [outcome.to_json() for outcome in outcomes]}
