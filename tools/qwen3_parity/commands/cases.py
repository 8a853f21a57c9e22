"""The committed cases: cases."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import click
from rich.table import Table

from qwen3_golden import pb, read
from qwen3_parity.commands import CASES, examples, output_options
from qwen3_parity.folder.levels import LEVELS, cases_of, level_of
from qwen3_parity.judge.golden_path import case_names, golden_path, no_such_case
from qwen3_parity.report.output import Output


@click.command(epilog=examples("qwen3-parity cases 'decoder/*'", "qwen3-parity cases --level causal"))
@click.argument("globs", nargs=-1, metavar="[GLOB…]", shell_complete=CASES)
@click.option("--level", "levels", multiple=True, type=click.Choice(list(LEVELS)), help="Of these levels; repeatable.")
@output_options("The bugs that each case exposes, too.")
def cases(globs: tuple[str, ...], levels: tuple[str, ...], output: Output) -> None:
    """List the committed cases: the level that each belongs to, its taps, and what it shows."""
    names = cases_of(levels, case_names()) if levels else case_names()
    chosen = [name for name in names if not globs or any(fnmatchcase(name, glob) for glob in globs)]
    if not chosen:
        raise no_such_case(" ".join((*globs, *levels)))
    rows = [_row(name) for name in chosen]
    line = f"{len(rows)} cases"
    output.finish(0, line, lambda: {"cases": rows}, lambda: [_table(rows, output), line])


def _row(name: str) -> dict[str, object]:
    golden = read(golden_path(name))
    return {
        "name": name,
        "level": level_of(name),
        "mode": pb.Mode.Name(golden.case.mode),
        "steps": list(golden.case.steps),
        "taps": len(golden.tensors),
        "description": golden.case.description,
        "exposes": list(golden.case.exposes),
    }


def _table(rows: Sequence[dict[str, object]], output: Output) -> Table:
    table = Table("case", "level", "taps", "what it shows", *["exposes"] * output.verbose, box=None)
    table.columns[0].no_wrap = True
    for row in rows:
        exposes = " ".join(map(str, row["exposes"] if isinstance(row["exposes"], list) else ()))
        cells = (row["name"], row["level"] or "–", row["taps"], row["description"], *[exposes] * output.verbose)
        table.add_row(*map(str, cells))
    return table
