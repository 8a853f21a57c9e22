"""The one diagnosis of a folder for people (terminal) and machines (JSON)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.folder.diagnose import Apart, FolderDiagnosis, Mistake, Note
from qwen3_parity.report.folder import absent, closing
from qwen3_parity.report.output import refusal
from qwen3_parity.report.verdicts import contracts

_FEW = 3


def verdict(found: FolderDiagnosis) -> str:
    """One line: how many mistakes are behind how many red cases, and their names."""
    return ": ".join([_behind(found), *[", ".join(one.name for one in found.mistakes)] * bool(found.mistakes)])


def terminal(found: FolderDiagnosis, *, every: bool = False) -> RenderableType:
    """Each mistake with its places and cases (`every`: and all that it does), then what no named mistake explains."""
    parts: list[RenderableType] = [Text(_behind(found), style="bold red" if found.folder.exit_code else "bold green")]
    red = len(found.folder.red)
    for one in found.mistakes:
        lines = [f"  it {says}" for says in one.says[: None if every else _FEW]]
        lines += [f"  at {', '.join(one.places)}", f"  in {_some(one.cases, red)}"]
        lines += [f"  these numbers could as well be: {', '.join(one.otherwise)}"] if one.otherwise else []
        lines += [f"  in {', '.join(note.cases)} also: {note.says}" for note in one.otherwise_in]
        parts += [Text(f"\n{one.name}", style="bold red"), *map(Text, lines), Text(f"  fix: {one.fix}")]
        parts += map(Text, _more(one, every=every))
    for apart in found.apart:
        parts += [Text(f"\n{apart.reason}", style="bold yellow"), Text(f"  in {_some(apart.cases, red)}")]
        parts += map(Text, _more(apart, every=every))
    parts += [Text(line, style="yellow") for line in _notes("", found.notes, every=every)]
    parts += [Text(str(error), style="bold red") for error in found.folder.refused]
    parts += [Text(line) for line in (*absent(found.folder), *contracts(found.folder.results))]
    if red:
        file = next(one for one in found.folder.red).candidate
        parts.append(Text(f"every tap of one case: qwen3-parity diagnose {file}"))
    return Group(*parts, Text(closing(found.folder)))


def _more(one: Mistake | Apart, *, every: bool) -> Iterator[str]:
    """What the numbers say by themselves, and which taps to record next."""
    if one.findings:
        yield "  what the numbers say:"
    yield from _notes("  ", one.findings, every=every)
    yield from _notes("  ", one.record_next, every=every)


def _notes(indent: str, notes: Sequence[Note], *, every: bool) -> Iterator[str]:
    """A line for each note with its cases; without `every` the first ones."""
    shown = notes if every else notes[:_FEW]
    yield from (f"{indent}{note.says} (in {', '.join(note.cases)})" for note in shown)
    if len(notes) > len(shown):
        yield f"{indent}… and {len(notes) - len(shown)} more, with -v"


def _behind(found: FolderDiagnosis) -> str:
    red, named = len(found.folder.red), {case for one in found.mistakes for case in one.cases}
    apart = {case for one in found.apart for case in one.cases}
    if not red:
        return "no case is red, so there is nothing to explain" if found.folder.results else closing(found.folder)
    count = len(found.mistakes)
    what = "no named mistake is" if not count else "one mistake is" if count == 1 else f"{count} mistakes are"
    line = f"{what} behind {len(named - apart)} of {red} red cases"
    more = "there is" if named & apart else "it is"
    return line + (f"; in {len(apart)} {more} something else" if apart else "")


def _some(cases: Sequence[str], red: int) -> str:
    return f"{len(cases)} of {red} red cases: {', '.join(cases)}"


def to_json(found: FolderDiagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    return {
        "exit_code": found.folder.exit_code,
        "folder": str(found.folder.path),
        "verdicts": {one.case.name: one.word for one in found.folder.results},
        "mistakes": [asdict(one) for one in found.mistakes],
        "apart": [asdict(one) for one in found.apart],
        "notes": [asdict(one) for one in found.notes],
        "refused": [refusal(error) for error in found.folder.refused],
        "missing": list(found.folder.missing),
    }
