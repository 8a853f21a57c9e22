"""The command that measures the judge on bugs that it was not built for: unseen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.progress import track

from detection.command import Command
from detection.draws import LEVELS, chosen
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console


@click.command(cls=Command)
@click.option("--only", "globs", multiple=True, metavar="ID", help="Only these bugs, globs too; repeatable.")
@click.option("--level", "levels", multiple=True, type=click.Choice(LEVELS),
              help="Only this level of recording; repeatable. Otherwise those that a bug was drawn for.")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Only say which there are.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds for each bug.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Every outcome to this file, as they come.")
def unseen(globs: tuple[str, ...], levels: tuple[str, ...], listed: bool, timeout: float, out: Path | None) -> None:
    """Seed 73 bugs of networks that nobody had seen when they were drawn: caught, blamed, and named first?

    Exit code 1 when a bug is not caught, cannot be run, or somebody innocent is blamed.
    """
    from detection.unseen import rows

    bugs = chosen(
        rows(),
        globs,
        "no bug has such an id",
        expected="an id like S6, or a glob like 'X*'",
        next_step="python -m detection.unseen --list",
    )
    if listed:
        click.echo("\n".join(f"{bug.name}: {bug.says} ({bug.case})" for bug in bugs))
        return
    from detection.unseen.run import run_all
    from detection.unseen.table import sums, terminal, to_json

    screen, results = console(stderr=True), []
    for batch in track(run_all(bugs, levels, timeout), "unseen", len(bugs), console=screen, auto_refresh=False):
        results += batch
        if out is not None:
            write_whole(out, (json.dumps(to_json(results), indent=1) + "\n").encode())
    console().print(terminal(results))
    console().print(sums(results))
    sys.exit(1 if any(bug.failure or bug.innocents or not bug.caught for bug in results) else 0)
