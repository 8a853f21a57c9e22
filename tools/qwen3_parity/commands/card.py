"""What a folder of recordings reached, written down and verified: card."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import click

from qwen3_golden.whole import write_whole
from qwen3_parity.folder.card import card as of_folder
from qwen3_parity.folder.card import differences, load
from qwen3_parity.report.card import markdown
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=FILE)
@click.option("--name", help="The implementation's name and version  [default: the folder's name]")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="The card's date, which no clock is asked for.")
@click.option("--out", type=FILE, help="OUT.md and OUT.json are written  [default: FOLDER/card]")
@click.option("--verify", type=FILE, metavar="CARD.json", help="Compute this card again and say what differs.")
def card(folder: Path, name: str | None, date: datetime | None, out: Path | None, verify: Path | None) -> None:
    """Write what the recordings of FOLDER reach, as Markdown and JSON, or verify what such a card says.

    Exit code 1 where no level is reached, or where the card says anything else than what is computed now.
    """
    if verify is not None:
        if name or date or out:
            raise click.UsageError("--verify takes name and date from the card, and writes nothing")
        sys.exit(_verified(folder, verify))
    if date is None:
        raise click.UsageError("give the card's --date, as 2026-01-31")
    found = of_folder(folder, name or folder.resolve().name, date.date().isoformat())
    out = out or folder / "card"
    text = markdown(found)
    write_whole(out.with_name(f"{out.name}.json"), json.dumps(found, indent=1) + "\n")
    write_whole(out.with_name(f"{out.name}.md"), text)
    console().print(text, soft_wrap=True)
    sys.exit(0 if any(one["reached"] for one in found["levels"].values()) else 1)


def _verified(folder: Path, path: Path) -> int:
    said = load(path)
    now = of_folder(folder, said["name"], said["date"])
    lines = list(differences(said, now))
    page = path.with_suffix(".md")
    if not lines and page.is_file() and page.read_text(encoding="utf-8", errors="replace") != markdown(said):
        lines.append(f"{page}: not the text of {path.name}")
    for line in lines or [f"{path}: everything that it says was computed again from {folder}"]:
        console().print(line, soft_wrap=True)
    return 1 if lines else 0
