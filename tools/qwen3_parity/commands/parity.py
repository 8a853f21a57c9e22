"""The main job: parity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from qwen3_golden.whole import write_whole
from qwen3_parity.commands import FILE, budget_option, examples, output_options, partial_option, selection_options
from qwen3_parity.folder.check import Folder
from qwen3_parity.folder.diagnose import IN_ALL, diagnose_folder
from qwen3_parity.judge.selection import Selection
from qwen3_parity.report import folder as folders
from qwen3_parity.report import folder_diagnosis as diagnoses
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.next_step import after_folder_diagnosis
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity parity --only 'decoder/*'", "qwen3-parity parity --impl my_model:build --without yarn"
    )
)
@selection_options
@click.option(
    "--impl", help="Somebody else's model (or tokenizer, on --only 'tokenization/*'), as package.module:factory."
)
@click.option("--names", type=FILE, help="The name map of a torch module that --impl's factory builds, as TOML.")
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@click.option("--out", type=FILE, default="build/parity", show_default=True, help="Recordings and report.html go here.")
@output_options("")
@budget_option
@partial_option
def parity(
    selection: Selection,
    impl: str | None,
    names: Path | None,
    backend: str,
    out: Path,
    output: Output,
    deadline: float,
    partial: bool,
) -> None:
    """Record an implementation on every committed golden, judge it, and write a report.

    The report has plots where the extra [report] is installed. Ours is a network and a tokenizer; with --impl only the
    goldens of one of them are run. A red run ends with the mistakes that are behind it.
    """
    from qwen3_parity.recording.record_case import Implementation
    from qwen3_parity.recording.suite import run
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.html import html
    from qwen3_parity.report.page.mistakes import mistakes_of_folder

    with output.progress("recording and judging", "cases") as update:
        implementation = Implementation(impl, names, backend)
        results = run(out, selection, implementation=implementation, partial=partial, count=update.count)
        folder = Folder(out, results)
        update("diagnosing")
        diagnosis = diagnose_folder(
            folder, update, partial=partial, whole=IN_ALL, deadline=deadline, count=update.count
        )
    page = out / "report.html"
    write_whole(page, html(Report(folder.results, mistakes_of_folder(diagnosis) if folder.red else ())))

    def shown() -> Iterator[RenderableType]:
        if folder.red:
            yield report.cases_table(folder.results)
            yield diagnoses.terminal(diagnosis)
        else:
            yield report.overview(folder.results)
        yield f"report: {page}"

    def to_json() -> dict[str, Any]:
        return folders.to_json(folder) | {"next": after_folder_diagnosis(diagnosis)}

    output.finish(folder.exit_code, report.closing(folder.results), to_json, shown)
