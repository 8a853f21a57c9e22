"""The command that changes our implementation mechanically and counts who notices: mechanical."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.progress import track

from detection.command import Command
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console


@click.command(cls=Command)
@click.option("--only", default="*", metavar="GLOB", help="Only mutants whose id or key matches.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write every judgement to this file.")
@click.option("--workers", default=1, show_default=True, help="How many mutants run at the same time.")
def mechanical(only: str, path: Path | None, workers: int) -> None:
    """Change our implementation mechanically, one small change at a time, and count who notices.

    Exit code 1 when a mutant lives that nobody has judged, or the judge itself failed on one.
    """
    from detection.mechanical import table
    from detection.mechanical.run import all_mutants, run_all, unchanged

    chosen = all_mutants(only)
    if not chosen:
        expected = "a glob over files and changes, as '*norm*'"
        raise ParityError(only, "no mutant has such an id", expected=expected, got="no match", next_step="give another")
    with unchanged() as reference:
        judgements = run_all(chosen, reference, workers)
        results = list(track(judgements, total=len(chosen), description="mutants"))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps([table.as_json(*result) for result in results], indent=1))
    screen = console()
    screen.print(table.terminal(results))
    screen.print(table.summary(results))
    open_ones = [mutant for mutant, judged in results if table.verdict(mutant, judged) in ("not judged", "harness")]
    for mutant in open_ones:
        screen.print(mutant.id, markup=False, soft_wrap=True)
    sys.exit(1 if open_ones else 0)
