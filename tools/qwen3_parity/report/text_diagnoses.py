"""The diagnosis of a tokenizer for people (terminal) and machines (JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.diagnosis.text import Explanation, TokenDiagnosis, TokenFault
from qwen3_parity.judge.plain import plain
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
    judged = sum(one.right is not None for one in diagnosis.own)
    share = f"{judged} of {len(diagnosis.own)} stages of texts judged on their own inputs"
    if not diagnosis.faults:
        return f"every stage that could be judged alone is right: {share}"
    count = len(diagnosis.faults)
    return f"{count} {'stage is wrong on its' if count == 1 else 'stages are wrong on their'} own inputs; {share}"


def named(fault: TokenFault) -> str:
    """The stage, and what is judged with it."""
    return f"tokenizer.{fault.stage}" + (f" (with {', '.join(fault.others)})" if fault.others else "")


def lines(fault: TokenFault) -> list[str]:
    """How many texts, the first of them, and what explains it."""
    worst = fault.wrong[0]
    count = len(fault.wrong) + len(fault.right)
    out = [f"  wrong in {len(fault.wrong)} of {count} texts, first in {worst.message.name!a}"]
    ours, right = _difference(worst)
    out += [f"    yours: {ours}", f"    right: {right}"]
    for one in fault.explanations[:_SHOWN]:
        out += _explanation(one)
    if len(fault.explanations) > _SHOWN:
        others = sorted({one.name for one in fault.explanations[_SHOWN:]})
        out.append(f"  these texts do not tell it from: {', '.join(others)}")
    if not fault.explanations:
        out.append("  no known mistake gives these values")
    return out


def _explanation(one: Explanation) -> list[str]:
    doubt = f", though {one.seen} of {one.tried} right texts would be wrong too" if one.seen else ""
    return [
        f"  {one.name}: {one.says}",
        f"    reproduces your {one.stage.replace('_', '-')} in {one.whole} of {one.of} texts{doubt}",
        f"    fix: {one.fix}",
    ]


def _difference(verdict: StageVerdict) -> tuple[str, str]:
    """Both values around their first difference, escaped."""
    ours, right = _as_text(verdict, verdict.actual), _as_text(verdict, verdict.expected)
    if ours == right:  # the same texts at other places
        ours, right = verdict.actual, verdict.expected
    path = ""
    while isinstance(ours, tuple) and isinstance(right, tuple):
        at = next((n for n, (a, b) in enumerate(zip(ours, right, strict=False)) if a != b), min(len(ours), len(right)))
        if at < min(len(ours), len(right)) and isinstance(ours[at], tuple | str | bytes) and len(ours[at]) > 3:
            path, ours, right = f"{path}[{at}]", ours[at], right[at]
            continue
        return tuple(f"{path}[{at}] {_part(side, at)}" for side in (ours, right))  # type: ignore[return-value]
    if isinstance(ours, str | bytes) and isinstance(right, str | bytes):
        at = next((n for n, (a, b) in enumerate(zip(ours, right, strict=False)) if a != b), min(len(ours), len(right)))
        begin = max(0, at - _AROUND)
        return tuple(f"{path}[{begin}:] {side[begin : at + _AROUND]!a}" for side in (ours, right))  # type: ignore[return-value]
    return f"{path} {ours!a}", f"{path} {right!a}"


def _as_text(verdict: StageVerdict, value: Any) -> Any:
    """Pre-tokens as what they hold, other values as they are."""
    if verdict.stage != "pre_tokens" or "normalized" not in verdict.inputs:
        return value
    pairs = zip(verdict.inputs["normalized"], value, strict=False)
    return tuple(tuple(text[piece.begin : piece.end] for piece in pieces) for text, pieces in pairs)


def _part(side: Sequence[Any], at: int) -> str:
    some = side[at : at + _SHOWN]
    text = ", ".join(ascii(tuple(one) if isinstance(one, tuple) else one) for one in some) or "nothing more"
    return text if len(some) == len(side) - at else f"{text}, …"


def to_json(diagnosis: TokenDiagnosis) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers."""
    return diagnosis.verdicts.to_json() | {
        "faults": [
            {
                "stage": fault.stage,
                "others": list(fault.others),
                "texts": [one.message.name for one in fault.wrong],
                "of": len(fault.wrong) + len(fault.right),
                "yours": _difference(fault.wrong[0])[0],
                "right": _difference(fault.wrong[0])[1],
                "explanations": [plain(asdict(one)) for one in fault.explanations],
            }
            for fault in diagnosis.faults
        ],
        "judged_alone": sum(one.right is not None for one in diagnosis.own),
    }
