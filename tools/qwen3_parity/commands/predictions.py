"""The command for lossy candidates: predictions."""

from __future__ import annotations

import json
from pathlib import Path

import click

from qwen3_golden import read
from qwen3_parity.judge.golden_path import golden_of
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.predictions import predictions as compare
from qwen3_parity.report import predictions as report
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE")
@click.option("--json", "as_json", is_flag=True, help="Every position as JSON.")
def predictions(files: tuple[str, ...], as_json: bool) -> None:
    """What a lossy (quantised, say) candidate predicts, beside the golden: divergence, ranks, the first flip.

    Both were fed the same ids, so one flipped token does not end the comparison. Nothing passes or fails here, and the
    exit code is 0: parity is the business of check. The golden is found by the case's name when left out.
    """
    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate")
    candidate = read(Path(files[-1]), digests=True)
    golden = read(Path(files[0]) if len(files) == 2 else golden_of(candidate), digests=True)
    found = compare(golden, candidate)
    if as_json:
        click.echo(json.dumps(plain(report.to_json(found)), indent=2))
    else:
        console().print(report.terminal(found))
