"""What a recording holds: show."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import read
from qwen3_parity.report.show import describe
from qwen3_parity.report.terminal import console


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tap", "taps", multiple=True, metavar="GLOB", help="Only these taps; with their numbers.")
def show(file: Path, taps: tuple[str, ...]) -> None:
    """Print what a recording holds."""
    console().print(describe(read(file, digests=True), taps))
