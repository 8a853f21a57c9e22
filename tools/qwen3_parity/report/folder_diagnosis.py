"""The one diagnosis of a folder for people (terminal) and machines (JSON)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.folder.diagnose import Apart, FolderDiagnosis, Mistake, Note
from qwen3_parity.judge.spoken import by_cases, has_encoder
from qwen3_parity.report.folder import absent, closing
from qwen3_parity.report.output import refusal
from qwen3_parity.report.verdicts import contracts

_FEW = 3


def in_words(diagnosis: FolderDiagnosis) -> FolderDiagnosis:
    """The diagnosis with the names of taps as people say them in its cases."""
    merged = {verdicts.case.name for verdicts in diagnosis.folder.results if has_encoder(verdicts.case)}
    return replace(
        diagnosis,
        mistakes=by_cases(diagnosis.mistakes, merged),
        apart=by_cases(diagnosis.apart, merged),
        notes=by_cases(diagnosis.notes, merged),
    )


def verdict(diagnosis: FolderDiagnosis) -> str:
    """One line: how many mistakes are behind how many red cases, and their names."""
    names = ", ".join(mistake.name for mistake in diagnosis.mistakes)
    return ": ".join([_behind(diagnosis), *[names] * bool(diagnosis.mistakes)])


def terminal(diagnosis: FolderDiagnosis, *, every: bool = False) -> RenderableType:
    """Each mistake with its places and cases (`every`: and all that it does), then what no named mistake explains."""
    diagnosis = in_words(diagnosis)
    parts: list[RenderableType] = [
        Text(_behind(diagnosis), style="bold red" if diagnosis.folder.exit_code else "bold green")
    ]
    red = len(diagnosis.folder.red)
    for mistake in diagnosis.mistakes:
        lines = [f"  it {says}" for says in mistake.says[: None if every else _FEW]]
        lines += [f"  at {', '.join(mistake.places)}", f"  in {_of_red(mistake.cases, red)}"]
        lines += [f"  these numbers could as well be: {', '.join(mistake.otherwise)}"] if mistake.otherwise else []
        lines += [f"  in {', '.join(note.cases)} also: {note.says}" for note in mistake.otherwise_in]
        parts += [Text(f"\n{mistake.name}", style="bold red"), *map(Text, lines), Text(f"  fix: {mistake.fix}")]
        parts += map(Text, _more(mistake, every=every))
    for group in diagnosis.apart:
        parts += [Text(f"\n{group.reason}", style="bold yellow"), Text(f"  in {_of_red(group.cases, red)}")]
        parts += map(Text, _more(group, every=every))
    parts += [Text(line, style="yellow") for line in _notes("", diagnosis.notes, every=every)]
    parts += [Text(str(error), style="bold red") for error in diagnosis.folder.refused]
    parts += [Text(line) for line in (*absent(diagnosis.folder), *contracts(diagnosis.folder.results))]
    if red:
        file = diagnosis.folder.red[0].candidate
        parts.append(Text(f"every tap of one case: qwen3-parity diagnose {file}"))
    return Group(*parts, Text(closing(diagnosis.folder)))


def _more(entry: Mistake | Apart, *, every: bool) -> Iterator[str]:
    """What the numbers say by themselves, and which taps to record next."""
    if entry.findings:
        yield "  what the numbers say:"
    yield from _notes("  ", entry.findings, every=every)
    yield from _notes("  ", entry.record_next, every=every)


def _notes(indent: str, notes: Sequence[Note], *, every: bool) -> Iterator[str]:
    """A line for each note with its cases; without `every` the first ones."""
    shown = notes if every else notes[:_FEW]
    yield from (f"{indent}{note.says} (in {', '.join(note.cases)})" for note in shown)
    if len(notes) > len(shown):
        yield f"{indent}… and {len(notes) - len(shown)} more, with -v"


def _behind(diagnosis: FolderDiagnosis) -> str:
    red, named = len(diagnosis.folder.red), {case for mistake in diagnosis.mistakes for case in mistake.cases}
    unexplained = {case for group in diagnosis.apart for case in group.cases}
    if not red:
        return (
            "no case is red, so there is nothing to explain" if diagnosis.folder.results else closing(diagnosis.folder)
        )
    count = len(diagnosis.mistakes)
    subject = "no named mistake is" if not count else "one mistake is" if count == 1 else f"{count} mistakes are"
    line = f"{subject} behind {len(named - unexplained)} of {red} red cases"
    more = "there is" if named & unexplained else "it is"
    return line + (f"; in {len(unexplained)} {more} something else" if unexplained else "")


def _of_red(cases: Sequence[str], red: int) -> str:
    return f"{len(cases)} of {red} red cases: {', '.join(cases)}"


def to_json(diagnosis: FolderDiagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    diagnosis = in_words(diagnosis)
    return {
        "exit_code": diagnosis.folder.exit_code,
        "folder": str(diagnosis.folder.path),
        "verdicts": {verdicts.case.name: verdicts.word for verdicts in diagnosis.folder.results},
        "mistakes": [asdict(mistake) for mistake in diagnosis.mistakes],
        "apart": [asdict(group) for group in diagnosis.apart],
        "notes": [asdict(note) for note in diagnosis.notes],
        "refused": [refusal(error) for error in diagnosis.folder.refused],
        "missing": list(diagnosis.folder.missing),
    }
