"""What a recording holds, beside a golden if wanted, or what a bug id means: show."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import BUG_ID, ParityError, bug, pb, read
from qwen3_parity.check import check_run
from qwen3_parity.commands import examples, output_options
from qwen3_parity.judge.conventions import conventional
from qwen3_parity.judge.golden_path import golden_path
from qwen3_parity.report import show as pages
from qwen3_parity.report import show_diff
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity show build/parity/decoder/plain.pb --tap '*.q_rope' --diff decoder/plain",
        "qwen3-parity show MSK-21",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tap", "taps", multiple=True, metavar="GLOB", help="Only these taps; with their numbers.")
@click.option("--diff", metavar="GOLDEN", help="Beside this golden, a name or a file: both sides of each tap.")
@output_options("")
def show(file: Path, taps: tuple[str, ...], diff: str | None, output: Output) -> None:
    """Print what a recording holds, what a golden of this name holds, or what a bug id such as MSK-21 means.

    With --diff it stands beside a golden: shapes, dtypes and RMS of both sides, the largest difference and its share of
    the budget; with --tap also the first and the worst element, both values, and how many numbers lie between them.
    """
    if diff is not None:
        _beside(file, golden_path(diff), taps, output)
    elif BUG_ID.fullmatch(str(file)) and not file.exists():
        row = bug(str(file))
        output.finish(0, row.wrong, lambda: pages.bug_to_json(row), lambda: [pages.describe_bug(row)])
    else:
        path = golden_path(str(file))
        recording = read(path, digests=True)
        output.finish(
            0,
            f"{recording.case.name}: {len(recording.tensors)} tensors",
            lambda: pages.to_json(recording, taps),
            lambda: [pages.describe(recording, taps)],
        )


def _beside(file: Path, golden_file: Path, taps: tuple[str, ...], output: Output) -> None:
    """Both sides and nothing more: which is wrong, `check` says, and the exit code is 0."""
    golden, candidate = (read(path, digests=True) for path in (golden_file, file))
    candidate = conventional(candidate, golden).recording
    verdicts = check_run(golden, candidate)
    if golden.case.mode == pb.TOKENIZATION:  # its problems have both sides, stage by stage
        output.finish(0, report.summary(verdicts), verdicts.to_json, lambda: [report.terminal(verdicts, every=True)])
    rows = show_diff.rows(golden, candidate, verdicts, taps)
    if not rows:
        raise ParityError(
            file,
            "no tap of either side is selected",
            expected="a glob over the taps that qwen3-parity show prints",
            got=" ".join(taps),
            next_step=f"qwen3-parity show {file}",
        )
    output.finish(
        0,
        report.summary(verdicts),
        lambda: show_diff.to_json(rows, verdicts),
        lambda: [show_diff.terminal(rows, verdicts)],
    )
