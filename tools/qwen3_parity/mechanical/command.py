"""`qwen3-parity mechanical`: every mechanical mutant of our implementation, and what the cases say about it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

import click
from rich.progress import track
from rich.table import Table

from qwen3_parity.mechanical.judged import Judgement
from qwen3_parity.mechanical.run import all_mutants, run_all, unchanged
from qwen3_parity.mechanical.sources import Mutant
from qwen3_parity.mechanical.survivors import Reason, judged, reason_of
from qwen3_parity.terminal import console

Results = Sequence[tuple[Mutant, Judgement]]
LIVED = ("survived", "unreached")
"""The outcomes that ask for a reason."""
_judged = cache(judged)
_COLUMNS = ("caught", "refused", "timeout", "harness", "equivalent", "missing case", "not judged")


@click.command()
@click.option("--only", default="*", metavar="GLOB", help="Only mutants whose id or key matches.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write every judgement to this file.")
@click.option("--workers", default=1, show_default=True, help="How many mutants run at the same time.")
def mechanical(only: str, path: Path | None, workers: int) -> None:
    """Change our implementation mechanically, one small change at a time, and count who notices.

    Exit code 1 when a mutant lives that nobody has judged, or the judge itself failed on one.
    """
    chosen = all_mutants(only)
    with unchanged() as reference:
        judgements = run_all(chosen, reference, workers)
        results = list(track(judgements, total=len(chosen), description="mutants"))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([as_json(*one) for one in results], indent=1), encoding="utf-8")
    screen = console()
    screen.print(table(results))
    screen.print(summary(results))
    open_ones = [mutant for mutant, judgement in results if verdict(mutant, judgement) in ("not judged", "harness")]
    for mutant in open_ones:
        screen.print(mutant.id, markup=False, soft_wrap=True)
    sys.exit(1 if open_ones else 0)


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


def table(results: Results) -> Table:
    """Outcomes counted by operator."""
    counts = Counter((mutant.operator, verdict(mutant, judgement)) for mutant, judgement in results)
    found = Table("operator", "mutants", *_COLUMNS)
    for operator in [*dict.fromkeys(mutant.operator for mutant, _ in results), "all"]:
        row = [sum(n for (o, v), n in counts.items() if v == column and operator in (o, "all")) for column in _COLUMNS]
        found.add_row(operator, str(sum(row)), *map(str, row))
    return found


def summary(results: Results) -> str:
    """How many numbers changed, how many of those were caught, and how many of the caught were blamed and named."""
    caught = [judgement for _, judgement in results if judgement.outcome == "caught"]
    blamed = sum(bool(one.accused) for one in caught)
    named = sum(bool(one.named) and all(one.named) for one in caught)
    return f"caught by a verdict: {len(caught)}, of which {blamed} with an op accused and {named} with an explanation"
