"""The commands that find mistakes: diagnose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.judge.golden_path import golden_of
from qwen3_parity.judge.match import refuse_weights
from qwen3_parity.report.progress import progress
from qwen3_parity.report.terminal import console

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE | FOLDER")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--model", type=FILE, help="The checkpoint or tokenizer directory of a captured case.")
@click.option("--checkpoints", type=FILE, default=GOLDEN_ROOT / "checkpoints", help="Where the case's checkpoints are.")
@click.option("--budget", type=click.FloatRange(0), default=10.0, show_default=True, metavar="SECONDS",
              help="How long the mistake is looked for among ops without a tap.")  # fmt: skip
@click.option("--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there.")
def diagnose(
    files: tuple[str, ...], as_json: bool, model: Path | None, checkpoints: Path, partial: bool, budget: float
) -> None:
    """Name the ops (a tokenizer's stages) that are wrong on their own inputs, and the mistake that reproduces them.

    The golden is found by the case's name when left out. Nothing but the two files and the checkpoint is read. A folder
    has one diagnosis: each mistake with all the red cases that it is behind.
    """
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find
    from qwen3_parity.report import diagnoses as pages

    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate, or a folder")
    if len(files) == 1 and Path(files[0]).is_dir():
        if model or checkpoints != GOLDEN_ROOT / "checkpoints":
            raise click.UsageError("--model and --checkpoints are for one candidate, and this is a folder")
        folders(Path(files[0]), as_json=as_json, partial=partial, budget=budget)
    candidate = read(Path(files[-1]), digests=True)
    golden = read(Path(files[0]) if len(files) == 2 else golden_of(candidate), digests=True)
    refuse_weights(candidate, golden)
    if golden.case.mode == pb.TOKENIZATION:
        tokenizers(golden, candidate, model, as_json=as_json, partial=partial)
    with progress("reading") as update:
        found = find(golden, candidate, weights_of(golden, checkpoints, model), update, partial=partial, budget=budget)
    if as_json:
        click.echo(json.dumps(pages.to_json(found), indent=2))
    else:
        console().print(pages.terminal(found))
    sys.exit(found.verdicts.exit_code)


def folders(path: Path, *, as_json: bool, partial: bool, budget: float) -> NoReturn:
    """Print the one diagnosis of a folder and exit with the folder's code."""
    from qwen3_parity.folder.check import check_folder
    from qwen3_parity.folder.diagnose import diagnose_folder
    from qwen3_parity.report import folder_diagnosis as pages

    with progress("judging") as update:
        found = diagnose_folder(check_folder(path, partial=partial), update, partial=partial, budget=budget)
    if as_json:
        click.echo(json.dumps(pages.to_json(found), indent=2))
    else:
        console().print(pages.terminal(found))
    sys.exit(found.folder.exit_code)


def tokenizers(
    golden: Recording, candidate: Recording, model: Path | None, *, as_json: bool, partial: bool
) -> NoReturn:
    """Print the diagnosis of a tokenizer and exit with the verdict's code."""
    from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of
    from qwen3_parity.report import text_diagnoses as pages

    with progress("reading") as update:
        found = diagnose_tokenization(golden, candidate, directory_of(golden, model), update, partial=partial)
    if as_json:
        click.echo(json.dumps(pages.to_json(found), indent=2))
    else:
        console().print(pages.terminal(found))
    sys.exit(found.verdicts.exit_code)
