"""A run beyond its budget in which every op is right by itself: what that means, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from qwen3_parity.diagnosis.faults import Blame
from qwen3_parity.diagnosis.own_angles import Angles
from qwen3_parity.judge.budgets import percent
from qwen3_parity.judge.verdict import Verdicts

_FEW = 3


def meaning(verdicts: Verdicts, blame: Blame, angles: Angles | None) -> list[str]:
    """Sentences on a run that is off though no op is; none where an op is wrong, misplaced, or nothing is off.

    `angles` that differ are a cause by themselves, and say so.
    """
    over = [tap for tap in verdicts.taps if tap.shares is not None and not tap.passed]
    if blame.faults or blame.misplaced or not over:
        return []
    first = over[0]
    lines = [
        f"the run leaves its budget first at {first.where} ({first.share:.3g} × used), though no op that could be "
        "judged by itself is wrong: look at what the ops are given, not at how they compute"
    ]
    causes = _unjudged(blame)
    return [*lines, *(causes if causes or angles is not None else _largest(blame))]


def _unjudged(blame: Blame) -> list[str]:
    """Ops that could not be judged: the mistake may be in one of them."""
    reasons: dict[str, list[str]] = {}
    for verdict in blame.alone:
        if verdict.reason and verdict.reason != "nothing but padding":
            reasons.setdefault(verdict.reason, []).append(verdict.name)
    return [_named(reason, list(dict.fromkeys(names))) for reason, names in reasons.items()]


def _named(reason: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    few = ", ".join(names[:_FEW])
    return f"not judged by itself, so the mistake may be there: {few}{more} ({reason}); record what it reads"


def _largest(blame: Blame) -> list[str]:
    judged = [verdict for verdict in blame.alone if not verdict.reason]
    if not judged:
        return ["no op could be judged by itself: record the inputs of the first tap that is off, and run this again"]
    worst = max(judged, key=lambda verdict: verdict.share)
    return [
        f"the roundings of all ops add up to more than the reference's: {worst.name} uses most of its own headroom "
        f"({percent(worst.share)}); sum and multiply there, and in its like, in float32 or wider"
    ]
