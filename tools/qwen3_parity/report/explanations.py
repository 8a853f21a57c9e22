"""A mistake that reproduces what is wrong at one place, for people and machines: the same for taps and for texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.judge.plain import plain

_SOME = 0.005
"""The part of the right cells from which on it is told that they would be wrong."""


def lines(explanation: Explanation, evidence: str, where: str = "") -> list[str]:
    """The mistake, how well it reproduces what is wrong, and what to do."""
    kind = " (fitted to each tap)" if explanation.fitted else ""
    says = f"  {explanation.name}{kind}: {explanation.says}{where}"
    return [says, f"    {evidence}", *([f"    fix: {explanation.fix}"] if explanation.fix else [])]


def in_taps(explanation: Explanation, whose: str) -> str:
    """How near a mistake comes to the numbers, at how many taps."""
    taps = f"{explanation.whole} of {explanation.of} taps"
    if explanation.partly and explanation.whole != explanation.of:
        taps = f"the wrong cells of {explanation.partly} and all of {taps}"
    contradictions = [f"{explanation.doubted} right taps"] if explanation.doubted else []
    contradictions += [f"{explanation.spoiled:.0%} of a tap's right cells"] if explanation.spoiled >= _SOME else []
    near = f"reproduces {whose} numbers within {explanation.share:.2g} of the budget at {taps}"
    return near + _doubt(" and ".join(contradictions))


def in_texts(explanation: Explanation) -> str:
    """In how many texts a mistake gives the candidate's values; its stage may be another one than the fault's."""
    stage = explanation.name.partition(".")[0].replace("_", "-")
    count = explanation.contradicted
    texts = f"{count} of {explanation.passing} right texts" if count else ""
    return f"reproduces your {stage} in {explanation.whole} of {explanation.of} texts{_doubt(texts)}"


def _doubt(contradictions: str) -> str:
    return f", though {contradictions} would be wrong too" if contradictions else ""


def to_json(explanation: Explanation) -> Any:
    """Plain dicts, lists, strings and numbers."""
    rank = explanation.rank
    fields = {
        name: value for name, value in asdict(explanation).items() if name not in ("rank", "contradicting", "part")
    }
    return plain(fields | {"kind": rank.kind.word, "order": rank.order})
