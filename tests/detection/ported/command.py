"""The command that runs ports' mistakes: ported."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from detection.command import Command
from detection.draws import by_level, chosen, line, read_results, run_each, times, write_results
from detection.ported.row import SETS, Row, rows
from detection.ported.run import LEVELS, Judged, Said, gap, judged
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
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for each row at a level.")
@click.option("--json", "out", type=click.Path(path_type=Path),
              help="Every row as JSON, to this file as they come; rows that it has are not run again.")  # fmt: skip
def ported(
    parts: tuple[str, ...], only: str, levels: tuple[str, ...], gaps: bool, timeout: float, out: Path | None
) -> None:
    """Write mistakes of ports into Hugging Face's source, and judge each by the family's own golden.

    Exit code 1 when a mistake is not caught, or the judge fails.
    """
    selected = chosen(
        [row for row in rows() if row.part in (parts or SETS)],
        [only],
        "no row of the set has such a name",
        expected="a glob like 'llama-*'",
        next_step="leave --only out: --gaps lists every row",
    )
    if gaps:
        for row in selected:
            click.echo(f"{row.name} {gap(row):.2g} {row.function}: {row.new or 'left out'}")
        return
    results = read_results(out, _built, "rows of ports' mistakes")
    for result in _run(selected, levels or tuple(LEVELS), {(x.row, x.level) for x in results}, timeout):
        results.append(result)
        click.echo(_line(result))
        if out is not None:
            write_results(out, results)
    names = {row.name for row in selected}
    shown = [x for x in results if x.row in names]
    console().print(table(shown, selected))
    sys.exit(int(any(x.failure or not x.caught for x in shown)))


def _run(rows: Sequence[Row], levels: Sequence[str], before: set[tuple[str, str]], limit: float) -> Iterator[Judged]:
    """Each family in a process of its own, which captures it once; one that dies or hangs fails the row that it ran."""
    for _, group in groupby(rows, lambda row: row.family):
        left = [(row, level) for row in group for level in levels if (row.name, level) not in before]
        yield from run_each(_judged, left, _failed, limit, "spawn")


def _judged(item: tuple[Row, str]) -> Judged:
    return judged(*item)


def _failed(item: tuple[Row, str], failure: str) -> Judged:
    row, level = item
    return Judged(row.name, level, failure=failure)


def _line(result: Judged) -> str:
    """A row at a level: what became of it, and the first answer to each fault."""
    states = {"blamed": result.blamed, "line": result.line, "right": result.is_right}
    notes = {"innocent": " ".join(result.innocents), "failure": result.failure}
    said = [(answer.is_right, f"{answer.place}: {answer.name or 'nothing'}: {answer.text}") for answer in result.said]
    head = f"{result.row} {result.level} (gap {result.gap:.2g})"
    return line(head, states if result.caught else {"caught": False}, notes, said)


def _built(values: dict[str, Any]) -> Judged:
    """A result from the values of its JSON."""
    said = tuple(Said(**answer) for answer in values["said"])
    return Judged(**{**values, "said": said, "innocents": tuple(values["innocents"])})


def table(results: Sequence[Judged], rows: Sequence[Row]) -> Table:
    """The sums of each set, family and level, and of all families; seconds of diagnoses, of the processor."""
    sums, by_name = Table(*_COLUMNS, box=None), {row.name: row for row in rows}
    families = list(dict.fromkeys(row.family for row in rows))
    for part in SETS:
        here = [x for x in results if by_name[x.row].part == part]
        for family in (*families, "all"):
            group = [x for x in here if family in ("all", by_name[x.row].family)]
            for level, at_level in by_level(group, LEVELS):
                counts = [len(at_level), sum(x.caught for x in at_level), sum(x.blamed for x in at_level)]
                counts += [
                    sum(bool(x.innocents) for x in at_level),
                    sum(x.line for x in at_level),
                    sum(x.first for x in at_level),
                ]
                counts += [sum(x.is_right for x in at_level), sum(bool(x.failure) for x in at_level)]
                sums.add_row(part, family, level, *map(str, counts), *times([x.seconds for x in at_level]))
    return sums
