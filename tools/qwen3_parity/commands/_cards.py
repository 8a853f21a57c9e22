"""What a folder of recordings reached, written down by report --format card and verified by check --card."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden.whole import write_whole
from qwen3_parity.folder.card import card as of_folder
from qwen3_parity.folder.card import differences, load
from qwen3_parity.report.card import markdown, verdict
from qwen3_parity.report.output import Output
from qwen3_parity.report.progress import progress
from qwen3_parity.report.terminal import console


def write_card(folder: Path, label: str | None, date: datetime | None, out: Path | None) -> NoReturn:
    """Write OUT.json and OUT.md, by default FOLDER/card; the exit code is 1 where no level is reached."""
    if date is None:
        raise click.UsageError("give the card's --date, as 2026-01-31: no clock is asked")
    with progress("judging", "cases") as update:
        contents = of_folder(folder, label or folder.resolve().name, date.date().isoformat(), update.count)
    out = out or folder / "card"
    files = [out.with_name(f"{out.name}.{suffix}") for suffix in ("json", "md")]
    write_whole(files[0], json.dumps(contents, indent=1) + "\n")
    write_whole(files[1], markdown(contents))
    reached = any(level["reached"] for level in contents["levels"].values())
    console().print(f"{verdict(contents)}\ncard: {' '.join(map(str, files))}", soft_wrap=True, markup=False)
    sys.exit(0 if reached else 1)


def verify_card(folder: Path, path: Path, output: Output) -> NoReturn:
    """Compute a card again; the exit code is 1 where it says anything else than what is computed now."""
    said = load(path)
    with output.progress("judging", "cases") as update:
        now = of_folder(folder, said["name"], said["date"], update.count)
    lines = list(differences(said, now))
    page = path.with_suffix(".md")
    if not lines and page.is_file() and page.read_bytes() != markdown(said).encode():
        lines.append(f"{page}: not the text of {path.name}")
    good = f"{path}: everything that it says was computed again from {folder}"
    line = f"{path}: {len(lines)} things are otherwise, first {lines[0]}" if lines else good
    data = {"card": now, "differences": lines}
    output.finish(1 if lines else 0, line, lambda: data, lambda: lines or [good])
