"""Verdicts for people: a table for the terminal, JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_parity.judge.budgets import FAR, percent
from qwen3_parity.judge.by_reference import cases_by_reference
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.report.remarks import alone, less_than_both, predictions_table, remarks
from qwen3_parity.text.show import is_tokenization, shown_problems, stages_table

_WORST = 12
_IN_FULL = 3
_SHARES, _OWN = 3, 8
"""Where in a tap's row its shares begin, and its own op's error stands."""
_STYLE = {"parity": "bold green", "divergence": "bold red"}
NOT_PROVEN = (
    "Only what the inputs of these cases exercise was compared: a token, position or length that no case has may "
    "still be wrong.",
    "Taps that a backend never materialises were not compared; the share of taps compared says how many.",
    "Within budget means as close as honest float32 arithmetic comes to the reference, not equal bits.",
    "Tokenization is compared in cases of its own alone, on their texts and their small vocabularies.",
    "Speed, memory, sampling and training are other questions.",
)


RUN = "run: the share of its budget that each tap uses, by the RMS error, the largest, the worst row and head"
LARGEST = "run: the share of its budget that each tap uses, by its worst error; -v says by which"
ALONE = "alone: the error of each op on the candidate's own inputs, in rounding units; ! is beyond its headroom"


def of_budget(share: float, whose: str = "its") -> str:
    """As `percent`, in a sentence: "12 % of its budget", "beyond any budget" for what hardly any allows."""
    return f"{percent(share)} of {whose} budget" if share < FAR else "beyond any budget"


def summary(verdicts: Verdicts) -> str:
    """One line: case, verdict, what was judged, share of taps (or stages) compared, the worst share or what differs."""
    texts = is_tokenization(verdicts)
    unit = "stages" if texts else "taps"
    line = f"{verdicts.case.name}: {verdicts.word}, {verdicts.judged}"
    line += f", {verdicts.compared} of {verdicts.of} {unit} compared"
    if verdicts.of:
        line += f" ({100 * verdicts.compared / verdicts.of:.0f} %)"
    if texts and verdicts.problems:
        differing = sum(not tap.passed for tap in verdicts.taps)
        line += f", {differing} {'differs' if differing == 1 else 'differ'}, first {verdicts.problems[0].where}"
    elif not texts and verdicts.worst is not None:
        line += _alone_within(verdicts, verdicts.worst)
        line += f", worst {of_budget(verdicts.worst.share)} at {verdicts.worst.where}"
    return spoken(line, verdicts.case)


def _alone_within(verdicts: Verdicts, worst: Verdict) -> str:
    """That an op is wrong by itself though the run is within its budget, so that the share is no contradiction."""
    wrong = verdicts.wrong_alone
    if not wrong or worst.share > 1:
        return ""
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f", wrong alone, on its own inputs: {wrong[0]}{more}; the run is within its budget"


def own_error(op_verdict: OpVerdict) -> str:
    """A tap's own op on its own inputs: the largest error in rounding units, "!" when it is beyond its headroom."""
    if op_verdict.reason:
        return op_verdict.reason
    largest = op_verdict.errors.max
    text = "exact" if largest == 0 else f"{largest:.3g}" if largest < FAR else f"over {FAR:.0e}"
    text = text if math.isfinite(largest) else "wrong"
    return text if op_verdict.passed else f"{text} !"


def listed(verdicts: Verdicts, *, every: bool = False) -> list[Verdict]:
    """The taps that a table shows: every one, or those that fail, or else the worst; in execution order."""
    failing = [tap for tap in verdicts.taps if not tap.passed]
    if every:
        return list(verdicts.taps)
    if failing:
        return failing[:_WORST]
    worst = sorted(verdicts.taps, key=lambda tap: tap.share, reverse=True)[:_WORST]
    return [tap for tap in verdicts.taps if tap in worst]


def cells(tap: Verdict) -> list[str]:
    """A tap's row: name, step, op, shares (RMS, max, row, head), ULPs, and its own op's error in rounding units."""
    row = [tap.name, str(tap.step), tap.op]
    if tap.shares is None or tap.metrics is None:
        row += ["exact" if tap.exact else "–", "", "", ""]
    else:
        present = (True, True, bool(tap.metrics.row_index), bool(tap.metrics.head_index))
        row += [percent(share) if there else "–" for share, there in zip(tap.shares, present, strict=True)]
    row.append("–" if tap.metrics is None or (tap.metrics.differing and not tap.metrics.ulp) else str(tap.metrics.ulp))
    if tap.alone is not None:
        row.append(own_error(tap.alone))
    return row


def in_the_run(tap: Verdict) -> str:
    """The largest share of a tap's budget; of one that nothing was compared of in the run, a dash."""
    return "–" if tap.metrics is not None and not tap.metrics.count and not tap.share else percent(tap.share)


def terminal(verdicts: Verdicts, *, every: bool = False) -> RenderableType:
    """What a person needs in a terminal: the verdict, what failed, and the worst taps (`every`: all of them).

    Where ops were judged alone, a column has the error of each in rounding units.
    """
    verdicts = spoken(verdicts, verdicts.case)
    parts: list[RenderableType] = [Text(summary(verdicts), style=_STYLE.get(verdicts.word, "bold yellow"))]
    problems = verdicts.problems if every else shown_problems(verdicts)[:_IN_FULL]
    parts += [Text(str(problem)) for problem in problems]
    if len(verdicts.problems) > len(problems):
        parts.append(Text(f"… and {len(verdicts.problems) - len(problems)} more failures"))
    parts += [Text(line, style="bold red" if verdicts.wrong_alone else "green") for line in alone(verdicts)]
    parts += [Text(line, style="yellow") for line in remarks(verdicts)]
    if verdicts.not_materialised:
        unit = "stages" if is_tokenization(verdicts) else "taps"
        parts.append(Text(f"never materialised by this run: {len(verdicts.not_materialised)} {unit}", style="yellow"))
    if is_tokenization(verdicts):
        return Group(*parts, stages_table(verdicts))
    taps = listed(verdicts, every=every)
    if taps:
        parts += [Text(RUN if every else LARGEST), *[Text(ALONE)] * any(tap.alone for tap in taps)]
        parts.append(_taps_table(taps, every=every))
    if every and verdicts.predictions is not None:
        parts.append(predictions_table(verdicts.predictions))
    return Group(*parts)


def _taps_table(taps: Sequence[Verdict], *, every: bool) -> Table:
    """A row for each tap: what fits into 80 columns, or `every` error."""
    heads = ["tap", "step", *(["op", "run: rms", "max", "row", "head", "ulp"] if every else ["run"])]
    table = Table(*heads, *["alone"] * any(tap.alone for tap in taps), box=None)
    for tap in taps:
        row = cells(tap) if every else _short(tap)
        row += [""] * (len(table.columns) - len(row))
        table.add_row(*row, style=None if tap.passed else "red")
    return table


def _short(tap: Verdict) -> list[str]:
    """A tap's row in brief: name, step, its largest share, and its own op's error."""
    whole = cells(tap)
    share = whole[_SHARES] if tap.shares is None or tap.metrics is None else in_the_run(tap)
    return [tap.name, str(tap.step), share, *whole[_OWN:]]


def overview(results: Sequence[Verdicts]) -> RenderableType:
    """One line for each case, the details of those that fail below."""
    failing = [terminal(verdicts) for verdicts in results if verdicts.exit_code]
    return Group(cases_table(results), *failing, *map(Text, contracts(results)), Text(closing(results)))


def cases_table(results: Sequence[Verdicts]) -> Table:
    """A row for each case."""
    table = Table("case", "verdict", "judged", "compared", "worst share", "where", box=None)
    for verdicts in results:
        share, where = worst(verdicts)
        verdict = Text(verdicts.word, style=_STYLE.get(verdicts.word, "bold yellow"))
        table.add_row(
            verdicts.case.name, verdict, verdicts.judged, f"{verdicts.compared} of {verdicts.of}", share, where
        )
    return table


def contracts(results: Sequence[Verdicts]) -> list[str]:
    """By which contracts the cases were judged, each once, and which candidates no implementation made."""
    used = [verdicts.contract for verdicts in results if verdicts.contract is not None]
    lines = list(dict.fromkeys(f"judged by {contract}" for contract in used if not contract.own_golden))
    unreleased = [contract for contract in used if contract.own_golden]
    if len(unreleased) == 1:
        lines.append(f"judged by {unreleased[0]}")
    elif unreleased:
        names = ", ".join(ascii(contract.own_golden) for contract in unreleased)
        lines.append(
            f"judged by contract {unreleased[0].short}; {len(unreleased)} goldens beside the released ones: {names}"
        )
    if cases := cases_by_reference(results):
        are = "candidate is" if len(cases) == 1 else "candidates are"
        state = "the golden itself or recorded by the reference, no implementation of its own"
        lines.append(f"{len(cases)} {are} {state}: {', '.join(cases)}")
    return lines


def worst(verdicts: Verdicts) -> tuple[str, str]:
    """The largest share of a budget and its tap, or that there is nothing to tell."""
    if verdicts.identical:
        return "all equal" if is_tokenization(verdicts) else "bit for bit", ""
    if is_tokenization(verdicts):
        return "", next((problem.where for problem in verdicts.problems), "")
    if verdicts.worst is None:
        return "", ""
    return percent(verdicts.worst.share), spoken(verdicts.worst.where, verdicts.case)


def closing(results: Sequence[Verdicts], cases: int = 0, beside: str = "") -> str:
    """One sentence over all cases; `cases` are how many where some were not judged, and `beside` why not."""
    good = sum(not verdicts.exit_code for verdicts in results)
    compared, of = sum(verdicts.compared for verdicts in results), sum(verdicts.of for verdicts in results)
    units = sorted({"stages of texts" if is_tokenization(verdicts) else "taps" for verdicts in results}, reverse=True)
    line = f"parity in {good} of {cases or len(results)} cases{beside}{less_than_both(results)}"
    line += f", {compared} of {of} {' and '.join(units)} compared"
    judged = [verdicts for verdicts in results if verdicts.worst and not is_tokenization(verdicts)]
    most = max(judged, key=lambda verdicts: verdicts.worst.share if verdicts.worst else 0, default=None)
    if most is not None and most.worst is not None and most.worst.share > 0:
        line += f"; worst {of_budget(most.worst.share, 'a')}, at {worst(most)[1]} of {most.case.name}"
    return line


def to_json(results: Sequence[Verdicts]) -> dict[str, Any]:
    """Plain dicts of several checks, see `Verdicts.to_json`; the exit code is the worst of them."""
    return {
        "exit_code": max((verdicts.exit_code for verdicts in results), default=1),
        "cases": [verdicts.to_json() for verdicts in results],
    }
