"""The command that runs the blind draws: blind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress
from rich.table import Table

from detection.blind import DRAWS, draw
from detection.blind.answers import answers
from detection.blind.run import TIMEOUT, Judged, Said, judged
from detection.command import Command
from detection.draws import LEVELS, by_level, chosen, line, read_results, times, write_results
from qwen3_parity.report.terminal import console

_COLUMNS = (
    *("level", "rows", "expected", "caught", "blamed", "innocents", "right", "right faults", "failures"),
    *("median s", "worst s"),
)


@click.command(cls=Command)
@click.option("--draw", "draws", multiple=True, type=click.Choice(DRAWS), help="Only this draw; repeatable.")
@click.option("--only", "globs", multiple=True, metavar="GLOB", help="Rows by name; repeatable.")
@click.option("--level", "levels", multiple=True, type=click.Choice(LEVELS), help="Only this level; repeatable.")
@click.option("--list", "listed", is_flag=True, help="Only say which rows there are.")
@click.option("--timeout", type=float, default=TIMEOUT, show_default=True, help="Seconds for each row.")
@click.option("--json", "out", type=click.Path(path_type=Path),
              help="Every row as JSON, to this file as they come; rows that it has are not run again.")  # fmt: skip
def blind(
    draws: tuple[str, ...],
    globs: tuple[str, ...],
    levels: tuple[str, ...],
    listed: bool,
    timeout: float,
    out: Path | None,
) -> None:
    """Seed bugs that nobody had seen who wrote what names them, and judge each at every level of recording.

    Exit code 1 when a bug is not caught where its taps show it, or the judge fails.
    """
    rows = chosen(
        draw(*draws),
        globs,
        "no row has such a name",
        expected="a glob like 'B01*'",
        next_step="python -m detection.blind --list",
    )
    if listed:
        click.echo("\n".join(f"{row.name}: {row.says} ({row.source}): {answers()[row.name].expect}" for row in rows))
        return
    results = read_results(out, _built, "rows of the blind draws")
    with Progress(console=console(stderr=True), auto_refresh=False) as progress:  # no thread: the work is forked
        bar = progress.add_task("blind", total=len(rows))
        for row in rows:
            before = {result.level for result in results if result.row == row.name}
            left = [level for level in levels or LEVELS if level not in before]
            results += judged(row, left, timeout) if left else []
            if out is not None:
                write_results(out, results)
            progress.update(bar, advance=1, description=row.name, refresh=True)
    names = {row.name for row in rows}
    shown = sorted((x for x in results if x.row in names), key=lambda x: (x.row, LEVELS.index(x.level)))
    for result in shown:
        click.echo(_line(result))
    console().print(table(shown))
    sys.exit(1 if any(result.failure or (result.expected and not result.caught) for result in shown) else 0)


def _line(result: Judged) -> str:
    """A row at a level: what became of it, and the first answer to each fault."""
    states = {"caught": result.caught}
    if result.caught:
        states |= {"blamed": result.blamed, "right": result.is_right}
    notes = {"innocent": " ".join(result.innocents), "missed": " ".join(result.missed), "failure": result.failure}
    said = [(answer.is_right, f"{answer.place}: {answer.name}: {answer.text}") for answer in result.said]
    return line(f"{result.row} {result.level}", states, notes, said)


def _built(values: dict[str, Any]) -> Judged:
    """A result from the values of its JSON; raises `ValueError` where its level is none."""
    LEVELS.index(values["level"])
    tuples = {key: tuple(values[key]) for key in ("innocents", "missed")}
    return Judged(**{**values, **tuples, "said": tuple(Said(**answer) for answer in values["said"])})


def table(results: Sequence[Judged]) -> Table:
    """The sums of each level; seconds of diagnoses."""
    sums = Table(*_COLUMNS, box=None)
    for level, at_level in by_level(results):
        said = [answer for result in at_level for answer in result.said]
        counts = [
            len(at_level),
            sum(x.expected for x in at_level),
            sum(x.caught for x in at_level),
            sum(x.blamed for x in at_level),
        ]
        counts += [sum(bool(x.innocents) for x in at_level), sum(x.is_right for x in at_level)]
        faults = f"{sum(answer.is_right for answer in said)} of {len(said)}"
        failures = sum(bool(x.failure) for x in at_level)
        sums.add_row(level, *map(str, counts), faults, str(failures), *times([x.seconds for x in at_level if x.said]))
    return sums
