"""A port as a process, asked over a pipe: conformance."""

from __future__ import annotations

import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import click

from qwen3_parity.commands import selection_options
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.candidates import golden_names
from qwen3_parity.judge.selection import Selection
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command()
@selection_options
@click.argument("command", nargs=-1, required=True, metavar="-- PORT [ARGUMENT…]")
@click.option(
    "--level", "levels", multiple=True, type=click.Choice(list(LEVELS)), help="Its cases, none unsupported; repeatable."
)
@click.option("--known", type=FILE, metavar="FILE", help="What is known to fail: 'case # message' a line.")
@click.option("--out", type=FILE, help="Keep the answers here, for check, diagnose and card.")
@click.option(
    "--timeout", type=click.FloatRange(min=0.01), default=60.0, show_default=True, help="Seconds for an answer."
)
@click.option(
    "--memory", type=click.FloatRange(min=0.01), help="GiB of address space for each process  [default: no limit]"
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes side by side.")
def conformance(
    selection: Selection,
    command: tuple[str, ...],
    levels: tuple[str, ...],
    known: Path | None,
    out: Path | None,
    timeout: float,
    memory: float | None,
    jobs: int,
) -> None:
    """Start a port, ask it for the committed cases over a pipe (see golden/README.md), and judge its answers.

    Whatever the port does, the run goes on. Exit code 1 where a case fails that is not among the known ones, where a
    known one does not fail or fails otherwise, and where nothing was judged.
    """
    from qwen3_parity.conformance.known import load, surprises
    from qwen3_parity.conformance.port import Limits
    from qwen3_parity.conformance.run import conformance as run
    from qwen3_parity.report.conformance import terminal

    goldens = golden_names()
    cases = cases_of(levels, list(goldens)) if levels else list(goldens)
    cases = [name for name in cases if selection.takes(name, goldens[name])]
    if not cases:
        raise click.UsageError("no case is left by --level, --only, --exclude and --without")
    listed = load(known) if known else []
    limits = Limits(timeout, int((memory or 0) * (1 << 30)))
    with tempfile.TemporaryDirectory() as folder, console(stderr=True).status("asking") as status:
        found = run(
            command, cases, out or Path(folder), limits=limits, jobs=jobs, required=bool(levels), progress=status.update
        )
    lines = list(surprises(listed, found.failed, cases))
    expected = sum(any(fnmatchcase(name, one.glob) for one in listed) for name in found.failed)
    console().print(terminal(found, lines, expected, out))
    sys.exit(1 if lines or found.answers.remarks or found.folder is None else 0)
