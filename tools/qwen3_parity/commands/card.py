"""What a folder of recordings reached, written down and verified: card."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden.whole import write_whole
from qwen3_parity.commands import examples, output_options
from qwen3_parity.folder.card import card as of_folder
from qwen3_parity.folder.card import differences, load
from qwen3_parity.report.card import markdown, verdict
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command(
    epilog=examples(
        "qwen3-parity card my_recordings/ --date 2026-01-31",
        "qwen3-parity card my_recordings/ --verify my_recordings/card.json",
    )
)
@click.argument("folder", type=FILE)
@output_options("Which files were written, too.")
@click.option("--name", help="The implementation's name and version  [default: the folder's name]")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="The card's date, which no clock is asked for.")
@click.option("--out", type=FILE, help="OUT.md and OUT.json, and nothing is printed of it  [default: FOLDER/card]")
@click.option("--verify", type=FILE, metavar="CARD.json", help="Compute this card again and say what differs.")
def card(
    folder: Path, output: Output, name: str | None, date: datetime | None, out: Path | None, verify: Path | None
) -> None:
    """Write what the recordings of FOLDER reach, as Markdown and JSON, or verify what such a card says.

    Exit code 1 where no level is reached, or where the card says anything else than what is computed now.
    """
    if verify is not None:
        if name or date or out:
            raise click.UsageError("--verify takes name and date from the card, and writes nothing")
        _verified(folder, verify, output)
    if date is None:
        raise click.UsageError("give the card's --date, as 2026-01-31")
    with output.progress("judging", "cases") as update:
        contents = of_folder(folder, name or folder.resolve().name, date.date().isoformat(), update.count)
    path = out or folder / "card"
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in ("json", "md")]
    text = markdown(contents)
    write_whole(files[0], json.dumps(contents, indent=1) + "\n")
    write_whole(files[1], text)
    shown = [verdict(contents) if out else text, *[f"written: {file}" for file in files if out or output.verbose]]
    reached = any(level["reached"] for level in contents["levels"].values())
    data = {"card": contents, "files": list(map(str, files)), "differences": []}
    output.finish(0 if reached else 1, verdict(contents), lambda: data, lambda: shown)


def _verified(folder: Path, path: Path, output: Output) -> NoReturn:
    said = load(path)
    with output.progress("judging", "cases") as update:
        now = of_folder(folder, said["name"], said["date"], update.count)
    lines = list(differences(said, now))
    page = path.with_suffix(".md")
    if not lines and page.is_file() and page.read_bytes() != markdown(said).encode():
        lines.append(f"{page}: not the text of {path.name}")
    good = f"{path}: everything that it says was computed again from {folder}"
    line = f"{path}: {len(lines)} things are otherwise, first {lines[0]}" if lines else good
    data = {"card": now, "files": [], "differences": lines}
    output.finish(1 if lines else 0, line, lambda: data, lambda: lines or [good])
