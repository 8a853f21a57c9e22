"""The command that holds common gates beside this judge: gates."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import track

from detection.command import Command
from detection.draws import run_each, write_results
from detection.mutants.command import chosen
from qwen3_parity.report.terminal import console

if TYPE_CHECKING:
    from detection.gates.run import Row


@click.command(cls=Command)
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True,
              help="Every so-manieth bug, and honest run, alone.")  # fmt: skip
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds for each.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Every row as JSON, to this file.")
def gates(globs: tuple[str, ...], every: int, timeout: float, out: Path | None) -> None:
    """Seed bugs, run honest variations, and see which of them common gates let pass; the table in Markdown.

    Bugs are those of `detection.mutants` whose first case shows outputs of layers and logits. Exit code 1 when this
    judge lets a bug pass or refuses an honest run.
    """
    from detection.gates.run import OURS, has_outputs, of_bug, of_variation, variations
    from detection.mutants.isolated import golden_of

    mutants = [mutant for mutant in chosen(globs) if not (mutant.of_tokenizer or mutant.of_weights)]
    bugs = [mutant for mutant in mutants if has_outputs(golden_of(mutant.cases[0]))][::every]
    honest = list(variations())[::every]
    rows = list(_tracked("bugs", run_each(of_bug, bugs, _of_bug_failed, timeout), len(bugs)))
    rows += _tracked("honest", run_each(of_variation, honest, _of_variation_failed, timeout), len(honest))
    if out is not None:
        write_results(out, rows)
    click.echo(markdown(rows))
    refused = [row for row in rows if row.failure]
    for row in refused:
        click.echo(f"{row.name} on {row.case}: not run: {row.failure}", err=True)
    sys.exit(1 if any((OURS in row.passes) != row.honest for row in rows if not row.failure) else 0)


def _tracked(label: str, rows: Iterator[Row], total: int) -> Iterator[Row]:
    yield from track(rows, label, total, console=console(stderr=True), auto_refresh=False)


def _of_bug_failed(mutant: Any, why: str) -> Row:
    from detection.gates.run import Row

    return Row(mutant.name, mutant.cases[0], honest=False, failure=why)


def _of_variation_failed(item: Any, why: str) -> Row:
    from detection.gates.run import Row

    return Row(item[0].name, item[1], honest=True, failure=why)


def markdown(rows: Sequence[Row]) -> str:
    """A row a gate: how many bugs it lets pass, and how many honest runs it refuses; what could not run left out."""
    from detection.gates.common import GATES
    from detection.gates.run import OURS

    bugs = [row for row in rows if not (row.honest or row.failure)]
    honest = [row for row in rows if row.honest and not row.failure]
    lines = [
        f"| gate | lets pass, of {len(bugs)} bugs | refuses, of {len(honest)} honest runs |",
        "| --- | --- | --- |",
    ]
    for gate in (*GATES, OURS):
        passed, refused = sum(gate in row.passes for row in bugs), sum(gate not in row.passes for row in honest)
        lines.append(f"| {gate} | {passed}{_rate(passed, len(bugs))} | {refused}{_rate(refused, len(honest))} |")
    return "\n".join(lines)


def _rate(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.0f} %)" if whole else ""
