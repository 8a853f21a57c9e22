"""The report: what a run, or a folder of them, came to, for people to look at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwen3_golden import ParityError, Recording, pb, read
from qwen3_golden.contract import released_cases
from qwen3_golden.whole import write_whole
from qwen3_parity.commands import FILE, budget_option, checkpoints_option, examples, model_option, partial_option
from qwen3_parity.commands._candidates import Checkpoint, both, candidates_argument, folder_of
from qwen3_parity.commands._cards import write_card
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.golden_path import golden_of
from qwen3_parity.judge.next_command import with_model
from qwen3_parity.report.progress import progress
from qwen3_parity.report.terminal import console

if TYPE_CHECKING:
    from qwen3_parity.judge.verdict import Verdicts
    from qwen3_parity.report.page.contents import Report

_PAGE = Path("build/report.html")
_ENDINGS = {"html": ".html", "markdown": ".md", "junit": ".xml"}


@dataclass(frozen=True)
class _Options:
    """Where checkpoints are, and until when a mistake is looked for, in seconds of the monotonic clock."""

    checkpoint: Checkpoint
    partial: bool
    deadline: float


@click.command(
    epilog=examples(
        "qwen3-parity report build/parity/decoder/plain.pb",
        "qwen3-parity report my_recordings/ --format card --label 'my_port 1.2' --date 2026-01-31",
    )
)
@candidates_argument()
@click.option("--out", type=FILE, help=f"Where it goes  [default: {_PAGE}; FOLDER/card; the rest to the terminal]")
@click.option(
    "--format",
    "kinds",
    multiple=True,
    type=click.Choice([*_ENDINGS, "card"]),
    default=["html"],
    show_default=True,
    help="Repeatable: of one judgement OUT.html, OUT.md and OUT.xml.",
)
@click.option("--against", type=FILE, help="Another candidate's recording, or folder, of the same cases, beside this.")
@click.option("--history", type=FILE, help="A file of JSON lines: this run's figures are added, the page shows all.")
@click.option("--label", help="What the history or the card calls this: a name and version, a commit.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="The card's date, which no clock is asked for.")
@model_option("of a captured case.")
@checkpoints_option
@budget_option
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(list(LEVELS)),
    help="Of a folder: its cases alone, and each must be there; repeatable.",
)
@partial_option
def report(
    files: tuple[Path, ...],
    out: Path | None,
    kinds: tuple[str, ...],
    against: Path | None,
    history: Path | None,
    label: str | None,
    date: datetime | None,
    model: str | None,
    checkpoints: Path,
    deadline: float,
    levels: tuple[str, ...],
    partial: bool,
) -> None:
    """Write what a run, or a folder of them, came to: a page for a browser, Markdown, or a card.

    The page needs nothing else: the verdict, the mistakes with their fixes, the map of the network, every tap, both
    sides' provenance. Markdown is short, for a pull request's comment; JUnit's XML has a test for each case. The exit
    code is check's. A card says which levels the recordings of a folder reach, as OUT.md and OUT.json, which check
    --card computes again; its exit code is 1 where no level is reached.
    """
    checkpoint = Checkpoint(model, checkpoints)
    folder = folder_of(files, checkpoint)
    if "card" in kinds:
        if len(kinds) > 1 or folder is None or against or history or partial or levels:
            raise click.UsageError("a card is of a folder, and takes --label, --date and --out alone")
        write_card(folder, label, date, out)
    if date is not None:
        raise click.UsageError("--date is for --format card")
    if (history is None) != (label is None):
        raise click.UsageError("--history and --label go together")
    if levels and folder is None:
        raise click.UsageError("--level is for a folder of candidates")
    files_by_kind = _outs(kinds, out)
    options = _Options(checkpoint, partial, deadline)
    document, code = _of_one(files, options) if folder is None else _of_folder(folder, levels, options)
    if against is not None:
        document = replace(document, against=_others(against, document.results, options))
    if history is not None and label is not None:
        from qwen3_parity.report.page.history import appended

        document = replace(document, history=appended(history, label, document.results))
    for kind, file in files_by_kind.items():
        _write(kind, file, document)
    sys.exit(code)


def _outs(kinds: Sequence[str], out: Path | None) -> dict[str, Path | None]:
    """Where each format goes: a single one to `out` itself; raises a usage error for several without it."""
    several = dict.fromkeys(kinds)
    if len(several) == 1:
        return dict.fromkeys(kinds, out)
    if out is None:
        raise click.UsageError("several formats go into files: --out says how they begin")
    return {kind: out.with_name(out.name + _ENDINGS[kind]) for kind in several}


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


def _of_one(files: tuple[Path, ...], options: _Options) -> tuple[Report, int]:
    """A recording's report and its exit code."""
    from qwen3_parity.report.page.contents import Report
    from qwen3_parity.report.page.mistakes import mistakes_of, mistakes_of_texts

    golden, candidate = both(files)
    model = options.checkpoint.directory(golden.case)
    if golden.case.mode == pb.TOKENIZATION:
        from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of

        directory = directory_of(golden, model)
        with progress("reading") as update:
            texts = diagnose_tokenization(golden, candidate, directory, update, partial=options.partial)
        verdicts = with_model(texts.verdicts, options.checkpoint.model)
        return Report([verdicts], mistakes_of_texts(texts)), verdicts.exit_code
    from qwen3_parity.check import check
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.diagnosis import diagnose

    weights = weights_at_hand(golden, options.checkpoint.root, model)
    if weights is None and golden.case.checkpoint:  # the run alone can be judged
        verdicts = check(golden, candidate, partial=options.partial)
        return Report([verdicts]), verdicts.exit_code
    weights = weights or {}
    with progress("reading") as update:
        diagnosis = diagnose(golden, candidate, weights, update, partial=options.partial, deadline=options.deadline)
    verdicts = with_model(diagnosis.verdicts, options.checkpoint.model)
    return Report([verdicts], mistakes_of(diagnosis), weights=weights), verdicts.exit_code


def _others(path: Path, results: Sequence[Verdicts], options: _Options) -> list[Verdicts]:
    """The verdicts on another candidate's recordings of the same cases; one that has none of them is refused."""
    from qwen3_parity.check import check
    from qwen3_parity.checkpoints.weights import weights_at_hand
    from qwen3_parity.folder.check import check_folder

    if path.is_dir():
        judged = [*check_folder(path, partial=options.partial).results]
    else:
        golden = _golden_of(results, candidate := read(path, digests=True))
        model = options.checkpoint.directory(golden.case)
        judged = [check(golden, candidate, weights_at_hand(golden, options.checkpoint.root, model))]
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
