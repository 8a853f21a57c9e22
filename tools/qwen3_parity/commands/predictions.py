"""The command for lossy candidates: predictions."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import read
from qwen3_parity.commands import examples, output_options
from qwen3_parity.judge.golden_path import golden_of, golden_path
from qwen3_parity.judge.predictions import predictions as compare
from qwen3_parity.report import predictions as report
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command(epilog=examples("qwen3-parity predictions build/parity/decoder/plain.pb"))
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="[GOLDEN] CANDIDATE")
@output_options("Every position, not only the worst.")
def predictions(files: tuple[Path, ...], output: Output) -> None:
    """What a lossy (quantised, say) candidate predicts, beside the golden: divergence, ranks, the first flip.

    Both were fed the same ids, so one flipped token does not end the comparison. Nothing passes or fails here, and the
    exit code is 0: parity is the business of check. The golden is found by the case's name when left out.
    """
    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate")
    candidate = read(files[-1], digests=True)
    golden = read(golden_path(str(files[0])) if len(files) == 2 else golden_of(candidate), digests=True)
    found = compare(golden, candidate)
    shown = report.terminal(found, every=output.verbose)
    output.finish(0, "; ".join(report.summary(found)), lambda: report.to_json(found), lambda: [shown])
