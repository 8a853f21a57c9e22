"""A run beyond its budget in which every op is right by itself: what that means, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qwen3_golden import pb
from qwen3_parity.diagnosis.faults import Blame
from qwen3_parity.diagnosis.own_angles import Angles
from qwen3_parity.judge.arithmetic import BY_NAME
from qwen3_parity.judge.budgets import percent
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdicts

_FEW = 3
RIGHT_IN = "every op is right on its own inputs in"
"""How a sentence begins on a run that is right in another arithmetic than the golden's."""
_TYPES: dict[int, str] = {arithmetic: name for name, arithmetic in BY_NAME.items() if name not in ("float64", "other")}
"""Arithmetics that a model can be captured in."""


def meaning(verdicts: Verdicts, blame: Blame, angles: Angles | None) -> list[str]:
    """Sentences on a run that is off though no op is; none where an op is wrong, misplaced, or nothing is off.

    `angles` that differ are a cause by themselves, and say so.
    """
    over = [tap for tap in verdicts.taps if tap.shares is not None and not tap.passed]
    if blame.faults or blame.misplaced or not over:
        return []
    first = over[0]
    lines = [
        f"the run leaves its budget first at {first.where} ({_used(first.share)}), though no op that could be "
        "judged by itself is wrong: look at what the ops are given, not at how they compute"
    ]
    causes = _unjudged(blame)
    return [*lines, *(causes if causes or angles is not None else _largest(blame))]


def _used(share: float) -> str:
    return f"{share:.3g} × used" if math.isfinite(share) else "of which none is large enough"


def meaning_of_graph(verdicts: Verdicts, alone: Sequence[OpVerdict], golden: pb.Arithmetic) -> list[str]:
    """As `meaning`, of a case of mode GRAPH, none of whose slices is wrong; `golden` is the golden's arithmetic."""
    over = [tap for tap in verdicts.taps if not tap.passed and tap.metrics is not None]
    if not over:
        return []
    if verdicts.not_finite:
        return [nobody_judges(verdicts)]
    if mine := other_type(verdicts, golden):
        theirs = _TYPES[golden]
        measure = (
            f"measure the whole run by a golden in {mine}, as `capture --model DIR --ids … --dtype {mine}` makes one "
            "of the same ids"
        )
        if verdicts.results_alone:
            return [
                f"the results alone were recorded, in {mine}, and the golden's run was in {theirs}: what is smaller "
                f"than roundings to {mine} does not show. Of an engine that computes in {theirs} record them before "
                f"they are rounded; else {measure}"
            ]
        return [f"{RIGHT_IN} {mine}, and the golden's run was in {theirs}: {measure}"]
    first = f"the run leaves its budget first at {over[0].where}, though no op that could be judged by itself is wrong"
    unjudged = [verdict.name for verdict in alone if verdict.reason]
    if unjudged:
        reasons = {verdict.reason: None for verdict in alone if verdict.reason}
        return [first, _named("; ".join(reasons), list(dict.fromkeys(unjudged)))]
    return [f"{first}: look at what its ops are given, not at how they compute"]


def nobody_judges(verdicts: Verdicts) -> str:
    """What is said of a run that is not finite, where no slice is to blame for it."""
    return (
        f"NaN or infinities stand first at {verdicts.not_finite[0].where}, and where a slice reads them nobody can "
        "judge it; often a token that sees no key, as padding, divides 0 by 0 in its softmax: give it zeros, or let it "
        "see itself"
    )


def other_type(verdicts: Verdicts, golden: pb.Arithmetic) -> str:
    """The dtype that the candidate computes in where it can be captured in and is not the golden's; empty otherwise."""
    lossy = verdicts.arithmetic == pb.ARITHMETIC_OTHER
    mine = _TYPES.get(verdicts.computed_in if lossy else verdicts.arithmetic, "")
    theirs = _TYPES.get(golden, "")
    return mine if theirs and mine != theirs else ""


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
