"""A report for a pull request: Markdown, short, and nothing in it that a recording wrote as Markdown; and as JUnit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from qwen3_golden.errors import printable
from qwen3_parity.diagnosis.mistake import Mistake
from qwen3_parity.folder.check import Folder
from qwen3_parity.folder.levels import reached
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.report import folder as folders
from qwen3_parity.report.page.contents import Report, sentence
from qwen3_parity.report.verdicts import in_the_run, own_error, worst
from qwen3_parity.text.show import is_tokenization

_MISTAKES, _ROWS, _EVIDENCE, _CASES = 6, 12, 4, 8


def markdown(report: Report) -> str:
    """The verdict, the mistakes with their fixes, and a table of the red cases, or of the red taps of one."""
    return "\n".join(_lines(report)) + "\n"


def junit(report: Report) -> str:
    """JUnit's XML, a test for each case."""
    return folders.junit(_folder(report))


def _folder(report: Report) -> Folder:
    return Folder(Path(), report.results, report.refused, report.missing, required=report.required)


def _lines(report: Report) -> Iterator[str]:
    results = report.results
    yield f"### {escaped(sentence(report))}"
    compared, of = sum(verdicts.compared for verdicts in results), sum(verdicts.of for verdicts in results)
    yield f"\n{compared} of {of} {_unit(results)} compared."
    for mistake in report.mistakes[:_MISTAKES]:
        yield from _mistake(mistake, sum(bool(verdicts.exit_code) for verdicts in results))
    if len(report.mistakes) > _MISTAKES:
        yield f"\n… and {len(report.mistakes) - _MISTAKES} more."
    for error in report.refused:
        yield f"\n- refused: {escaped(error.where)}: {escaped(error.rule)}"
    if report.required:
        yield from (f"\n{escaped(line)}" for line in folders.absent(_folder(report)))
    if levels := [level.level for level in reached(_folder(report)) if level.reached]:
        yield f"\nLevels reached: {', '.join(levels)}."
    red = [verdicts for verdicts in results if verdicts.exit_code]
    if len(results) == 1 and red:
        yield from _taps(spoken(red[0], red[0].case))
    elif red:
        yield from _cases(red)
    for verdicts in report.against:
        yield f"\nBeside it, {escaped(verdicts.candidate)}: {verdicts.word}, {_share(verdicts)}."


def _mistake(mistake: Mistake, red: int) -> Iterator[str]:
    title = mistake.name or (mistake.places[0] if mistake.places else "Something else")
    yield f"\n**{escaped(title)}** – {escaped(mistake.sentence)}"
    if mistake.fix:
        yield f"- fix: {escaped(mistake.fix)}"
    if mistake.name and mistake.places:
        yield f"- at {escaped(', '.join(mistake.places))}"
    yield from (f"- in your code: {escaped(line)}" for line in mistake.origins)
    yield from (f"- {escaped(line)}" for line in mistake.evidence[:_EVIDENCE])
    if mistake.cases:
        more = f" and {len(mistake.cases) - _CASES} more" if len(mistake.cases) > _CASES else ""
        yield f"- in {len(mistake.cases)} of {red} red cases: {escaped(', '.join(mistake.cases[:_CASES]))}{more}"


def _taps(verdicts: Verdicts) -> Iterator[str]:
    """Each at the step where it is furthest off; those that are wrong alone first: the others only follow."""
    worst_first = sorted((tap for tap in verdicts.taps if not tap.passed), key=lambda tap: -tap.share)
    steps = {tap.name: tap for tap in reversed(worst_first)}
    names = dict.fromkeys(tap.name for tap in verdicts.taps if tap.name in steps)
    red = sorted((steps[name] for name in names), key=lambda tap: tap.alone is None or tap.alone.passed)
    yield from (f"\n- {escaped(problem.where)}: {escaped(problem.rule)}" for problem in verdicts.structural[:_ROWS])
    if not red:
        return
    yield "\n| tap | step | op | run, of its budget | alone, in rounding units |"
    yield "|---|---|---|---|---|"
    yield from map(_row, red[:_ROWS])
    if len(red) > _ROWS:
        yield f"\n… and {len(red) - _ROWS} more red taps."


def _row(tap: Verdict) -> str:
    alone = "–" if tap.alone is None else own_error(tap.alone)
    return f"| {escaped(tap.name)} | {tap.step} | {escaped(tap.op)} | {in_the_run(tap)} | {escaped(alone)} |"


def _cases(red: Sequence[Verdicts]) -> Iterator[str]:
    yield "\n| case | verdict | judged | worst share of a budget |"
    yield "|---|---|---|---|"
    for verdicts in red[:_ROWS]:
        yield f"| {escaped(verdicts.case.name)} | {verdicts.word} | {verdicts.judged} | {_share(verdicts)} |"
    if len(red) > _ROWS:
        yield f"\n… and {len(red) - _ROWS} more red cases."


def _share(verdicts: Verdicts) -> str:
    share, where = worst(verdicts)
    return escaped(", ".join(part for part in (share, where) if part)) or "–"


def _unit(results: Sequence[Verdicts]) -> str:
    return "stages of texts" if results and all(map(is_tokenization, results)) else "taps"


def escaped(text: str) -> str:
    """Somebody's words in one cell: nothing in them is Markdown, and nothing ends the line."""
    return "".join(
        f"\\{character}" if character in "\\`*_{}[]<>#|!@~" else character
        for character in printable(text).replace("\n", " ")
    )
