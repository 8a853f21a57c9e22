"""The command that measures what is found at each level of recording: levels."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

import click
from rich.progress import track
from rich.table import Table

from detection.command import Command
from detection.levels.measure import Row, measured
from detection.mutants.command import chosen
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity.recording.levels import LEVELS
from qwen3_parity.report.terminal import console

_COLUMNS = ("level", "bugs", "caught", "no innocents", "named first", "among the first three", "median s", "worst s")


@click.command(cls=Command)
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@click.option("--level", "wanted", multiple=True, type=click.Choice(list(LEVELS)), help="Only this level; repeatable.")
@click.option("--budget", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds, as of diagnose.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes at a time.")
@click.option("--wrong", is_flag=True, help="Also list the bugs that are not named first.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Every row as JSON, to this file.")
def levels(
    globs: tuple[str, ...], wanted: tuple[str, ...], budget: float, workers: int, wrong: bool, out: Path | None
) -> None:
    """Seed known bugs of networks, record each once, and judge it with the taps of every level.

    Exit code 1 when a bug is caught nowhere, a group without it is accused, or the judge itself fails.
    """
    bugs = [one.name for one in chosen(globs) if not (one.of_tokenizer or one.of_weights) and _is_network(one.cases[0])]
    context = multiprocessing.get_context("fork")  # what is imported and read stays warm
    measure = partial(measured, levels=wanted or tuple(LEVELS), budget=budget)
    rows: list[Row] = []
    with context.Pool(workers, maxtasksperchild=1) as pool:
        for some in track(pool.imap_unordered(measure, bugs), "bugs", len(bugs), console=console(stderr=True)):
            rows += some
    rows.sort(key=lambda row: row.bug)
    console().print(table(rows))
    failures = [row for row in rows if row.failure]
    for row in failures:
        click.echo(f"{row.level} {row.bug}: harness bug: {row.failure}")
    if wrong:
        for row in rows:
            if row.caught and not row.first:
                click.echo(f"{row.level} {row.bug}: {'; '.join(' '.join(names[:3]) for names in row.said)}")
    if out is not None:
        out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    lost = {row.bug for row in rows} - {row.bug for row in rows if row.caught}
    sys.exit(1 if lost or failures or any(row.innocents for row in rows) else 0)


def _is_network(case: str) -> bool:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb").case.mode != pb.OP


def table(rows: Sequence[Row]) -> Table:
    """What became of the bugs, a row a level."""
    found = Table(*_COLUMNS, box=None)
    for level in LEVELS:
        some = [row for row in rows if row.level == level]
        caught = [row for row in some if row.caught]
        if not caught:
            continue
        seconds = [row.seconds for row in caught]
        counts = [len(some), len(caught), sum(not row.innocents for row in caught)]
        counts += [sum(row.first for row in caught), sum(row.among for row in caught)]
        found.add_row(level, *map(str, counts), f"{median(seconds):.1f}", f"{max(seconds):.1f}")
    return found
