"""The command that seeds the library with itself: derived."""

from __future__ import annotations

import sys

import click
from rich.progress import track
from rich.table import Table

from detection.command import Command
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console


@click.command(cls=Command)
@click.option("--only", default="*", metavar="GLOB", help="Only names, or op/name, that match.")
@click.option("--workers", default=1, show_default=True, help="How many run at the same time.")
@click.option("--write", is_flag=True, help="Write the answers to outcomes.txt, when nothing was left out.")
def derived(only: str, workers: int, write: bool) -> None:
    """Seed every named mistake of the library with itself: is it caught, blamed on its op alone, and named?

    Exit code 1 when a seed blames another op, or when an answer has no reason.
    """
    from detection.derived import table
    from detection.derived.run import chosen, run, totals

    some = chosen(only)
    if not some or (write and only != "*"):
        expected = "every kind" if some else "a glob over names, as 'rope.*', or over op/name"
        raise ParityError(only, "no such kinds of mistakes", expected=expected, got=only, next_step="give another glob")
    results = dict(track(run(some, workers), total=len(some), description="mistakes"))
    shown = Table("op", "mistake", "seeds", "answers", "why")
    known = table.why()
    for kind, found in results.items():
        other = sorted(table.answers(found) - {kind[1]})
        why = "; ".join(known.get(table.key(kind, one), "not known") for one in other)
        shown.add_row(*kind, str(len(found)), ", ".join(sorted(table.answers(found))), why)
    screen = console()
    screen.print(shown)
    every = [one for found in results.values() for one in found]
    wrong = [one for one in every if one.caught and not one.exact]
    for one in wrong:
        blamed = ", ".join(one.blamed) or "nothing"
        screen.print(f"{one.name} at {one.pattern} ({one.case}) blames {blamed}", markup=False)
    screen.print(totals(every), markup=False, soft_wrap=True)
    if write:
        write_whole(table.OUTCOMES, table.lines(results))
    unknown = table.without_reason({kind: table.answers(found) for kind, found in results.items()})
    for key in unknown:
        screen.print(f"no reason: {key}", markup=False)
    sys.exit(1 if wrong or unknown else 0)
