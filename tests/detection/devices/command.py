"""The command that runs the committed cases on an accelerator: devices."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
import numpy as np
import torch
from rich.table import Table

from detection.command import Command
from detection.devices.run import Row, applies, judged
from detection.devices.ways import WAYS
from detection.honest.run import network_goldens
from detection.real_size import VOCABULARY, written
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.judge.budgets import percent
from qwen3_parity.recording.capture import capture, plan
from qwen3_parity.report.terminal import console

_COLUMNS = ("way", "arithmetic", "cases", "parity", "compared", "worst share of a budget", "where")
FOLDER = click.Path(path_type=Path)


@click.command(cls=Command)
@click.option("--device", "name", help="As torch names it, 'cuda:1'.  [default: the accelerator that is there]")
@click.option("--only", default="*", show_default=True, metavar="GLOB", help="Only these cases.")
@click.option("--way", "ways", multiple=True, metavar="NAME", help="Only these ways, as 'ours sdpa TF32'; repeatable.")
@click.option("--real-size", is_flag=True, help="One case of Qwen3-0.6B's shape in place of the committed ones.")
@click.option("--out", type=FOLDER, default="build/devices", show_default=True, help="Recordings go here.")
@click.option("--json", "file", type=FOLDER, help="Every row as JSON, to this file.")
def devices(
    name: str | None,
    only: str,
    ways: tuple[str, ...],
    real_size: bool,
    out: Path,
    file: Path | None,
) -> None:
    """Run the committed cases on an accelerator in every arithmetic and attention, and judge each run.

    TF32 is an arithmetic of its own: its runs are judged by floors of TF32, measured here from the specification. What
    the device refuses is said, and is no failure. Exit code 1 when a run is without parity.
    """
    device = torch.device(name) if name else torch.accelerator.current_accelerator()
    if device is None:
        click.echo("no accelerator is at hand, so nothing was run; --device cpu runs the same on the processor")
        return
    unknown = set(ways) - {way.name for way in WAYS}
    if unknown:
        raise click.BadParameter(f"no such way: {', '.join(sorted(unknown))}", param_hint="--way")
    out.mkdir(parents=True, exist_ok=True)
    paths, model = _real_size(out) if real_size else (network_goldens(only), None)
    rows = list(_rows(device, paths, ways, out, model))
    screen = console()
    screen.print(f"on {described(device)}, torch {torch.__version__}", soft_wrap=True)
    screen.print(table(rows))
    for reason in dict.fromkeys(f"{row.way.name}: not run: {row.reason}" for row in rows if row.reason):
        screen.print(reason, soft_wrap=True)
    red = [row for row in rows if row.verdicts is not None and row.verdicts.exit_code]
    for row in red:
        assert row.verdicts is not None
        screen.print(f"{row.way.name}, {row.case}: {row.verdicts.problems[0]}", soft_wrap=True)
    if file is not None:
        file.write_text(json.dumps([as_json(row) for row in rows], indent=1) + "\n")
    sys.exit(1 if red or not any(row.verdicts for row in rows) else 0)


def described(device: torch.device) -> str:
    """The device by its maker's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def _real_size(out: Path) -> tuple[list[Path], Path]:
    """The golden of 64 tokens at Qwen3-0.6B's shape and its checkpoint, each made once: minutes, and 9 GB of memory."""
    model, golden = out / "qwen3-0.6b-shape", out / "real.pb"
    if not model.exists():
        written(model, "float32")
    if not golden.exists():
        ids = np.random.Generator(np.random.PCG64(64)).integers(0, VOCABULARY, 64)
        capture(plan(model, [], [ids.tolist()], prefill=60), golden)
    return [golden], model


def _rows(
    device: torch.device, paths: Sequence[Path], ways: Sequence[str], out: Path, model: Path | None
) -> Iterator[Row]:
    for way in WAYS:
        if not ways or way.name in ways:
            for path in paths:
                if applies(way, read(path)):
                    yield judged(way, path, device, out, GOLDEN_ROOT / "checkpoints", model)


def table(rows: Sequence[Row]) -> Table:
    """A row for each way and arithmetic."""
    grid = Table(*_COLUMNS, box=None)
    for (way, dtype), group in groupby(
        sorted(rows, key=lambda row: (WAYS.index(row.way), row.dtype)), key=lambda row: (row.way.name, row.dtype)
    ):
        ran = [row.verdicts for row in group if row.verdicts is not None]
        worst = max(
            (verdicts for verdicts in ran if verdicts.worst),
            key=lambda verdicts: verdicts.worst.share if verdicts.worst else 0,
            default=None,
        )
        share, where = (
            ("", "")
            if worst is None or worst.worst is None
            else (percent(worst.worst.share), f"{worst.worst.where} of {worst.case.name}")
        )
        compared = f"{sum(verdicts.compared for verdicts in ran)} of {sum(verdicts.of for verdicts in ran)}"
        grid.add_row(
            way, dtype, str(len(ran)), str(sum(not verdicts.exit_code for verdicts in ran)), compared, share, where
        )
    return grid


def as_json(row: Row) -> dict[str, object]:
    """Plain values of a row."""
    verdicts = row.verdicts
    worst = None if verdicts is None or verdicts.worst is None else verdicts.worst
    return {
        "way": row.way.name,
        "case": row.case,
        "arithmetic": row.dtype,
        "reason": row.reason,
        "verdict": verdicts and verdicts.word,
        "worst_share": worst and float(worst.share),
        "where": worst and worst.where,
    }
