"""The command that measures what is found at each level of recording: levels."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

import click
from rich.progress import track
from rich.table import Table

from detection.command import Command
from detection.kernels import is_open
from detection.levels.measure import Row, measured
from detection.levels.sources import SOURCES, chosen
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.recording.tap_sets import TAP_SETS
from qwen3_parity.report.terminal import console

_COLUMNS = (
    *("of", "level", "bugs", "caught", "no innocents", "named first", "among the first three", "or decided"),
    *("median s", "worst s"),
)


@click.command(cls=Command)
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@click.option("--of", "sources", multiple=True, type=click.Choice(list(SOURCES)), default=("mutants",),
              show_default=True, help="Which bugs; repeatable.")  # fmt: skip
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Every so-manieth bug alone.")
@click.option("--draw", type=click.IntRange(1), help="So many bugs alone, drawn at random by --seed.")
@click.option("--seed", default=0, show_default=True, help="Of --draw.")
@click.option(
    "--level", "chosen_levels", multiple=True, type=click.Choice(list(TAP_SETS)), help="Only these; repeatable."
)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes at a time.")
@click.option("--wrong", is_flag=True, help="Also list what is not named first.")
@click.option(
    "--json",
    "out",
    type=click.Path(path_type=Path),
    help="Every row as JSON, to this file as they come; bugs that it has are not run again.",
)
def levels(
    globs: tuple[str, ...],
    sources: tuple[str, ...],
    every: int,
    draw: int | None,
    seed: int,
    chosen_levels: tuple[str, ...],
    workers: int,
    wrong: bool,
    out: Path | None,
) -> None:
    """Seed bugs of networks, record each once, and judge it with the taps of every level.

    A mechanical change has the answers that every tap gives. The rate of derived seeds says that the library is sound,
    and is no rate of naming. Exit code 1 when a bug is caught nowhere, a group without it is accused, or the judge
    fails.
    """
    names = {source: chosen(source, globs, every, draw, seed) for source in sources}
    if not any(names.values()):
        raise ParityError(
            " ".join(globs),
            "no bug has such a name",
            expected="a glob like 'ROP-*' or 'own/*'",
            got="no match",
            next_step="python -m detection.mutants --list",
        )
    asked = chosen_levels or tuple(TAP_SETS)
    rows = rows_of(out) if out is not None and out.exists() else {}
    for source, bugs in names.items():
        measure(source, bugs, asked, rows, workers, out)
    if out is not None:
        write_whole(out, as_json(rows))
    sys.exit(0 if shown(rows, wrong=wrong) else 1)


def shown(rows: Mapping[str, Sequence[Row]], *, wrong: bool) -> bool:
    """Print what became of the bugs, `wrong`: and what is not named first; whether the judge did what it must."""
    console().print(table(rows))
    every_row = [row for of_source in rows.values() for row in of_source]
    failures = [row for row in every_row if row.failure]
    for row in failures:
        click.echo(f"{row.level} {row.bug}: harness bug: {row.failure}")
    for row in (row for source in rows for row in rows[source] if wrong and listed(source, row)):
        click.echo(f"{row.level} {row.bug}: {'; '.join(' '.join(names[:3]) for names in row.said)}")
    lost = {row.bug for row in every_row} - {row.bug for row in every_row if row.caught}
    return not (lost or failures or any(row.innocents for row in every_row))


def measure(
    source: str,
    bugs: Sequence[str],
    asked: Sequence[str],
    rows: dict[str, list[Row]],
    workers: int,
    out: Path | None,
) -> None:
    """Add the rows of a source's bugs that are not there, and write all of them to `out` as they come."""
    measured_rows = rows.setdefault(source, [])
    before = {(row.bug, row.level) for row in measured_rows}
    left = [bug for bug in bugs if not before.issuperset((bug, level) for level in asked)]
    context = multiprocessing.get_context("fork")  # what is imported and read stays warm
    with context.Pool(workers, maxtasksperchild=1) as pool:
        measuring = pool.imap_unordered(partial(measured, source=source, levels=asked), left)
        for batch in track(measuring, source, len(left), console=console(stderr=True)):
            measured_rows += [row for row in batch if (row.bug, row.level) not in before]
            if out is not None:
                write_whole(out, as_json(rows))
    measured_rows.sort(key=lambda row: row.bug)


def as_json(by_source: Mapping[str, Sequence[Row]]) -> str:
    """The rows of each source."""
    return json.dumps([{"of": of, **asdict(row)} for of, rows in by_source.items() for row in rows], indent=1) + "\n"


def rows_of(path: Path) -> dict[str, list[Row]]:
    """What `as_json` wrote; raises `ParityError` for anything else."""
    by_source: dict[str, list[Row]] = {}
    try:
        for entry in json.loads(path.read_text(encoding="utf-8")):
            said, innocents = tuple(map(tuple, entry.pop("said"))), tuple(entry.pop("innocents"))
            by_source.setdefault(entry.pop("of"), []).append(Row(**entry, said=said, innocents=innocents))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParityError(
            path,
            "these are no rows of levels",
            expected="a file that --json wrote, or none",
            got=repr(error),
            next_step="give another file",
        ) from None
    return by_source


def listed(source: str, row: Row) -> bool:
    """Whether a bug that is not named first is shown by its name: of kernels those of the open half alone."""
    return row.caught and not row.first and (source != "kernels" or is_open(row.bug))


def table(rows: Mapping[str, Sequence[Row]]) -> Table:
    """What became of the bugs of each source, a row a level."""
    grid = Table(*_COLUMNS, box=None)
    for source, level in ((source, level) for source in rows for level in TAP_SETS):
        at_level = [row for row in rows[source] if row.level == level]
        caught = [row for row in at_level if row.caught]
        if not caught:
            continue
        seconds = [row.seconds for row in caught]
        counts = [len(at_level), len(caught), sum(not row.innocents for row in caught)]
        counts += [sum(row.first for row in caught), sum(row.among for row in caught)]
        counts += [sum(row.first or row.decided for row in caught)]
        grid.add_row(source, level, *map(str, counts), f"{median(seconds):.1f}", f"{max(seconds):.1f}")
    return grid
