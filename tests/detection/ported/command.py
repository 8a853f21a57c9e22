"""The command that runs ports' mistakes: ported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import click
from rich.table import Table

from detection.command import Command
from detection.ported.row import SETS, Row, rows
from detection.ported.run import LEVELS, Judged, Said, gap, judged
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console

_COLUMNS = (
    *("set", "family", "level", "rows", "caught", "blamed", "innocents", "line", "first right", "right"),
    *("failures", "median s", "worst s"),
)


@click.command(cls=Command)
@click.option("--set", "parts", multiple=True, type=click.Choice(SETS), help="Only this set; repeatable.")
@click.option("--only", default="*", metavar="GLOB", help="Rows by name: 'llama-*'.")
@click.option("--level", "levels", multiple=True, type=click.Choice(list(LEVELS)), help="Only this level; repeatable.")
@click.option("--gaps", is_flag=True, help="Only say how far each row moves the results; nothing is judged.")
@click.option("--json", "out", type=click.Path(path_type=Path),
              help="Every row as JSON, to this file as they come; rows that it has are not run again.")  # fmt: skip
def ported(parts: tuple[str, ...], only: str, levels: tuple[str, ...], gaps: bool, out: Path | None) -> None:
    """Write mistakes of ports into Hugging Face's source, and judge each by the family's own golden.

    Exit code 1 when a mistake is not caught, or the judge fails.
    """
    chosen = [row for row in rows() if row.part in (parts or SETS) and fnmatchcase(row.name, only)]
    if not chosen:
        raise ParityError(
            f"--only {only}",
            "no row of the set has such a name",
            expected="a glob like 'llama-*'",
            got="no match",
            next_step="leave --only out: --gaps lists every row",
        )
    if gaps:
        for row in chosen:
            click.echo(f"{row.name} {gap(row):.2g} {row.function}: {row.new or 'left out'}")
        return
    results = read_results(out) if out is not None and out.exists() else []
    for result in _run(chosen, levels or tuple(LEVELS), {(x.row, x.level) for x in results}):
        results.append(result)
        click.echo(line(result))
        if out is not None:
            write_whole(out, (json.dumps([asdict(x) for x in results], indent=1) + "\n").encode())
    names = {row.name for row in chosen}
    shown = [x for x in results if x.row in names]
    console().print(table(shown, chosen))
    sys.exit(int(any(x.failure or not x.caught for x in shown)))


def _run(chosen: Sequence[Row], levels: Sequence[str], before: set[tuple[str, str]]) -> Iterator[Judged]:
    """Each family in a process of its own, which captures it once; one that dies fails the row that it ran."""
    for _, group in groupby(chosen, lambda row: row.family):
        left = [(row, level) for row in group for level in levels if (row.name, level) not in before]
        while left:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                while left:
                    row, level = left.pop(0)
                    try:
                        yield pool.submit(judged, row, level).result()
                    except BrokenProcessPool:
                        yield Judged(row.name, level, failure="the process died")
                        break


def line(result: Judged) -> str:
    """A row at a level: what became of it, and the first answer to each fault."""
    states = (("blamed", result.blamed), ("line", result.line), ("right", result.correct))
    parts = [name if state else f"not {name}" for name, state in states] if result.caught else ["not caught"]
    parts += [f"innocent: {' '.join(result.innocents)}"] if result.innocents else []
    parts += [f"failure: {result.failure}"] if result.failure else []
    said = [f"\n    {'+' if x.correct else '-'} {x.place}: {x.name or 'nothing'}: {x.text}" for x in result.said]
    return f"{result.row} {result.level} (gap {result.gap:.2g}): " + ", ".join(parts) + "".join(said)


def read_results(path: Path) -> list[Judged]:
    """What `--json` wrote; raises `ParityError` for anything else."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        return [
            Judged(**{**row, "said": tuple(Said(**x) for x in row["said"]), "innocents": tuple(row["innocents"])})
            for row in read
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ParityError(
            path,
            "these are no rows of ports' mistakes",
            expected="a file that --json wrote, or none",
            got=repr(error),
            next_step="give another file",
        ) from None


def table(results: Sequence[Judged], chosen: Sequence[Row]) -> Table:
    """The sums of each set, family and level, and of all families; seconds of diagnoses, of the processor."""
    sums, by_name = Table(*_COLUMNS, box=None), {row.name: row for row in chosen}
    families = list(dict.fromkeys(row.family for row in chosen))
    for part in SETS:
        here = [x for x in results if by_name[x.row].part == part]
        for family in (*families, "all"):
            for level in LEVELS:
                some = [x for x in here if x.level == level and family in ("all", by_name[x.row].family)]
                counts = [len(some), sum(x.caught for x in some), sum(x.blamed for x in some)]
                counts += [sum(bool(x.innocents) for x in some), sum(x.line for x in some)]
                counts += [sum(x.first for x in some), sum(x.correct for x in some), sum(bool(x.failure) for x in some)]
                seconds = [x.seconds for x in some] or [0.0]
                times = (f"{median(seconds):.1f}", f"{max(seconds):.1f}")
                if some:
                    sums.add_row(part, family, level, *map(str, counts), *times)
    return sums
