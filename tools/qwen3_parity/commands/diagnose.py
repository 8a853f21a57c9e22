"""The commands that find mistakes: diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.commands import budget_option, examples, output_options
from qwen3_parity.judge.golden_path import golden_of, golden_path
from qwen3_parity.judge.match import refuse_weights
from qwen3_parity.report.next_step import after_diagnosis, after_folder_diagnosis, after_texts
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command(
    epilog=examples("qwen3-parity diagnose build/parity/decoder/plain.pb", "qwen3-parity diagnose my_recordings/")
)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="[GOLDEN] CANDIDATE | FOLDER")
@output_options("Every tap that is wrong, and everything that explains a fault.")
@click.option("--model", type=FILE, help="The checkpoint or tokenizer directory of a captured case.")
@click.option("--checkpoints", type=FILE, default=GOLDEN_ROOT / "checkpoints", help="Where the case's checkpoints are.")
@budget_option
@click.option("--effort", type=click.FloatRange(0), default=1.0, show_default=True, metavar="TIMES",
              help="How much is searched where no tap is, in times of what is usual.")  # fmt: skip
@click.option("--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there.")
def diagnose(
    files: tuple[Path, ...],
    output: Output,
    model: Path | None,
    checkpoints: Path,
    partial: bool,
    deadline: float,
    effort: float,
) -> None:
    """Name the ops (a tokenizer's stages) that are wrong on their own inputs, and the mistake that reproduces them.

    The golden is found by the case's name when left out. Nothing but the two files and the checkpoint is read. A folder
    has one diagnosis: each mistake with all the red cases that it is behind.
    """
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose as find
    from qwen3_parity.diagnosis.search import ENOUGH
    from qwen3_parity.report import diagnoses as pages

    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate, or a folder")
    if len(files) == 1 and files[0].is_dir():
        if model or checkpoints != GOLDEN_ROOT / "checkpoints":
            raise click.UsageError("--model and --checkpoints are for one candidate, and this is a folder")
        folders(files[0], output, partial=partial, work=effort * ENOUGH, deadline=deadline)
    candidate = read(files[-1], digests=True)
    golden = read(golden_path(str(files[0])) if len(files) == 2 else golden_of(candidate), digests=True)
    refuse_weights(candidate, golden)
    if golden.case.mode == pb.TOKENIZATION:
        tokenizers(golden, candidate, model, output, partial=partial)
    with output.progress("reading") as update:
        weights = weights_of(golden, checkpoints, model)
        diagnosis = find(golden, candidate, weights, update, partial=partial, work=effort * ENOUGH, deadline=deadline)
    output.finish(
        diagnosis.verdicts.exit_code,
        pages.verdict(diagnosis),
        lambda: pages.to_json(diagnosis) | {"next": after_diagnosis(diagnosis, model)},
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


def tokenizers(
    golden: Recording, candidate: Recording, model: Path | None, output: Output, *, partial: bool
) -> NoReturn:
    """Print the diagnosis of a tokenizer and exit with the verdict's code."""
    from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of
    from qwen3_parity.report import text_diagnoses as pages
    from qwen3_parity.report.verdicts import summary

    with output.progress("reading") as update:
        diagnosis = diagnose_tokenization(golden, candidate, directory_of(golden, model), update, partial=partial)
    output.finish(
        diagnosis.verdicts.exit_code,
        summary(diagnosis.verdicts),
        lambda: pages.to_json(diagnosis) | {"next": after_texts(diagnosis, model)},
        lambda: [pages.terminal(diagnosis)],
    )
