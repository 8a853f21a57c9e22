"""A folder's verdicts: a table for people, JSON for machines, JUnit for continuous integration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_golden.errors import printable
from qwen3_parity.folder.check import Folder
from qwen3_parity.folder.levels import next_level, reached
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.output import refusal
from qwen3_parity.report.sums import in_brief


def terminal(folder: Folder, *, every: bool = False) -> RenderableType:
    """A row for each case, the first red one in full (`every`: each), and what was refused or not delivered."""
    parts: list[RenderableType] = [report.cases_table(folder.results)] if folder.results else []
    if folder.red:
        in_full = len(folder.red) if every else 1
        parts += [report.terminal(verdicts) for verdicts in folder.red[:in_full]]
        names = [verdicts.case.name for verdicts in folder.red[in_full:]]
        parts += [Text(f"red as well, {len(names)}: {', '.join(names)}", style="bold red")] if names else []
        parts.append(Text(f"what is behind them: qwen3-parity diagnose {folder.path}"))
    parts += [Text(str(error), style="bold red") for error in folder.refused]
    parts += [Text(line, style="bold red" if folder.required else "") for line in absent(folder)]
    if folder.extra:
        are = "recording of another case was" if len(folder.extra) == 1 else "recordings of other cases were"
        parts.append(Text(f"{len(folder.extra)} {are} left alone"))
    if not folder.required:
        parts += _levels(folder)
    parts += [Text(line) for line in (*report.contracts(folder.results), closing(folder))]
    return Group(*parts)


def _levels(folder: Folder) -> Iterator[RenderableType]:
    """The levels that were reached, and what those that were begun still need."""
    levels, following = reached(folder), next_level(folder)
    lacks = {verdicts.case.name: ", ".join(verdicts.lacks) for verdicts in folder.results if verdicts.word == "partial"}
    done = [level.level for level in levels if level.reached]
    if done:
        yield Text(f"levels reached: {', '.join(done)}", style="green")
    for level in levels:
        if not level.reached:
            needs = [f"missing {', '.join(level.missing)}"] if level.missing else []
            red = [name for name in level.red if name not in lacks]
            needs += [f"red {', '.join(red)}"] if red else []
            needs += [f"of {name} also {lacks[name]}" for name in level.red if name in lacks]
            yield Text(f"level {level.level}, {len(level.parity)} of {level.of} cases: {'; '.join(needs)}")
    if following is not None and all(level.reached for level in levels):
        yield Text(f"next level: {following.level}, which needs {', '.join(following.missing)}")


def absent(folder: Folder) -> Iterator[str]:
    """What was not delivered, a folder of goldens of which nothing was as a glob unless it is required."""
    if folder.missing:
        there = [verdicts.case.name for verdicts in folder.results]
        listed = folder.missing if folder.required else in_brief(folder.missing, there)
        state = "required and not delivered" if folder.required else "not delivered"
        yield f"{state}, {len(folder.missing)}: {', '.join(listed)}"


def closing(folder: Folder) -> str:
    """One sentence over the whole folder."""
    if not folder.results:
        return "nothing was judged, and that is a failure"
    refused = len(folder.refused)
    more = f"; {refused} {'recording was' if refused == 1 else 'recordings were'} refused" if refused else ""
    return report.closing(folder.results) + more


def to_json(folder: Folder) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    following = None if folder.required else next_level(folder)
    return report.to_json(folder.results) | {
        "exit_code": folder.exit_code,
        "folder": str(folder.path),
        "refused": [refusal(error) for error in folder.refused],
        "missing": list(folder.missing),
        "required": folder.required,
        "extra": list(folder.extra),
        "levels": [asdict(level) | {"reached": level.reached} for level in reached(folder)],
        "next_level": following and {"level": following.level, "needs": [*following.red, *following.missing]},
    }


def junit(folder: Folder) -> str:
    """JUnit's XML: a test for each case, those that were not delivered skipped, and an error for what was refused."""
    suite = ElementTree.Element("testsuite", name="qwen3-parity")
    for verdicts in folder.results:
        test = test_of(suite, verdicts.case.name)
        if verdicts.exit_code:
            text = "\n".join(map(str, verdicts.problems)) or "; ".join(verdicts.no_results)
            says(test, "failure", report.summary(verdicts), spoken(text, verdicts.case))
    for name in folder.missing:
        says(test_of(suite, name), "failure" if folder.required else "skipped", "not delivered", "")
    for error in folder.refused:
        says(test_of(suite, error.where), "error", error.rule, str(error))
    if not folder.results:
        says(test_of(suite, str(folder.path)), "failure", closing(folder), "")
    return finished(suite)


def finished(suite: ElementTree.Element) -> str:
    """The XML of a suite of tests, which are counted."""
    counts = {"tests": "testcase", "failures": ".//failure", "errors": ".//error", "skipped": ".//skipped"}
    for name, path in counts.items():
        suite.set(name, str(len(suite.findall(path))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def test_of(suite: ElementTree.Element, name: str) -> ElementTree.Element:
    """A test of a suite, by the name of its case."""
    group, _, rest = name.rpartition("/")
    return ElementTree.SubElement(suite, "testcase", classname=printable(group), name=printable(rest))


def says(test: ElementTree.Element, kind: str, message: str, text: str) -> None:
    """A test's "failure", "error" or "skipped"."""
    ElementTree.SubElement(test, kind, message=printable(message)).text = printable(text)
