"""The mistake behind an array that stands in for one tap: everything else is the golden's, which is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_parity.diagnosis.explain_fault import explain_fault
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.faults import Blame, by_place
from qwen3_parity.diagnosis.search import ENOUGH, Search

_WITHOUT_MISTAKES = (pb.PLUMBING, pb.TOKENIZATION, pb.GRAPH)
"""Cases of which no op has a list of mistakes."""


def mistake_at(golden: Recording, actual: Tensor, weights: Mapping[str, Array]) -> Explained | None:
    """What explains a tap's array that is not the golden's, on the golden's own inputs.

    None where its op is right on them, cannot be computed, or has no known mistakes. `weights` has the case's
    parameters by canonical name. The golden's other layers and steps contradict nothing: they are not of the same code.
    """
    if golden.case.mode in _WITHOUT_MISTAKES:
        return None
    candidate = replace(golden, tensors=[actual if item.key == actual.key else item for item in golden])
    if golden.case.mode == pb.OP:
        return next(iter(diagnose(golden, candidate, weights).faults), None)
    judge = TapJudge.of(candidate, weights, golden)
    if not any(item.key == actual.key for item in judge.taps()):  # an input, or a copy of one
        return None
    verdict, _ = judge.alone(actual)
    faults = by_place([verdict])
    search = Search(work=judge.values.work, until=judge.values.work.done + ENOUGH, pairs=False)
    return explain_fault(Blame([verdict], faults, [], judge), faults[0], search) if faults else None
