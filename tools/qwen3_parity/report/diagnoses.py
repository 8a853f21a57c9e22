"""A diagnosis for people (terminal) and machines (JSON)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_golden import pb
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.precision import in_few_bits, lossy_alone, others_first
from qwen3_parity.diagnosis.precision import summary as summary_of_bits
from qwen3_parity.diagnosis.right_alone import RIGHT_IN
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.judge.verdict import FURTHER, Problem
from qwen3_parity.report import explanations
from qwen3_parity.report.remarks import RESULTS_ALONE, remarks
from qwen3_parity.report.verdicts import in_the_run, of_budget, own_error, summary

UNKNOWN = "no known mistake reproduces it"
TO_DECIDE = "read what it costs, KL and ranks, and decide (exit code 1, as of all that is no parity)"
"""What a person does with a lossy engine of which nothing else is wrong."""
NAMED = "its numbers name the mistake"
TO_DECLARE = 'if that is meant, declare it, recording.arithmetic = "other": then KL and ranks are said'
FEW_BITS = "its numbers are in few bits"
_CALLED = re.compile(r", called at [^,;:]+:\d+(, \d+)*( and \d+)?")
_TAPS = 16
_PROBLEMS = 3
_FLIPS = 5
_EACH = 4
_PLACES = 12
_CUT = "--budget cut the search; with more seconds, or on a faster machine, the answer may be another one"


def verdict(diagnosis: Diagnosis) -> str:
    """One line: the verdict, and each place that is wrong with the mistake that it is most likely to be."""
    diagnosis = spoken(diagnosis, diagnosis.verdicts.case)
    places = [
        f"{name(fault)}{f' and {len(others)} more' if others else ''}: {in_a_word(fault)}"
        for fault, *others in _by_mistake(diagnosis.faults, together=True)
    ]
    places += [f"{_pattern(misplaced.place)}: {misplaced.short}" for misplaced in diagnosis.misplaced]
    places += [f"parameter {parameter.name} {parameter.says}" for parameter in diagnosis.parameters]
    return "; ".join([summary(diagnosis.verdicts), *(places or [closing(diagnosis)])])


def in_a_word(fault: Explained) -> str:
    """The mistake's name, else what tells most, and the reference's own line."""
    if fault.is_known:
        return fault.explanations[0].name
    says = [*(finding.name for finding in fault.numbers), *(explanation.name for explanation in fault.explanations)][:1]
    source = [f"not as {line}" for line in fault.source[:1]]
    unknown = (says or not source) and not fault.misread
    return ", ".join([*["no known mistake"] * bool(unknown), *says, *source])


def terminal(diagnosis: Diagnosis, *, every: bool = False) -> RenderableType:
    """What is wrong, what the mistake is, how sure that is, and what to change; `every`: nothing left out."""
    diagnosis = spoken(diagnosis, diagnosis.verdicts.case)
    verdicts = diagnosis.verdicts
    bad = "bold red" if verdicts.exit_code or diagnosis.faults else "bold green"
    parts: list[RenderableType] = [Text(summary(verdicts), style=bad), Text(closing(diagnosis))]
    meaning = [Text(line) for line in diagnosis.meaning]
    parts += meaning if diagnosis.faults else []
    parts += [Text(line, style="yellow") for line in (*_in_few_bits(diagnosis), *remarks(verdicts))]
    for fault, *others in _by_mistake(others_first(diagnosis.faults), together=not every):
        parts += [*explained(fault, every=every), *([Text(f"  {_at_more(others)}")] if others else [])]
    parts += [Text(str(misplaced)) for misplaced in diagnosis.misplaced]
    parts += [Text(f"parameter {parameter.name} {parameter.says}", style="red") for parameter in diagnosis.parameters]
    parts += [] if diagnosis.faults else meaning
    parts += [] if diagnosis.angles is None else [Text(str(diagnosis.angles), style="yellow")]
    parts += [Text(line, style="yellow") for line in _flips(diagnosis, None if every else _FLIPS)]
    parts += [Text(str(cast)) for cast in diagnosis.casts]
    parts += [Text(failure, style="red") for failure in diagnosis.failures]
    if diagnosis.faults:
        parts.append(_errors(diagnosis, None if every else _TAPS))
    elif verdicts.exit_code:
        parts += map(Text, _problems(diagnosis, every=every))
    return Group(*parts)


def _by_mistake(faults: Sequence[Explained], *, together: bool) -> list[list[Explained]]:
    """Places that the same words explain wholly, whoever calls that line, stand behind the first of them."""
    groups = dict[object, list[Explained]]()
    for number, fault in enumerate(faults):
        best = next(iter(fault.explanations), None)
        whole = together and fault.is_known and best is not None and best.whole == best.of and not fault.left
        once = whole and best is not None and not fault.numbers
        said = (best.name, _CALLED.sub("", best.says), best.fix) if once and best is not None else number
        groups.setdefault(said, []).append(fault)
    return list(groups.values())


def _at_more(faults: Sequence[Explained]) -> str:
    """Where the mistake before is made, too."""
    taps, shown = sum(len(fault.fault.wrong) for fault in faults), [name(fault) for fault in faults[:_PLACES]]
    more = f" and {len(faults) - len(shown)} more" if len(faults) > len(shown) else ""
    places = "place" if len(faults) == 1 else "places"
    return f"the same at {len(faults)} more {places}, {taps} of {taps} taps: {', '.join(shown)}{more}"


def _in_few_bits(diagnosis: Diagnosis) -> list[str]:
    """How many places hold numbers in few bits, and what to do where that is all, and declared."""
    if alone := lossy_alone(diagnosis):
        return [f"{alone}; {TO_DECIDE}"]
    beside = [*diagnosis.misplaced, *diagnosis.parameters, *diagnosis.verdicts.not_finite]
    lossy = summary_of_bits(diagnosis.faults, whole=not beside)
    undeclared = diagnosis.verdicts.arithmetic != pb.ARITHMETIC_OTHER
    return [f"{lossy}{f'; {TO_DECLARE}' if undeclared else ''}"] if lossy else []


def _problems(diagnosis: Diagnosis, *, every: bool) -> Iterator[str]:
    """The first problems of a run whose ops are all right; one is enough where it is said what they mean.

    Of taps that are recorded elsewhere a sentence says all of it once.
    """
    said = set() if every else {misplaced.rule for misplaced in diagnosis.misplaced}
    problems = [problem for problem in diagnosis.verdicts.problems if problem.rule not in said]
    if not every and any(line.startswith(RIGHT_IN) for line in diagnosis.meaning):
        follow, taps = [problem for problem in problems if problem.rule == FURTHER], diagnosis.verdicts.compared
        problems = [problem for problem in problems if problem.rule != FURTHER]
        yield f"{len(follow)} of {taps} taps leave the budgets of the golden's arithmetic, which follows from the above"
    shown = problems if every else problems[: 1 if diagnosis.meaning else _PROBLEMS]
    yield from (str(_beyond(problem, diagnosis)) for problem in shown)
    if more := len(problems) - len(shown):
        yield f"… and {more} more failure{'s' * (more > 1)}"


def _beyond(problem: Problem, diagnosis: Diagnosis) -> Problem:
    """A problem of a run whose ops are all right, which need not be sent here once more: what to do stands above."""
    diagnosed = "qwen3-parity diagnose" in problem.next_step
    return replace(problem, next_step="") if diagnosed and diagnosis.meaning else problem


def _flips(diagnosis: Diagnosis, most: int | None) -> list[str]:
    """The near-ties one by one; flips that no noise can make are counted, and shown where nothing else is wrong."""
    ties = [flip for flip in diagnosis.flips if flip.near_tie]
    real = [flip for flip in diagnosis.flips if not flip.near_tie]
    lines = [str(flip) for flip in (ties if diagnosis.faults else [*ties, *real])[:most]]
    if real and diagnosis.faults:
        subject = "position chooses" if len(real) == 1 else "positions choose"
        lines.append(f"{len(real)} {subject} another token by more than noise can, which follows from the above")
    return lines


def closing(diagnosis: Diagnosis) -> str:
    """How many places are wrong on their own inputs, of how many that could be judged."""
    judged = [op_verdict for op_verdict in diagnosis.alone if not op_verdict.reason]
    if not diagnosis.alone:
        return "one op alone: the verdict is the op's own"
    if not judged:
        return "no op could be judged alone: the inputs of none were recorded"
    taps = f"{len(judged)} of {len(diagnosis.alone)} taps judged on their own inputs"
    if not diagnosis.faults and diagnosis.verdicts.results_alone:
        return f"{RESULTS_ALONE}; {taps}"
    if not diagnosis.faults:
        return f"every op that could be judged alone is right: {taps}"
    count = len(diagnosis.faults)
    are = "place is wrong on its own inputs" if count == 1 else "places are wrong on their own inputs"
    by = ", all by one mistake" if count > 1 and len(_by_mistake(diagnosis.faults, together=True)) == 1 else ""
    return f"{count} {are}{by}; {taps}"


def name(fault: Explained) -> str:
    """The place with its layers left open, and what is judged with it."""
    text = _pattern(fault.fault.place)
    return text if not fault.fault.others else f"{text} (with {_listed(fault.fault.others)})"


def _pattern(place: str) -> str:
    return place.replace("{layer}", "*")


def _listed(places: Sequence[str]) -> str:
    short = [_pattern(place) for place in places]
    return ", ".join(short[:4]) + (f" and {len(short) - 4} more without a tap" if len(short) > 4 else "")


def explained(fault: Explained, *, every: bool = False) -> list[RenderableType]:
    """One fault: how large it is, what explains it, and what to record next."""
    most = None if every else _EACH
    lines: list[RenderableType] = [
        Text(f"\n{name(fault)}", style="bold red"),
        Text(f"  {size(fault)}"),
        *([Text(f"  your {origin}")] if (origin := str(fault.origin or "")) else []),
    ]
    names = [Text(line) for explanation in fault.explanations[:most] for line in _explanation(explanation, fault)]
    says = [Text(f"  {finding.name}: {finding.says}") for finding in fault.numbers[:most]]
    worst = fault.fault.worst
    where = f", at {worst.name} (step {worst.step})" if len(fault.fault.wrong) > 1 else ""
    if fault.is_known:
        lines += [*names, *([Text("  what the numbers say:")] if says else []), *says]
    elif says:
        says[1:1] = [Text(f"    fix: {fault.misread}")] * bool(fault.misread)
        lines += [Text(f"  {_heading(fault)}{where}:"), *says, *names]
    else:
        lines += names if names or fault.source else [Text(f"  {UNKNOWN}")]
    lines += [Text(f"  {line}") for line in unexplained(fault, most)]
    if fault.source:
        lines.append(Text("  the reference computes it in these lines, the last one first:"))
        lines += [Text(f"    {line}") for line in fault.source]
    if fault.stopped:
        lines.append(Text(f"  not every mistake was tried: {_CUT if fault.cut else 'diagnose --effort 4 tries more'}"))
    return [*lines, Text(f"  {fault.record}")] if fault.record else lines


def _heading(fault: Explained) -> str:
    """What stands before the numbers of a place that no mistake explains."""
    if in_few_bits(fault):
        return FEW_BITS
    return NAMED if fault.misread else f"{UNKNOWN}; what the numbers say"


def unexplained(fault: Explained, most: int | None = _EACH) -> list[str]:
    """The wrong taps that no explanation reproduces, and how many were too many to try."""
    lines, wrong = [], len(fault.fault.wrong)
    if fault.left:
        shown = [f"{name} (step {step})" for name, step in fault.left[:most]]
        more = f" and {len(fault.left) - len(shown)} more" if len(fault.left) > len(shown) else ""
        are = "is" if len(fault.left) == 1 else "are"
        lines.append(f"{len(fault.left)} of {wrong} wrong taps {are} not explained: {', '.join(shown)}{more}")
    if fault.untried and fault.explanations:
        lines.append(f"it was tried on {len(fault.tried)} of {wrong} wrong taps: the others would take too long")
    return lines


def _explanation(explanation: Explanation, fault: Explained) -> list[str]:
    where = "" if explanation.place == fault.fault.place else f" (in {_pattern(explanation.place)})"
    return explanations.lines(explanation, explanations.in_taps(explanation, "your"), where)


def size(fault: Explained) -> str:
    """How many taps of a fault are wrong, where, and by how much."""
    wrong, correct = len(fault.fault.wrong), len(fault.fault.passing)
    where = f", {fault.where}" if fault.where else ""
    return f"{wrong} of {wrong + correct} taps wrong{where}; alone {of_budget(fault.fault.worst.share)}"


def _errors(diagnosis: Diagnosis, most: int | None) -> Table:
    """The errors of the run and of each op alone side by side, for the first `most` taps that fail either way."""
    table = Table("tap", "step", "run, of its budget", "alone, in rounding units", box=None, title_justify="left")
    whole = {(tap.name, tap.step): tap for tap in diagnosis.verdicts.taps}
    rows = [
        (op_verdict, tap)
        for op_verdict in diagnosis.alone
        if (tap := whole.get((op_verdict.name, op_verdict.step))) is not None and not (tap.passed and op_verdict.passed)
    ]
    for op_verdict, tap in rows[:most]:
        cells = [op_verdict.name, str(op_verdict.step), in_the_run(tap), own_error(op_verdict)]
        table.add_row(*cells, style=None if op_verdict.passed else "red")
    if most is not None and len(rows) > most:
        table.add_row(f"… and {len(rows) - most} more", "", "", "")
    return table


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers; places as people say them, `taps` and what is `left` as in the files."""
    case = diagnosis.verdicts.case
    return diagnosis.verdicts.to_json() | {
        "faults": [
            spoken(_fault(fault), case)
            | {
                "taps": [[op_verdict.name, op_verdict.step] for op_verdict in fault.fault.wrong],
                "left": [list(tap) for tap in fault.left],
            }
            for fault in diagnosis.faults
        ],
        **spoken(_beside(diagnosis), case),
    }


def _fault(fault: Explained) -> dict[str, Any]:
    return {
        "place": fault.fault.place,
        "others": list(fault.fault.others),
        "where": fault.where,
        "alone_share": plain(fault.fault.worst.share),
        "explanations": list(map(explanations.to_json, fault.explanations)),
        "untried": fault.untried,
        "few_bits": in_few_bits(fault),
        "findings": [plain(asdict(finding)) for finding in fault.findings],
        "record_next": fault.record,
        "origin": None if fault.origin is None else fault.origin._asdict(),
        "stopped": fault.stopped,
        "cut": fault.cut,
    }


def _beside(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "misplaced": [misplaced.place for misplaced in diagnosis.misplaced],
        "names": {misplaced.place: misplaced.holds for misplaced in diagnosis.misplaced if misplaced.holds},
        "parameters": [asdict(parameter) for parameter in diagnosis.parameters],
        "flips": [plain(asdict(flip)) for flip in diagnosis.flips],
        "casts": [asdict(cast) | {"says": str(cast)} for cast in diagnosis.casts],
        "angles": None if diagnosis.angles is None else asdict(diagnosis.angles) | {"says": str(diagnosis.angles)},
        "meaning": list(diagnosis.meaning),
        "failures": list(diagnosis.failures),
    }
