"""The one diagnosis of a folder for people (terminal) and machines (JSON)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.diagnosis.mistake import Mistake, Note
from qwen3_parity.folder.diagnose import FolderDiagnosis
from qwen3_parity.judge.spoken import by_cases, has_encoder
from qwen3_parity.report.folder import absent, closing
from qwen3_parity.report.output import refusal
from qwen3_parity.report.verdicts import contracts

_FEW = 3
_BESIDE = ("cases", "findings", "record_next", "origins")
_NAMED = ("name", "says", "fix", "places", "otherwise", "otherwise_in", *_BESIDE)
"""The fields in JSON of what no named mistake reproduces, and of a mistake."""


def in_words(diagnosis: FolderDiagnosis) -> FolderDiagnosis:
    """The diagnosis with the names of taps as people say them in its cases."""
    merged = {verdicts.case.name for verdicts in diagnosis.folder.results if has_encoder(verdicts.case)}
    return replace(
        diagnosis,
        mistakes=by_cases(diagnosis.mistakes, merged),
        notes=by_cases(diagnosis.notes, merged),
    )


def verdict(diagnosis: FolderDiagnosis) -> str:
    """One line: how many mistakes are behind how many red cases, and their names."""
    names = ", ".join(mistake.name for mistake in diagnosis.mistakes if mistake.name)
    return ": ".join(filter(None, [_behind(diagnosis), names]))


def terminal(diagnosis: FolderDiagnosis, *, every: bool = False) -> RenderableType:
    """Each mistake with its places and cases (`every`: and all that it does), then what no named mistake explains."""
    diagnosis = in_words(diagnosis)
    parts: list[RenderableType] = [
        Text(_behind(diagnosis), style="bold red" if diagnosis.folder.exit_code else "bold green")
    ]
    red = len(diagnosis.folder.red)
    for mistake in diagnosis.mistakes:
        title, style = (mistake.name, "bold red") if mistake.name else (mistake.sentence, "bold yellow")
        parts += [Text(f"\n{title}", style=style), *map(Text, _lines(mistake, red, every=every))]
    parts += [Text(line, style="yellow") for line in _notes("", diagnosis.notes, every=every)]
    parts += [Text(str(error), style="bold red") for error in diagnosis.folder.refused]
    parts += [Text(line) for line in (*absent(diagnosis.folder), *contracts(diagnosis.folder.results))]
    if red:
        file = diagnosis.folder.red[0].candidate
        parts.append(Text(f"every tap of one case: qwen3-parity diagnose {file}"))
    return Group(*parts, Text(closing(diagnosis.folder)))


def _lines(mistake: Mistake, red: int, *, every: bool) -> Iterator[str]:
    """What it does, where, in which line of yours, what the numbers say, and which taps to record next."""
    if mistake.name:
        yield from (f"  it {says}" for says in mistake.says[: None if every else _FEW])
        yield f"  at {', '.join(mistake.places)}"
    yield f"  in {len(mistake.cases)} of {red} red cases: {', '.join(mistake.cases)}"
    yield from (f"  your {origin}" for origin in mistake.origins[: None if every else _FEW])
    if mistake.otherwise:
        yield f"  these numbers could as well be: {', '.join(mistake.otherwise)}"
    yield from (f"  in {', '.join(note.cases)} also: {note.says}" for note in mistake.otherwise_in)
    if mistake.fix:
        yield f"  fix: {mistake.fix}"
    if mistake.findings:
        yield "  what the numbers say:"
    yield from _notes("  ", mistake.findings, every=every)
    yield from _notes("  ", mistake.record_next, every=every)


def _notes(indent: str, notes: Sequence[Note], *, every: bool) -> Iterator[str]:
    """A line for each note with its cases; without `every` the first ones."""
    shown = notes if every else notes[:_FEW]
    yield from (f"{indent}{note.says} (in {', '.join(note.cases)})" for note in shown)
    if len(notes) > len(shown):
        yield f"{indent}… and {len(notes) - len(shown)} more, with -v"


def _behind(diagnosis: FolderDiagnosis) -> str:
    red, count = len(diagnosis.folder.red), sum(bool(mistake.name) for mistake in diagnosis.mistakes)
    named, unexplained = (
        {case for mistake in diagnosis.mistakes if bool(mistake.name) is known for case in mistake.cases}
        for known in (True, False)
    )
    if not red:
        return (
            "no case is red, so there is nothing to explain" if diagnosis.folder.results else closing(diagnosis.folder)
        )
    subject = "no named mistake is" if not count else "one mistake is" if count == 1 else f"{count} mistakes are"
    line = f"{subject} behind {len(named - unexplained)} of {red} red cases"
    more = "there is" if named & unexplained else "it is"
    return line + (f"; in {len(unexplained)} {more} something else" if unexplained else "")


def to_json(diagnosis: FolderDiagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    diagnosis = in_words(diagnosis)
    return {
        "exit_code": diagnosis.folder.exit_code,
        "folder": str(diagnosis.folder.path),
        "verdicts": {verdicts.case.name: verdicts.word for verdicts in diagnosis.folder.results},
        "mistakes": [_fields(mistake, *_NAMED) for mistake in diagnosis.mistakes if mistake.name],
        "apart": [
            {"reason": mistake.sentence} | _fields(mistake, *_BESIDE)
            for mistake in diagnosis.mistakes
            if not mistake.name
        ],
        "notes": [asdict(note) for note in diagnosis.notes],
        "refused": [refusal(error) for error in diagnosis.folder.refused],
        "missing": list(diagnosis.folder.missing),
    }


def _fields(mistake: Mistake, *names: str) -> dict[str, Any]:
    every = asdict(mistake)
    return {name: every[name] for name in names}
