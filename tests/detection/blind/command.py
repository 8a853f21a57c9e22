"""The command that runs the blind draw: blind."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

import click
from rich.progress import Progress
from rich.table import Table

from detection.blind import draw
from detection.blind.answers import answers
from detection.blind.row import LEVELS, Row
from detection.blind.run import TIMEOUT, Judged, Said, judged
from detection.command import Command
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console

_LEVELS = ("all", *LEVELS)
_COLUMNS = (
    *("level", "rows", "expected", "caught", "blamed", "innocents", "right", "right faults", "failures"),
    *("median s", "worst s"),
)


def chosen(globs: Sequence[str]) -> list[Row]:
    """The rows whose names match one of the globs, all without one; raises `ParityError` when there are none."""
    rows = [row for row in draw() if not globs or any(fnmatchcase(row.name, glob) for glob in globs)]
    if not rows:
        raise ParityError(
            " ".join(globs),
            "no row has such a name",
            expected="a glob like 'B01*'",
            got="no match",
            next_step="python -m detection.blind --list",
        )
    return rows


@click.command(cls=Command)
@click.option("--only", "globs", multiple=True, metavar="GLOB", help="Rows by name; repeatable.")
@click.option("--level", "levels", multiple=True, type=click.Choice(_LEVELS), help="Only this level; repeatable.")
@click.option("--list", "listed", is_flag=True, help="Only say which rows there are.")
@click.option("--timeout", type=float, default=TIMEOUT, show_default=True, help="Seconds for each row.")
@click.option("--json", "out", type=click.Path(path_type=Path),
              help="Every row as JSON, to this file as they come; rows that it has are not run again.")  # fmt: skip
def blind(globs: tuple[str, ...], levels: tuple[str, ...], listed: bool, timeout: float, out: Path | None) -> None:
    """Seed bugs that nobody had seen who wrote what names them, and judge each at every level of recording.

    Exit code 1 when a bug is not caught where its taps show it, or the judge fails.
    """
    rows = chosen(globs)
    if listed:
        click.echo("\n".join(f"{row.name}: {row.says} ({row.source}): {answers()[row.name].expect}" for row in rows))
        return
    wanted_levels = levels or _LEVELS
    results = read_results(out) if out is not None and out.exists() else []
    with Progress(console=console(stderr=True), auto_refresh=False) as progress:  # no thread: the work is forked
        bar = progress.add_task("blind", total=len(rows))
        for row in rows:
            before = {result.level for result in results if result.row == row.name}
            left = [level for level in wanted_levels if level not in before]
            results += judged(row, left, timeout) if left else []
            if out is not None:
                write_whole(out, json.dumps([asdict(result) for result in results], indent=1) + "\n")
            progress.update(bar, advance=1, description=row.name, refresh=True)
    names = {row.name for row in rows}
    shown = sorted((x for x in results if x.row in names), key=lambda x: (x.row, _LEVELS.index(x.level)))
    for result in shown:
        click.echo(line(result))
    console().print(table(shown))
    sys.exit(1 if any(result.failure or (result.expected and not result.caught) for result in shown) else 0)


def line(result: Judged) -> str:
    """One row at one level: what became of it, and the first answer to each fault."""
    states = (("caught", result.caught), ("blamed", result.blamed), ("right", result.is_right))
    parts = [name if state else f"not {name}" for name, state in states] if result.caught else ["not caught"]
    parts += [f"innocent: {' '.join(result.innocents)}"] if result.innocents else []
    parts += [f"missed: {' '.join(result.missed)}"] if result.missed else []
    parts += [f"failure: {result.failure}"] if result.failure else []
    said = [f"\n    {'+' if x.is_right else '-'} {x.place}: {x.name}: {x.text}" for x in result.said]
    return f"{result.row} {result.level}: " + ", ".join(parts) + "".join(said)


def read_results(path: Path) -> list[Judged]:
    """What `--json` wrote; raises `ParityError` for anything else."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [
            Judged(**{**row, "said": tuple(Said(**x) for x in row["said"])}
                   | {key: tuple(row[key]) for key in ("innocents", "missed")})
            for row in rows
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise ParityError(
            path,
            "these are no rows of the blind draw",
            expected="a file that --json wrote, or none",
            got=repr(error),
            next_step="give another file",
        ) from None


def table(results: Sequence[Judged]) -> Table:
    """The sums of each level; seconds of diagnoses."""
    sums = Table(*_COLUMNS, box=None)
    for level in _LEVELS:
        some = [result for result in results if result.level == level]
        said = [answer for result in some for answer in result.said]
        counts = [len(some), sum(x.expected for x in some), sum(x.caught for x in some), sum(x.blamed for x in some)]
        counts += [sum(bool(x.innocents) for x in some), sum(x.is_right for x in some)]
        faults = f"{sum(answer.is_right for answer in said)} of {len(said)}"
        seconds = [x.seconds for x in some if x.said] or [0.0]
        failures = sum(bool(x.failure) for x in some)
        if some:
            sums.add_row(
                level, *map(str, counts), faults, str(failures), f"{median(seconds):.1f}", f"{max(seconds):.1f}"
            )
    return sums
