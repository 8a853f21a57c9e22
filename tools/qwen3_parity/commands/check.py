"""Judge a recording, or a folder of them: check."""

from __future__ import annotations

from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_golden.contract import released_cases
from qwen3_golden.whole import write_whole
from qwen3_parity.check import check as judge
from qwen3_parity.commands import examples, output_options
from qwen3_parity.folder.check import Folder, check_folder
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.golden_path import golden_of, golden_path
from qwen3_parity.report import folder as folders
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.next_step import after_check, after_folder
from qwen3_parity.report.output import Output

FILE = click.Path(path_type=Path)


@click.command(
    epilog=examples(
        "qwen3-parity check build/parity/decoder/plain.pb",
        "qwen3-parity check my_recordings/ --level causal --junit verdicts.xml",
    )
)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="[GOLDEN] CANDIDATE | FOLDER")
@output_options("Every tap, not only the worst; of a folder, every red case.")
@click.option("--junit", type=FILE, help="Also write JUnit's XML, a test for each case.")
@click.option("--all", "every", is_flag=True, hidden=True, help="As -v.")
@click.option("--model", type=FILE, help="The checkpoint of a captured case: its ops are judged alone, too.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(list(LEVELS)),
    help="Of a folder: its cases alone, and each must be there; repeatable.",
)
@click.option("--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there.")
def check(
    files: tuple[Path, ...],
    output: Output,
    junit: Path | None,
    every: bool,
    model: Path | None,
    levels: tuple[str, ...],
    partial: bool,
) -> None:
    """Judge a recording against a golden (a file, or a case's name; else that of its case), or any two.

    A folder is judged in one go: every *.pb in it, at any depth, by the golden of the case that it says it ran. Where
    the checkpoint is at hand, every op of the candidate is also judged alone, on the candidate's own inputs; without it
    the verdict is of the run only. Of a lossy (quantised, say) candidate it also says how its predictions differ:
    divergence, ranks, the first flip.
    """
    from qwen3_parity.checkpoints.weights import weights_at_hand

    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate, or a folder")
    if len(files) == 1 and files[0].is_dir():
        if every or model:
            raise click.UsageError("--all and --model are for one candidate, and this is a folder")
        cases = cases_of(levels, released_cases())
        with output.progress("judging", "cases") as update:
            folder = check_folder(files[0], cases, partial=partial, count=update.count)
            update("writing")
            if junit:
                write_whole(junit, folders.junit(folder))
        output.finish(
            folder.exit_code,
            folders.closing(folder),
            lambda: folders.to_json(folder) | {"next": after_folder(folder, levels)},
            lambda: [folders.terminal(folder, every=output.verbose)],
        )
    if levels:
        raise click.UsageError("--level is for a folder of candidates")
    candidate = read(files[-1], digests=True)
    golden = read(golden_path(str(files[0])) if len(files) == 2 else golden_of(candidate), digests=True)
    verdicts = judge(golden, candidate, weights_at_hand(golden, GOLDEN_ROOT / "checkpoints", model), partial=partial)
    if junit:
        write_whole(junit, folders.junit(Folder(files[-1], [verdicts])))
    output.finish(
        verdicts.exit_code,
        report.summary(verdicts),
        lambda: verdicts.to_json() | {"next": after_check(verdicts, model)},
        lambda: [report.terminal(verdicts, every=every or output.verbose)],
    )
