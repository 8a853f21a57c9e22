"""A run of a port as a process: for people, as JSON, as JUnit's XML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import RenderableType
from rich.text import Text

from qwen3_parity.conformance.run import Conformance, Failure, Fresh
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.judge.budgets import percent
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.report import diagnoses as pages
from qwen3_parity.report import folder as folders
from qwen3_parity.report.verdicts import cases_table, contracts
from qwen3_parity.report.verdicts import closing as verdicts_closing
from qwen3_parity.report.verdicts import terminal as in_full


def verdict(conformance: Conformance, fresh: Fresh | None, surprises: Sequence[str]) -> str:
    """One line: how many cases are at parity, what is not as it should be, and the fresh cases."""
    parts = [
        closing(conformance, fresh),
        *remarks(conformance, fresh),
        *surprises,
        *list(_fresh(fresh) if fresh else ())[:1],
    ]
    return "; ".join(parts)


def terminal(
    conformance: Conformance,
    fresh: Fresh | None,
    surprises: Sequence[str],
    known: int,
    out: Path | None,
    diagnoses: Mapping[str, Diagnosis],
    *,
    every: bool = False,
) -> list[RenderableType]:
    """A row for each case that was judged, then what is not supported, and a line for each that fails unexpectedly.

    `diagnoses` are those of fresh cases, by name. `every`: each red case in full as well.
    """
    parts: list[RenderableType] = [cases_table(conformance.folder.results)] if conformance.folder else []
    if every and conformance.folder:
        parts += [in_full(verdicts) for verdicts in conformance.folder.red]
    unsupported = [f"{name} ({text})" if text else name for name, text in conformance.answers.unsupported.items()]
    if unsupported:
        parts.append(Text(f"not supported, {len(unsupported)}: {', '.join(unsupported)}", style="yellow"))
    parts += [Text(line, style="bold red") for line in (*remarks(conformance, fresh), *surprises)]
    if known:
        parts.append(Text(f"known to fail, {known} of {len(conformance.failed)} that fail"))
    if conformance.failed:
        where = "with --out DIR the answers are kept: " if out is None else ""
        parts.append(Text(f"what is behind it: {where}qwen3-parity diagnose {out or 'DIR'}"))
    if fresh is not None:
        parts += map(Text, _fresh(fresh))
    style = "bold red" if conformance.folder is None else ""
    parts += map(Text, contracts(conformance.folder.results) if conformance.folder else ())
    parts.append(Text(closing(conformance, fresh), style=style))
    return [*parts, *_diagnosed(fresh, diagnoses)]


def closing(conformance: Conformance, fresh: Fresh | None) -> str:
    """One sentence over all cases that were to be asked for, those without a verdict counted by why they have none."""
    folder, answers = conformance.folder, conformance.answers
    results = [] if folder is None else folder.results
    silent = {
        "without an answer": len(answers.failed),
        "not supported": len(answers.unsupported),
        "not judged": len(conformance.not_judged),
    }
    silent["refused"] = len(conformance.cases) - len(results) - sum(silent.values())
    beside = [f"{count} {why}" for why, count in silent.items() if count > 0]
    cases = len(conformance.cases)
    if results:
        line = verdicts_closing(results, cases, "".join(f", {text}" for text in beside))
    else:
        line = f"nothing was judged, and that is a failure: {_first_of(beside, cases)}"
    return f"{line}; interrupted" if stopped(conformance, fresh) else line


def _first_of(beside: Sequence[str], cases: int) -> str:
    """ "4 of 4 cases without an answer, …" """
    first, *rest = beside or ["0 asked for"]
    count, _, why = first.partition(" ")
    return ", ".join([f"{count} of {cases} cases {why}", *rest])


def stopped(conformance: Conformance, fresh: Fresh | None) -> BaseException | None:
    """What interrupted the run, None for nothing."""
    return conformance.stopped or (fresh.stopped if fresh else None)


def _diagnosed(fresh: Fresh | None, diagnoses: Mapping[str, Diagnosis]) -> Iterator[RenderableType]:
    """The diagnosis of the case that failed as it was drawn, and how the small one's differs."""
    if fresh is None or fresh.drawn is None or fresh.failure is None:
        return
    drawn, small = diagnoses.get(fresh.drawn.name), diagnoses.get(fresh.failure.name)
    if drawn is not None:
        yield Text(f"\nthe case as it was drawn, {fresh.drawn.name}:", style="bold")
        yield pages.terminal(drawn)
    if small is not None and small is not drawn:
        yield Text(f"\nmade small, {fresh.failure.name}: {pages.verdict(small)}")
        if drawn is not None and named(drawn) != named(small):
            yield Text("a small case tells less: where the two differ, the one as it was drawn is to be believed")


def named(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The places that are wrong, each with the mistake that it is most likely to be."""
    case = diagnosis.verdicts.case
    return sorted((spoken(fault.fault.place, case), fault.name) for fault in diagnosis.faults)


def remarks(conformance: Conformance, fresh: Fresh | None) -> list[str]:
    """What the port did beside answering."""
    return [*conformance.answers.remarks, *(fresh.remarks if fresh else ())]


def _fresh(fresh: Fresh) -> Iterator[str]:
    share = f", worst share of a budget {percent(fresh.worst)}" if fresh.judged and not fresh.failure else ""
    yield f"fresh cases from seed {fresh.seed}: {fresh.judged} judged against {fresh.against}{share}"
    if fresh.unsupported:
        yield f"  not supported: {', '.join(sorted(fresh.unsupported))}"
    if fresh.drawn is not None:
        yield from _saved("fails as it was drawn", fresh.drawn)
    if fresh.failure is not None and fresh.failure is not fresh.drawn:
        yield from _saved("made small", fresh.failure)


def _saved(state: str, failure: Failure) -> Iterator[str]:
    yield f"  {state}: {failure.description}"
    yield f"    {failure.message}"
    yield f"    saved with its checkpoint and the answer in {failure.folder}"
    yield f"    ask for it again: qwen3-parity conformance --case {failure.golden} -- PORT"
    if failure.answer is not None:
        model = f" --model {failure.checkpoint}" if failure.checkpoint else ""
        yield f"    what is behind it: qwen3-parity diagnose {failure.golden} {failure.answer}{model}"


def to_json(
    conformance: Conformance,
    fresh: Fresh | None,
    surprises: Sequence[str],
    exit_code: int,
    diagnoses: Mapping[str, Diagnosis],
) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    return {
        "exit_code": exit_code,
        "judged": None if conformance.folder is None else folders.to_json(conformance.folder),
        "failed": dict(conformance.failed),
        "unsupported": dict(conformance.answers.unsupported),
        "not_judged": list(conformance.not_judged),
        "interrupted": stopped(conformance, fresh) is not None,
        "remarks": remarks(conformance, fresh),
        "surprises": list(surprises),
        "fresh": fresh
        and {
            "against": fresh.against.removeprefix("the "),
            "seed": fresh.seed,
            "judged": fresh.judged,
            "worst": plain(fresh.worst),
            "unsupported": sorted(fresh.unsupported),
            "drawn": fresh.drawn and _failure(fresh.drawn, diagnoses),
            "failure": fresh.failure and _failure(fresh.failure, diagnoses),
        },
    }


def _failure(failure: Failure, diagnoses: Mapping[str, Diagnosis]) -> dict[str, Any]:
    diagnosis = diagnoses.get(failure.name)
    return {
        "case": failure.name,
        "message": failure.message,
        "description": failure.description,
        "golden": str(failure.golden),
        "answer": failure.answer and str(failure.answer),
        "diagnosis": diagnosis and pages.verdict(diagnosis),
        "named": [] if diagnosis is None else [{"place": place, "name": name} for place, name in named(diagnosis)],
    }


def junit(
    conformance: Conformance,
    fresh: Fresh | None,
    cases: Sequence[str],
    surprises: Sequence[str],
    known: Collection[str],
) -> str:
    """JUnit's XML: a test for each case, `known` failures and what is not supported skipped; one for the fresh ones,
    and one for what is not as it should be beside them."""
    suite = ElementTree.Element("testsuite", name="qwen3-parity conformance")
    for name in cases:
        test = folders.test_of(suite, name)
        if name in conformance.failed:
            folders.says(test, "skipped" if name in known else "failure", conformance.failed[name], "")
        elif name in conformance.answers.unsupported:
            folders.says(test, "skipped", f"unsupported: {conformance.answers.unsupported[name]}", "")
    if fresh is not None:
        test = folders.test_of(suite, f"fresh/seed_{fresh.seed}")
        if (failure := fresh.failure) is not None:
            kind = "skipped" if failure.name in known else "failure"
            folders.says(test, kind, f"{failure.name}: {failure.message}", "\n".join(_fresh(fresh)))
        elif not fresh.judged:
            folders.says(test, "skipped", "nothing that was drawn is supported", "")
    beside = [*remarks(conformance, fresh), *(line for line in surprises if line.startswith("line "))]
    if beside or conformance.folder is None:
        folders.says(
            folders.test_of(suite, "conformance/run"),
            "failure",
            (beside or ["nothing was judged"])[0],
            "\n".join(beside),
        )
    return folders.finished(suite)
