"""The main job: parity."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from qwen3_golden.whole import write_whole
from qwen3_parity.commands import examples, selection_options
from qwen3_parity.judge.selection import Selection
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command(epilog=examples("qwen3-parity parity --only 'decoder/*'"))
@selection_options
@click.option(
    "--impl", help="Somebody else's model (or tokenizer, on --only 'tokenization/*'), as package.module:factory."
)
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@click.option("--out", type=FILE, default="build/parity", show_default=True, help="Recordings and report.html go here.")
@click.option("--partial", is_flag=True, help="The cases' results (logits, generated ids, …) need not be there.")
def parity(selection: Selection, impl: str | None, backend: str, out: Path, partial: bool) -> None:
    """Record an implementation on every committed golden, judge it, and write a report, with plots where the extra
    [report] is installed.

    Ours is a network and a tokenizer; with --impl only the goldens of one of them are run.
    """
    from qwen3_parity.recording.suite import run
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.html import html

    results = run(out, selection, impl=impl, backend=backend, partial=partial)
    page = out / "report.html"
    write_whole(page, html(Report(results)))
    screen = console()
    screen.print(report.overview(results))
    screen.print(f"report: {page}", soft_wrap=True)
    sys.exit(max(verdicts.exit_code for verdicts in results))
