"""Judge a recording, a folder of them, or our tokenizer on somebody's texts: check."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden.contract import released_cases
from qwen3_golden.whole import write_whole
from qwen3_parity.check import check as judge
from qwen3_parity.commands import (
    DIRECTORY,
    FILE,
    checkpoints_option,
    examples,
    model_option,
    output_options,
    partial_option,
)
from qwen3_parity.commands._by_golden import judge_folder
from qwen3_parity.commands._candidates import Checkpoint, both, by_golden, candidates_argument, folder_of
from qwen3_parity.commands._cards import verify_card
from qwen3_parity.commands._texts import check_texts
from qwen3_parity.folder.check import Folder, check_folder
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.next_command import with_model
from qwen3_parity.report import folder as folders
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.next_step import after_check, after_folder
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity check build/parity/decoder/plain.pb",
        "qwen3-parity check my_recordings/ --level causal --junit verdicts.xml",
        "qwen3-parity check --tokenizer ./Qwen3-0.6B --text 'naïve 東京 123'",
    )
)
@candidates_argument(required=False)
@output_options("Every tap, not only the worst; of a folder, every red case; of texts, every stage of ours.")
@click.option("--junit", type=FILE, help="Also write JUnit's XML, a test for each case.")
@model_option("of a captured case: its ops are judged alone, too.")
@checkpoints_option
@partial_option
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(list(LEVELS)),
    help="Of a folder: its cases alone, and each must be there; repeatable.",
)
@click.option("--card", type=FILE, metavar="CARD.json", help="Of a folder: compute its card again, say what differs.")
@click.option(
    "--tokenizer",
    metavar="DIR_OR_HUB_ID",
    shell_complete=DIRECTORY,
    help="In place of a candidate: our tokenizer beside Hugging Face's, with the vocabulary of this one.",
)
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="Of --tokenizer: a text; repeatable.")
@click.option("--file", "text_files", multiple=True, type=FILE, help="Of --tokenizer: a text in UTF-8; repeatable.")
@click.option("--out", type=FILE, help="Of --tokenizer: also write Hugging Face's recording, a golden of your own.")
def check(
    files: tuple[Path, ...],
    output: Output,
    junit: Path | None,
    model: str | None,
    checkpoints: Path,
    partial: bool,
    levels: tuple[str, ...],
    card: Path | None,
    tokenizer: str | None,
    texts: tuple[str, ...],
    text_files: tuple[Path, ...],
    out: Path | None,
) -> None:
    """Judge a recording, a folder of them, or a tokenizer by what Hugging Face computes.

    GOLDEN is a file or a case's name; left out, it is that of the candidate's case. Where the checkpoint is at hand,
    every op of the candidate is also judged alone, on the candidate's own inputs; without it the verdict is of the run
    only. Of a lossy (quantised, say) candidate it also says how its predictions differ: divergence, ranks, the first
    flip. Of a FOLDER every *.pb, at any depth, is judged by the golden of the case that it says it ran; with a GOLDEN
    before it by that, a line for each.

    With --tokenizer our tokenizer is compared with Hugging Face's, stage by stage, there and back; a long text in
    pieces, cut where that changes none of Hugging Face's ids. What --out writes is recorded, checked and diagnosed like
    the committed goldens, with any tokenizer.
    """
    checkpoint = Checkpoint(model, checkpoints)
    if tokenizer is not None:
        if files or junit or levels or card or partial or checkpoint != Checkpoint():
            raise click.UsageError("--tokenizer takes --text and --file, and no candidate with its options")
        check_texts(tokenizer, texts, text_files, out, output)
    if texts or text_files or out:
        raise click.UsageError("--text, --file and --out go with --tokenizer")
    if not files:
        raise click.UsageError("give a candidate, a golden and a candidate, a folder, or --tokenizer")
    if folder := folder_of(files, checkpoint):
        if card is None:
            _folder(folder, levels, junit, output, partial=partial)
        if levels or junit or partial:
            raise click.UsageError("--card computes what the card says, and takes no other option")
        verify_card(folder, card, output)
    if levels or card:
        raise click.UsageError("--level and --card are for a folder of candidates")
    if by_golden(files):
        judge_folder(
            files,
            checkpoint,
            output,
            lambda golden, candidate, weights: with_model(judge(golden, candidate, weights, partial=partial), model),
            junit,
        )
    _recording(files, checkpoint, junit, output, partial=partial)


def _folder(path: Path, levels: tuple[str, ...], junit: Path | None, output: Output, *, partial: bool) -> NoReturn:
    """Judge every recording of a folder and leave with the folder's exit code."""
    cases = cases_of(levels, released_cases())
    with output.progress("judging", "cases") as update:
        folder = check_folder(path, cases, partial=partial, count=update.count)
        update("writing")
        if junit:
            write_whole(junit, folders.junit(folder))
    output.finish(
        folder.exit_code,
        folders.closing(folder),
        lambda: folders.to_json(folder) | {"next": after_folder(folder, levels)},
        lambda: [folders.terminal(folder, every=output.verbose)],
    )


def _recording(
    files: tuple[Path, ...], checkpoint: Checkpoint, junit: Path | None, output: Output, *, partial: bool
) -> NoReturn:
    """Judge one recording and leave with the verdict's exit code."""
    from qwen3_parity.checkpoints.weights import weights_at_hand

    golden, candidate = both(files)
    weights = weights_at_hand(golden, checkpoint.root, checkpoint.directory(golden.case))
    verdicts = with_model(judge(golden, candidate, weights, partial=partial), checkpoint.model)
    if junit:
        write_whole(junit, folders.junit(Folder(files[-1], [verdicts])))
    output.finish(
        verdicts.exit_code,
        report.summary(verdicts),
        lambda: verdicts.to_json() | {"next": after_check(verdicts, checkpoint.model)},
        lambda: [report.terminal(verdicts, every=output.verbose)],
    )
