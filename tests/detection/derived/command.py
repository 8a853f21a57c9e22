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

    selected = chosen(only)
    if not selected or (write and only != "*"):
        expected = "every kind" if selected else "a glob over names, as 'rope.*', or over op/name"
        raise ParityError(only, "no such kinds of mistakes", expected=expected, got=only, next_step="give another glob")
    results = dict(track(run(selected, workers), total=len(selected), description="mistakes"))
    shown = Table("op", "mistake", "seeds", "answers", "why")
    known = table.why()
    for kind, outcomes in results.items():
        others = sorted(table.answers(outcomes) - {kind[1]})
        why = "; ".join(known.get(table.key(kind, answer), "not known") for answer in others)
        shown.add_row(*kind, str(len(outcomes)), ", ".join(sorted(table.answers(outcomes))), why)
    screen = console()
    screen.print(shown)
    every = [outcome for outcomes in results.values() for outcome in outcomes]
    wrong = [outcome for outcome in every if outcome.caught and not outcome.exact]
    for outcome in wrong:
        blamed = ", ".join(outcome.blamed) or "nothing"
        screen.print(f"{outcome.name} at {outcome.pattern} ({outcome.case}) blames {blamed}", markup=False)
    screen.print(totals(every), markup=False, soft_wrap=True)
    if write:
        write_whole(table.OUTCOMES, table.lines(results))
    unknown = table.without_reason({kind: table.answers(outcomes) for kind, outcomes in results.items()})
    for key in unknown:
        screen.print(f"no reason: {key}", markup=False)
    sys.exit(1 if wrong or unknown else 0)
