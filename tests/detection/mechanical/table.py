"""What became of mechanical mutants, as a table, as a line and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

from rich.table import Table

from detection.mechanical.judged import Judgement
from detection.mechanical.sources import Mutant
from detection.mechanical.survivors import judged, reason_of
from detection.reasons import Reason

Results = Sequence[tuple[Mutant, Judgement]]
LIVED = ("survived", "unreached")
"""The outcomes that ask for a reason."""
_judged = cache(judged)
_COLUMNS = ("caught", "refused", "timeout", "harness", "equivalent", "missing case", "not judged")


def as_json(mutant: Mutant, judgement: Judgement) -> dict[str, object]:
    """One mutant and what became of it, as plain values."""
    about = {name: getattr(mutant, name) for name in ("key", "id", "module", "function", "operator", "before", "after")}
    reason = _reason(mutant, judgement)
    return about | asdict(judgement) | {"reason": "" if reason is None else f"{reason.kind}: {reason.why}"}


def verdict(mutant: Mutant, judgement: Judgement) -> str:
    """The outcome, or for a mutant that lived the kind of reason it was given."""
    if judgement.outcome not in LIVED:
        return judgement.outcome
    reason = _reason(mutant, judgement)
    return "not judged" if reason is None else reason.kind


def _reason(mutant: Mutant, judgement: Judgement) -> Reason | None:
    if judgement.outcome not in LIVED:
        return None
    return reason_of(mutant.key, _judged(), reached=judgement.outcome == "survived")


def terminal(results: Results) -> Table:
    """Outcomes counted by operator."""
    counts = Counter((mutant.operator, verdict(mutant, judgement)) for mutant, judgement in results)
    grid = Table("operator", "mutants", *_COLUMNS)
    for operator in [*dict.fromkeys(mutant.operator for mutant, _ in results), "all"]:
        row = [sum(n for (o, v), n in counts.items() if v == column and operator in (o, "all")) for column in _COLUMNS]
        grid.add_row(operator, str(sum(row)), *map(str, row))
    return grid


def summary(results: Results) -> str:
    """How many numbers changed, how many of those were caught, and how many of the caught were blamed and named."""
    caught = [judgement for _, judgement in results if judgement.outcome == "caught"]
    blamed = sum(bool(change.accused) for change in caught)
    named = sum(bool(change.named) and all(change.named) for change in caught)
    return f"caught by a verdict: {len(caught)}, of which {blamed} with an op accused and {named} with an explanation"
