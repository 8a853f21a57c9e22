"""The report: what a run, or a folder of them, came to, for people to look at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_golden.contract import released_cases
from qwen3_golden.whole import write_whole
from qwen3_parity.commands import budget_option, examples
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.golden_path import golden_of, golden_path
from qwen3_parity.report.progress import progress
from qwen3_parity.report.terminal import console

if TYPE_CHECKING:
    from qwen3_parity.judge.verdict import Verdicts
    from qwen3_parity.report.page.contents import Report

FILE = click.Path(path_type=Path)
_PAGE = Path("build/report.html")
_ENDINGS = {"html": ".html", "markdown": ".md", "junit": ".xml"}


@dataclass(frozen=True)
class _Options:
    """Where checkpoints are, and until when a mistake is looked for, in seconds of the monotonic clock."""

    model: Path | None
    checkpoints: Path
    partial: bool
    deadline: float


@click.command(
    epilog=examples("qwen3-parity report build/parity/decoder/plain.pb", "qwen3-parity report my_recordings/")
)
@click.argument("files", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE | FOLDER")
@click.option("--out", type=FILE, help=f"Where it goes; a page without it to {_PAGE}, the rest to the terminal.")
@click.option(
    "--format",
    "kinds",
    multiple=True,
    type=click.Choice(list(_ENDINGS)),
    default=["html"],
    show_default=True,
    help="Repeatable: of one judgement OUT.html, OUT.md and OUT.xml.",
)
@click.option("--against", type=FILE, help="Another candidate's recording, or folder, of the same cases, beside this.")
@click.option("--history", type=FILE, help="A file of JSON lines: this run's figures are added, the page shows all.")
@click.option("--label", help="What the history calls this run: a version, a commit.")
@click.option("--model", type=FILE, help="The checkpoint or tokenizer directory of a captured case.")
@click.option("--checkpoints", type=FILE, default=GOLDEN_ROOT / "checkpoints", help="Where the case's checkpoints are.")
@budget_option
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(list(LEVELS)),
    help="Of a folder: its cases alone, and each must be there; repeatable.",
)
@click.option("--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there.")
def report(
    files: tuple[str, ...],
    out: Path | None,
    kinds: tuple[str, ...],
    against: Path | None,
    history: Path | None,
    label: str | None,
    model: Path | None,
    checkpoints: Path,
    deadline: float,
    levels: tuple[str, ...],
    partial: bool,
) -> None:
    """Write what a run, or a folder of them, came to: one page for a browser that needs nothing else.

    The verdict, the mistakes with their fixes, the map of the network, every tap, both sides' provenance. As Markdown
    it is short, for a pull request's comment; as JUnit's XML it has a test for each case. The exit code is check's.
    """
    kinds = tuple(dict.fromkeys(kinds))
    if len(kinds) > 1 and out is None:
        raise click.UsageError("several formats go into files: --out says how they begin")
    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate, or a folder")
    if (history is None) != (label is None):
        raise click.UsageError("--history and --label go together")
    options = _Options(model, checkpoints, partial, deadline)
    folder = len(files) == 1 and Path(files[0]).is_dir()
    if folder and (model or checkpoints != GOLDEN_ROOT / "checkpoints"):
        raise click.UsageError("--model and --checkpoints are for one candidate, and this is a folder")
    if levels and not folder:
        raise click.UsageError("--level is for a folder of candidates")
    document, code = _of_folder(Path(files[0]), levels, options) if folder else _of_one(files, options)
    if against is not None:
        document = replace(document, against=_others(against, document.results, options))
    if history is not None and label is not None:
        from qwen3_parity.report.page.history import appended

        document = replace(document, history=appended(history, label, document.results))
    for kind in kinds:
        _write(kind, out if len(kinds) == 1 or out is None else out.with_name(out.name + _ENDINGS[kind]), document)
    sys.exit(code)


def _of_folder(path: Path, levels: Sequence[str], options: _Options) -> tuple[Report, int]:
    """A folder's report and its exit code."""
    from qwen3_parity.folder.check import check_folder
    from qwen3_parity.folder.diagnose import diagnose_folder
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.mistakes import mistakes_of_folder

    with progress("judging") as update:
        folder = check_folder(path, cases_of(levels, released_cases()), partial=options.partial)
        diagnosis = diagnose_folder(folder, update, partial=options.partial, deadline=options.deadline)
    mistakes = mistakes_of_folder(diagnosis)
    return Report(folder.results, mistakes, folder.refused, folder.missing, folder.required), folder.exit_code


def _of_one(files: tuple[str, ...], options: _Options) -> tuple[Report, int]:
    """A recording's report and its exit code."""
    from qwen3_parity.judge.match import refuse_weights
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.mistakes import mistakes_of, mistakes_of_texts

    candidate = read(Path(files[-1]), digests=True)
    golden = read(golden_path(str(files[0])) if len(files) == 2 else golden_of(candidate), digests=True)
    refuse_weights(candidate, golden)
    if golden.case.mode == pb.TOKENIZATION:
        from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of

        directory = directory_of(golden, options.model)
        with progress("reading") as update:
            texts = diagnose_tokenization(golden, candidate, directory, update, partial=options.partial)
        return Report([texts.verdicts], mistakes_of_texts(texts)), texts.verdicts.exit_code
    from qwen3_parity.check import check
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.diagnosis import diagnose

    weights = weights_at_hand(golden, options.checkpoints, options.model)
    if weights is None and golden.case.checkpoint:  # the run alone can be judged
        verdicts = check(golden, candidate, partial=options.partial)
        return Report([verdicts]), verdicts.exit_code
    weights = weights or {}
    with progress("reading") as update:
        diagnosis = diagnose(golden, candidate, weights, update, partial=options.partial, deadline=options.deadline)
    return Report([diagnosis.verdicts], mistakes_of(diagnosis), weights=weights), diagnosis.verdicts.exit_code


def _others(path: Path, results: Sequence[Verdicts], options: _Options) -> list[Verdicts]:
    """The verdicts on another candidate's recordings of the same cases; one that has none of them is refused."""
    from qwen3_parity.check import check
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.folder.check import check_folder

    if path.is_dir():
        judged = [*check_folder(path, partial=options.partial).results]
    else:
        golden = _golden_of(results, candidate := read(path, digests=True))
        judged = [check(golden, candidate, weights_at_hand(golden, options.checkpoints, options.model))]
    cases = {verdicts.case.name for verdicts in results}
    common = [verdicts for verdicts in judged if verdicts.case.name in cases]
    if not common:
        raise ParityError(
            path,
            "it has none of the cases of the report",
            expected=", ".join(sorted(cases)),
            got=", ".join(verdicts.case.name for verdicts in judged) or "none",
            next_step="give another candidate's recordings of the same cases",
        )
    return common


def _golden_of(results: Sequence[Verdicts], candidate: Recording) -> Recording:
    same = next((verdicts for verdicts in results if verdicts.case.name == candidate.case.name), None)
    return read(golden_of(candidate) if same is None else Path(same.golden), digests=True)


def _write(kind: str, out: Path | None, document: Report) -> None:
    if kind == "html":
        from qwen3_parity.report.page.contents import sentence
        from qwen3_parity.report.page.html import html

        page = out or _PAGE
        write_whole(page, html(document))
        names = [mistake.name for mistake in document.mistakes if mistake.name]
        lines = [sentence(document), *([f"by name: {', '.join(names)}"] if names else []), f"report: {page}"]
        console().print("\n".join(lines), soft_wrap=True)
        return
    from qwen3_parity.report.markdown import junit, markdown

    text = markdown(document) if kind == "markdown" else junit(document)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text)
