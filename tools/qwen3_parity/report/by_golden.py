"""A folder judged by one golden: a line for each recording, JSON for machines, JUnit for continuous integration."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_parity.diagnosis.precision import declared, lossy_alone
from qwen3_parity.folder.by_golden import ByGolden, Judged
from qwen3_parity.judge.next_command import diagnose_command
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.report import diagnoses, folder, next_step, verdicts
from qwen3_parity.report.output import refusal


def terminal(judged: ByGolden, *, every: bool = False) -> RenderableType:
    """A row for each recording with its first fault, and what was refused; `every`: each in full behind them."""
    parts: list[RenderableType] = [_table(judged)] if judged.results else []
    for each in judged.results if every else ():
        parts.append(Text(f"\n{each.file}", style="bold"))
        parts.append(
            verdicts.terminal(each.verdicts, every=True)
            if each.diagnosis is None
            else diagnoses.terminal(each.diagnosis, every=True)
        )
    parts += [Text(str(error), style="bold red") for error in judged.refused]
    if judged.red:
        red = judged.red[0].verdicts
        parts.append(Text(f"one of them in full: {diagnose_command(red.golden, red.candidate)}"))
    return Group(*parts, Text(closing(judged), style="bold red" if judged.exit_code else "bold green"))


def _table(judged: ByGolden) -> Table:
    lossy = any(each.verdicts.predictions is not None for each in judged.results)
    columns = ["recording", "verdict", "compared", "worst share", *(["KL, nats"] if lossy else []), "first fault"]
    table = Table(*columns, box=None)
    for each in judged.results:
        share, _ = verdicts.worst(each.verdicts)
        costs = each.verdicts.predictions
        kl = [f"{costs.mean_kl:.3g}" if costs else ""] if lossy else []
        compared = f"{each.verdicts.compared} of {each.verdicts.of}"
        style = "bold red" if each.verdicts.word == "divergence" else "bold green" if _green(each) else "bold yellow"
        table.add_row(each.file, Text(each.verdicts.word, style=style), compared, share, *kl, first_fault(each))
    return table


def _green(judged: Judged) -> bool:
    return not judged.verdicts.exit_code


def first_fault(judged: Judged) -> str:
    """Where a recording is wrong first, and the mistake that it is most likely to be; "" where nothing is wrong."""
    diagnosis, answer = judged.diagnosis, spoken(judged.verdicts, judged.verdicts.case)
    if diagnosis is None:
        names = answer.wrong_alone
        return names[0] if names else answer.problems[0].rule if answer.problems else ""
    diagnosis = spoken(diagnosis, answer.case)
    if alone := lossy_alone(diagnosis):
        return alone
    faults = [fault for fault in diagnosis.faults if not declared(fault, diagnosis)]
    places = [f"{diagnoses.name(fault)}: {diagnoses.in_a_word(fault)}" for fault in faults]
    places += [f"{misplaced.place.replace('{layer}', '*')}: {misplaced.short}" for misplaced in diagnosis.misplaced]
    places += [f"parameter {parameter.name} {parameter.says}" for parameter in diagnosis.parameters]
    more = f"; and {len(places) - 1} more" if len(places) > 1 else ""
    rest = [*diagnosis.meaning, *(problem.rule for problem in answer.problems)]
    return places[0] + more if places else rest[0] if rest else ""


def closing(judged: ByGolden) -> str:
    """One sentence over the whole folder."""
    if not judged.results:
        return "nothing was judged, and that is a failure"
    words = Counter(each.verdicts.word for each in judged.results)
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
    refused = f"; {len(judged.refused)} refused" if judged.refused else ""
    recordings = "recording" if len(judged.results) == 1 else "recordings"
    return f"{len(judged.results)} {recordings} by {judged.golden}: {counts}{refused}"


def to_json(judged: ByGolden, verb: str, model: str | None = None) -> dict[str, Any]:
    """A line for each recording with the command of its whole answer, and what comes after all of them."""
    return {
        "exit_code": judged.exit_code,
        "folder": str(judged.path),
        "golden": judged.golden,
        "files": [_line(each, verb, model) for each in judged.results],
        "refused": [refusal(error) for error in judged.refused],
        "next": _next(judged, verb, model),
    }


def _line(judged: Judged, verb: str, model: str | None) -> dict[str, Any]:
    answer = judged.verdicts
    whole, costs = answer.to_json(), answer.predictions
    keys = ("candidate", "verdict", "exit_code", "judged", "compared", "of", "worst", "wrong_alone")
    line = {key: whole[key] for key in keys}
    line |= {"mean_kl": None if costs is None else plain(costs.mean_kl), "first_fault": first_fault(judged)}
    return line | {"command": next_step.whole_answer(answer, model, verb)}


def _next(judged: ByGolden, verb: str, model: str | None) -> next_step.Next:
    following = [(each.file, _after(each, model)) for each in judged.red]
    return next_step.after_by_golden(judged, following, verb, model)


def _after(judged: Judged, model: str | None) -> next_step.Next:
    if judged.diagnosis is None:
        return next_step.after_check(judged.verdicts, model)
    return next_step.after_diagnosis(judged.diagnosis, model)


def junit(judged: ByGolden) -> str:
    """JUnit's XML: a test for each recording, and an error for what was refused."""
    suite = ElementTree.Element("testsuite", name="qwen3-parity")
    for each in judged.results:
        test = folder.test_of(suite, each.file)
        if each.verdicts.exit_code:
            folder.says(test, "failure", verdicts.summary(each.verdicts), first_fault(each))
    for error in judged.refused:
        folder.says(folder.test_of(suite, error.where), "error", error.rule, str(error))
    return folder.finished(suite)
