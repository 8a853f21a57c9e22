"""What a recording holds, or what a bug id means: show."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import BUG_ID, bug, read
from qwen3_parity.commands import examples
from qwen3_parity.report.show import describe, describe_bug
from qwen3_parity.report.terminal import console


@click.command(
    epilog=examples("qwen3-parity show build/parity/decoder/plain.pb --tap '*.q_rope'", "qwen3-parity show MSK-21")
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tap", "taps", multiple=True, metavar="GLOB", help="Only these taps; with their numbers.")
def show(file: Path, taps: tuple[str, ...]) -> None:
    """Print what a recording holds, or what a bug id such as MSK-21 means."""
    if BUG_ID.fullmatch(str(file)) and not file.exists():
        console().print(describe_bug(bug(str(file))))
        return
    console().print(describe(read(file, digests=True), taps))
