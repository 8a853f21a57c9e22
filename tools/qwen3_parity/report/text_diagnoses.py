"""The diagnosis of a tokenizer for people (terminal) and machines (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.diagnosis.text import TokenDiagnosis, TokenFault
from qwen3_parity.report import explanations
from qwen3_parity.report.remarks import remarks
from qwen3_parity.report.verdicts import summary
from qwen3_parity.text.blame import StageVerdict

_SHOWN, _AROUND = 4, 24


def terminal(diagnosis: TokenDiagnosis) -> RenderableType:
    """What is wrong, what the mistake is, how sure that is, and what to change."""
    verdicts = diagnosis.verdicts
    bad = "bold red" if verdicts.exit_code or diagnosis.faults else "bold green"
    parts: list[RenderableType] = [Text(summary(verdicts), style=bad), Text(closing(diagnosis))]
    parts += [Text(line, style="yellow") for line in remarks(verdicts)]
    for fault in diagnosis.faults:
        parts += [Text(f"\n{named(fault)}", style="bold red"), *map(Text, lines(fault))]
    if verdicts.exit_code and not diagnosis.faults:
        parts += [Text(str(problem)) for problem in verdicts.problems[:3]]
    return Group(*parts)


def closing(diagnosis: TokenDiagnosis) -> str:
    """How many stages are wrong on their own inputs, of how many texts."""
    judged = sum(verdict.is_right is not None for verdict in diagnosis.alone)
    share = f"{judged} of {len(diagnosis.alone)} stages of texts judged on their own inputs"
    if not diagnosis.faults:
        return f"every stage that could be judged alone is right: {share}"
    count = len(diagnosis.faults)
    return f"{count} {'stage is wrong on its' if count == 1 else 'stages are wrong on their'} own inputs; {share}"


def named(fault: TokenFault) -> str:
    """The stage, and what is judged with it."""
    return fault.place + (f" (with {', '.join(fault.others)})" if fault.others else "")


def lines(fault: TokenFault) -> list[str]:
    """How many texts, the first of them, and what explains it."""
    worst = fault.wrong[0]
    count = len(fault.wrong) + len(fault.passing)
    out = [f"  wrong in {len(fault.wrong)} of {count} texts, first in {worst.message.name!a}"]
    actual, expected = _difference(worst)
    out += [f"    yours: {actual}", f"    right: {expected}"]
    for explanation in fault.explanations[:_SHOWN]:
        out += explanations.lines(explanation, explanations.in_texts(explanation))
    if len(fault.explanations) > _SHOWN:
        others = sorted({explanation.name for explanation in fault.explanations[_SHOWN:]})
        out.append(f"  these texts do not tell it from: {', '.join(others)}")
    if not fault.explanations:
        out.append("  no known mistake gives these values")
    return out


def _difference(verdict: StageVerdict) -> tuple[str, str]:
    """Both values around their first difference, escaped."""
    actual, expected = _as_text(verdict, verdict.actual), _as_text(verdict, verdict.expected)
    if actual == expected:  # the same texts at other places
        actual, expected = verdict.actual, verdict.expected
    path = ""
    while isinstance(actual, tuple) and isinstance(expected, tuple):
        at = next(
            (n for n, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b),
            min(len(actual), len(expected)),
        )
        if at < min(len(actual), len(expected)) and isinstance(actual[at], tuple | str | bytes) and len(actual[at]) > 3:
            path, actual, expected = f"{path}[{at}]", actual[at], expected[at]
            continue
        return tuple(f"{path}[{at}] {_part(side, at)}" for side in (actual, expected))  # type: ignore[return-value]
    if isinstance(actual, str | bytes) and isinstance(expected, str | bytes):
        at = next(
            (n for n, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b),
            min(len(actual), len(expected)),
        )
        begin = max(0, at - _AROUND)
        return tuple(f"{path}[{begin}:] {side[begin : at + _AROUND]!a}" for side in (actual, expected))  # type: ignore[return-value]
    return f"{path} {actual!a}", f"{path} {expected!a}"


def _as_text(verdict: StageVerdict, value: Any) -> Any:
    """Pre-tokens as what they hold, other values as they are."""
    if verdict.stage != "pre_tokens" or "normalized" not in verdict.inputs:
        return value
    pairs = zip(verdict.inputs["normalized"], value, strict=False)
    return tuple(tuple(text[piece.begin : piece.end] for piece in pieces) for text, pieces in pairs)


def _part(side: Sequence[Any], at: int) -> str:
    items = side[at : at + _SHOWN]
    text = ", ".join(ascii(tuple(item) if isinstance(item, tuple) else item) for item in items) or "nothing more"
    return text if len(items) == len(side) - at else f"{text}, …"


def to_json(diagnosis: TokenDiagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    return diagnosis.verdicts.to_json() | {
        "faults": [
            {
                "stage": fault.stage,
                "others": list(fault.others),
                "texts": [verdict.message.name for verdict in fault.wrong],
                "of": len(fault.wrong) + len(fault.passing),
                "yours": _difference(fault.wrong[0])[0],
                "right": _difference(fault.wrong[0])[1],
                "explanations": list(map(explanations.to_json, fault.explanations)),
            }
            for fault in diagnosis.faults
        ],
        "judged_alone": sum(verdict.is_right is not None for verdict in diagnosis.alone),
    }
