"""The command that runs honest variations and asks whether the headrooms fit what they use: budgets."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from google.protobuf import text_format
from rich.progress import track
from rich.table import Table

from detection.command import Command
from detection.honest.measure import Errors, Row, errors_of, proposed, rows, worst, written
from qwen3_golden import GOLDEN_ROOT, ParityError, pb
from qwen3_golden.whole import write_whole
from qwen3_parity.recording.tap_sets import TAP_SETS
from qwen3_parity.report.terminal import console

TOLERANCES = GOLDEN_ROOT / "tolerances.textproto"
FILE = click.Path(path_type=Path)


@click.command(cls=Command)
@click.option("--variation", default="*", metavar="GLOB", help="Only these variations.")
@click.option("--only", default="*", metavar="GLOB", help="Only these cases.")
@click.option("--level", "levels", multiple=True, type=click.Choice(list(TAP_SETS)), help="Judged by these taps alone.")
@click.option("--quick", is_flag=True, help="Without the variations that take minutes.")
@click.option("--mutants", type=FILE, help="What `detection.mutants --json` wrote: the other side of a budget.")
@click.option("--check", is_flag=True, help="Exit code 1 when a headroom does not fit what was measured.")
@click.option("--write", is_flag=True, help="Write what was measured, and the numbers that follow, to the table.")
def budgets(
    variation: str, only: str, levels: tuple[str, ...], quick: bool, mutants: Path | None, check: bool, write: bool
) -> None:
    """Measure what honest variations use of every headroom in golden/tolerances.textproto.

    A variation that fails a check or has an op blamed is a false alarm: it is printed, and the exit code is 1.
    """
    text = TOLERANCES.read_text(encoding="utf-8")
    table = text_format.Parse(text, pb.Tolerances())
    measured, alarms = measure(variation, only, quick, levels or ("all",))
    measured_rows = rows(table, measured, smallest(mutants) if mutants else None)
    screen = console()
    screen.print(page(measured_rows))
    for alarm in alarms:
        screen.print(f"false alarm: {alarm}", markup=False)
    broken = [row for row in measured_rows if row.problems]
    for row in broken:
        name = f"{row.kind} {row.op or 'every other op'} {row.measure}"
        screen.print(f"{name} {row.headroom:g}: {'; '.join(row.problems)}; {row.proposed:g} would fit", markup=False)
    if write and not alarms:
        head = text[: text.index("\nheadroom") + 1]
        write_whole(TOLERANCES, written(proposed(table, measured_rows), head))
        screen.print(f"written: {TOLERANCES}\nnext: python -m qwen3_golden.manifest --write", markup=False)
    sys.exit(1 if alarms or (check and broken) else 0)


def measure(
    variation: str = "*", only: str = "*", quick: bool = False, levels: Sequence[str] = ("all",)
) -> tuple[Errors, list[str]]:
    """The worst errors of the variations and cases that match, and every false alarm at these levels of recording."""
    from detection.honest.run import VARIATIONS, network_goldens, run

    chosen = [tried for tried in VARIATIONS if fnmatchcase(tried.name, variation) and not (quick and tried.slow)]
    if not chosen:
        names = ", ".join(tried.name for tried in VARIATIONS)
        raise ParityError(
            variation, "no honest variation has such a name", expected=names, got="no match", next_step="choose one"
        )
    paths, alarms, measured = network_goldens(only), [], []
    with TemporaryDirectory() as folder:
        for tried in track(chosen, description="honest variations"):
            for outcome in run(tried, paths, Path(folder) / tried.name, levels):
                measured.append(errors_of(outcome.verdicts, outcome.ops, tried.name))
                alarms += [f"{tried.name}, {outcome.case}, {outcome.level}: {alarm}" for alarm in outcome.alarms]
    return worst(measured), alarms


def smallest(path: Path) -> Mapping[tuple[str, str], float]:
    """The budgets that the smallest seeded bug uses, by (kind, op), from the file of the mutants command.

    A bug counts with the case that shows it most. Raises `ParityError` for a file that holds nothing of the kind.
    """
    try:
        outcomes: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["mutants"]
        ran = [[case for case in mutant["cases"] if case["caught"] and not case.get("refused")] for mutant in outcomes]
        shares = [[_number(case["share"]) for case in cases] for cases in ran]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ParityError(
            path,
            "no outcomes of seeded bugs",
            expected='JSON with "mutants": [{"cases": [{"caught", "share"}]}]',
            got=repr(error),
            next_step="write it with python -m detection.mutants --json",
        ) from None
    return {("run", ""): min((max(by_case) for by_case in shares if by_case), default=math.inf)}


def _number(share: float | None) -> float:
    return math.inf if share is None else share


def page(measured_rows: list[Row]) -> Table:
    """One line for each number of the table."""
    table = Table("kind", "op", "measure", "worst honest", "headroom", "used", "seeded", "where")
    for row in measured_rows:
        if row.honest.error:
            seeded = "" if row.seeded is None else f"{row.seeded:.3g} ×"
            line = (row.kind, row.op or "every other", row.measure, f"{row.honest.error:.2f}", f"{row.headroom:g}")
            table.add_row(*line, f"{row.share:.0%}", seeded, row.honest.where, style="red" if row.problems else "")
    return table
