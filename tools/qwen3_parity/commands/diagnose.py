"""The commands that find mistakes: diagnose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden import Array, Recording, pb
from qwen3_parity.commands import (
    budget_option,
    checkpoints_option,
    examples,
    model_option,
    output_options,
    partial_option,
)
from qwen3_parity.commands._by_golden import judge_folder
from qwen3_parity.commands._candidates import Checkpoint, both, by_golden, candidates_argument, folder_of
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.judge.match import refuse_weights
from qwen3_parity.judge.next_command import with_model
from qwen3_parity.report.next_step import after_diagnosis, after_folder_diagnosis, after_texts
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples("qwen3-parity diagnose build/parity/decoder/plain.pb", "qwen3-parity diagnose my_recordings/")
)
@candidates_argument()
@output_options("Every tap that is wrong, and everything that explains a fault.")
@model_option("of a captured case.")
@checkpoints_option
@budget_option
@click.option("--effort", type=click.FloatRange(0), default=1.0, show_default=True, metavar="TIMES",
              help="How much is searched where no tap is, in times of what is usual.")  # fmt: skip
@partial_option
def diagnose(
    files: tuple[Path, ...],
    output: Output,
    model: str | None,
    checkpoints: Path,
    partial: bool,
    deadline: float,
    effort: float,
) -> None:
    """Name the ops that are wrong on their own inputs, and the mistake that reproduces their numbers.

    Of a tokenizer its stages. The golden is found by the case's name when left out. Nothing but the two files and the
    checkpoint is read. A folder has one diagnosis: each mistake with all the red cases that it is behind; with a GOLDEN
    before it, it has a line for each recording.
    """
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find
    from qwen3_parity.diagnosis.search import ENOUGH
    from qwen3_parity.report import diagnoses as pages

    checkpoint = Checkpoint(model, checkpoints)
    if folder := folder_of(files, checkpoint):
        folders(folder, output, partial=partial, work=effort * ENOUGH, deadline=deadline)
    if by_golden(files):
        by_one(files, checkpoint, output, partial=partial, work=effort * ENOUGH, deadline=deadline)
    golden, candidate = both(files)
    if golden.case.mode == pb.TOKENIZATION:
        tokenizers(golden, candidate, checkpoint, output, partial=partial)
    with output.progress("reading") as update:
        weights = weights_of(golden, checkpoint.root, checkpoint.directory(golden.case))
        diagnosis = find(golden, candidate, weights, update, partial=partial, work=effort * ENOUGH, deadline=deadline)
    diagnosis = replace(diagnosis, verdicts=with_model(diagnosis.verdicts, model))
    output.finish(
        diagnosis.verdicts.exit_code,
        pages.verdict(diagnosis),
        lambda: pages.to_json(diagnosis) | {"next": after_diagnosis(diagnosis, model, golden)},
        lambda: [pages.terminal(diagnosis, every=output.verbose)],
    )


def folders(path: Path, output: Output, *, partial: bool, work: float, deadline: float) -> NoReturn:
    """Print the one diagnosis of a folder and exit with the folder's code."""
    from qwen3_parity.folder.check import check_folder
    from qwen3_parity.folder.diagnose import diagnose_folder
    from qwen3_parity.report import folder_diagnosis as pages

    with output.progress("judging", "cases") as update:
        judged = check_folder(path, partial=partial, count=update.count)
        diagnosis = diagnose_folder(judged, update, partial=partial, work=work, deadline=deadline, count=update.count)
    output.finish(
        diagnosis.folder.exit_code,
        pages.verdict(diagnosis),
        lambda: pages.to_json(diagnosis) | {"next": after_folder_diagnosis(diagnosis)},
        lambda: [pages.terminal(diagnosis, every=output.verbose)],
    )


def by_one(
    files: Sequence[Path], checkpoint: Checkpoint, output: Output, *, partial: bool, work: float, deadline: float
) -> NoReturn:
    """Print a line of diagnosis for each recording of a folder, all by one golden, and exit with the worst code."""
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find

    def answer(golden: Recording, candidate: Recording, weights: Mapping[str, Array] | None) -> Diagnosis:
        refuse_weights(candidate, golden)
        if golden.case.mode == pb.TOKENIZATION:
            raise click.UsageError("recordings of a tokenizer are diagnosed one by one; check judges a folder of them")
        values = weights_of(golden, checkpoint.root, checkpoint.directory(golden.case)) if weights is None else weights
        diagnosis = find(golden, candidate, values, partial=partial, work=work, deadline=deadline)
        return replace(diagnosis, verdicts=with_model(diagnosis.verdicts, checkpoint.model))

    judge_folder(files, checkpoint, output, answer)


def tokenizers(
    golden: Recording, candidate: Recording, checkpoint: Checkpoint, output: Output, *, partial: bool
) -> NoReturn:
    """Print the diagnosis of a tokenizer and exit with the verdict's code."""
    from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of
    from qwen3_parity.report import text_diagnoses as pages
    from qwen3_parity.report.verdicts import summary

    directory = directory_of(golden, checkpoint.directory(golden.case))
    with output.progress("reading") as update:
        diagnosis = diagnose_tokenization(golden, candidate, directory, update, partial=partial)
    diagnosis = replace(diagnosis, verdicts=with_model(diagnosis.verdicts, checkpoint.model))
    output.finish(
        diagnosis.verdicts.exit_code,
        summary(diagnosis.verdicts),
        lambda: pages.to_json(diagnosis) | {"next": after_texts(diagnosis, checkpoint.model)},
        lambda: [pages.terminal(diagnosis)],
    )
