"""`python -m detection.families`: the list of families, each captured, run honestly and with mistakes, and judged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import torch
from rich.table import Table

from detection.command import Command
from detection.draws import write_results
from detection.families.measure import Family, measured
from detection.families.models import FAMILIES, NAMED
from detection.families.table import cells, markdown, remarks
from qwen3_golden import ParityError
from qwen3_golden.whole import write_whole
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command(cls=Command)
@click.option("--only", default="*", metavar="GLOB", help="Only these families.")
@click.option("--named", is_flag=True, help="The families that are listed by name alone.")
@click.option("--workers", default=1, type=click.IntRange(1), help="Families side by side, a process each.")
@click.option("--few", default=0, type=click.IntRange(0), help="Of each kind the first few alone.")
@click.option("--compiled", is_flag=True, help="Compiled models too, a minute each.")
@click.option("--bfloat16", is_flag=True, help="Models in bfloat16.")
@click.option("--json", "as_json", type=FILE, help="Write every family's figures to this file.")
@click.option("--markdown", "page", type=FILE, help="Write the table to this file.")
def families(
    only: str,
    named: bool,
    workers: int,
    few: int,
    compiled: bool,
    bfloat16: bool,
    as_json: Path | None,
    page: Path | None,
) -> None:
    """Judge Hugging Face's own models by their own goldens, honest and with mistakes.

    The exit code is 1 where an honest run is called wrong, a mistake is missed, or somebody innocent is blamed.
    """
    names = [name for name in (NAMED if named else FAMILIES) if fnmatchcase(name, only)]
    if not names:
        raise ParityError(
            f"--only {only}",
            "no family is called so",
            expected=f"a glob over {', '.join(list(FAMILIES)[:4])} and the like",
            got=only,
            next_step="leave --only out",
        )
    rows = list[Family]()
    for row in _measured(names, workers, compiled=compiled, bfloat16=bfloat16, few=few):
        print(f"{row.family}: {row.honest} honest, {row.mistakes} mistakes", file=sys.stderr, flush=True)
        rows = sorted((*rows, row), key=lambda row: names.index(row.family))
        if as_json is not None:  # an hour's rows outlive whatever ends it
            write_results(as_json, rows)
    screen, (head, *lines) = console(), cells(rows)
    shown = Table(*head)
    for line in lines:
        shown.add_row(*line)
    screen.print(shown)
    for remark in remarks(rows):
        screen.print(remark, markup=False)
    if page is not None:
        write_whole(page, markdown(rows, _NAMED_HEAD if named else _HEAD).encode())
    sys.exit(int(any(row.alarms or row.missed or row.astray or row.innocent for row in rows)))


_HEAD = """# Families of transformers

Words: [glossary](glossary.md).

Hugging Face's own models, tiny and loud, each judged by its own golden with module outputs alone: honest runs (SDPA,
experts' implementations, other cuts of the steps, float64, other orders of sums) and seeded mistakes. `worst` is the
largest share of a headroom that an honest run used, `smallest` that of the mildest mistake that was caught. Seconds
are of the machine and of what else it did. Made by `make families`."""


_NAMED_HEAD = """# Further families of transformers

Words: [glossary](glossary.md). As [families](families.md), of which nothing stands in the list but transformers' name:
sizes and inputs are those of `capture --tiny`. Of the honest runs and of the mistakes the first five of each. Made by
`make families`."""


def _measured(names: Sequence[str], workers: int, **options: Any) -> Iterator[Family]:
    """The families' rows, each as soon as it is there; what ends a family's run is an alarm of its own."""
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        families = {pool.submit(measured, name, **options): name for name in names}
        for row in as_completed(families):
            error = row.exception()
            yield row.result() if error is None else Family(families[row], alarms=[f"harness bug: {error!r}"])
