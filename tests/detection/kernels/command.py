"""The command that seeds bugs of kernels and says which are caught, blamed and named: kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

from detection.command import Command
from qwen3_golden import ParityError
from qwen3_parity.report.terminal import console


@click.command(cls=Command)
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@click.option("--blame-only", is_flag=True, help="Blame the ops, explain nothing: faster.")
@click.option("--closed-details", is_flag=True, help="Print the closed half one by one, too.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes at a time.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds for each bug.")
def kernels(globs: Sequence[str], blame_only: bool, closed_details: bool, workers: int, timeout: float) -> None:
    """Seed bugs of kernels and see whether each is caught, blamed and named.

    Of the closed half only sums are printed. Exit code 1 when a bug is not caught or cannot be run.
    """
    from detection.kernels import catalogue, is_open
    from detection.mutants.isolated import run_all
    from detection.mutants.judged import by_diagnosis, by_replay
    from detection.mutants.table import terminal, totals

    selected = [mutant for mutant in catalogue() if not globs or any(fnmatchcase(mutant.name, glob) for glob in globs)]
    if not selected:
        expected = "a glob like 'kernel/softmax-*'"
        step = "look into tests/detection/kernels"
        raise ParityError(" ".join(globs), "no bug has such a name", expected=expected, got="no match", next_step=step)
    judge = by_replay if blame_only else by_diagnosis
    outcomes = sorted(
        run_all(selected, judge=judge, workers=workers, timeout=timeout), key=lambda outcome: outcome.name
    )
    shown = [outcome for outcome in outcomes if closed_details or is_open(outcome.name)]
    console().print(terminal(shown))
    for half in ("open", "closed"):
        sums = totals([outcome for outcome in outcomes if is_open(outcome.name) == (half == "open")])
        click.echo(f"{half}: {', '.join(f'{count} {label}' for label, count in sums.items())}")
    sums = totals(outcomes)
    sys.exit(0 if sums["caught"] == sums["mutants"] and not sums["failures"] else 1)
