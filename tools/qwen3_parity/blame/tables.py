"""The cos and sin of a run by themselves: no weights are needed to say whether they belong to their positions."""

from __future__ import annotations

from qwen3_golden import Recording, pb
from qwen3_parity.blame.replay import gather, judge
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.scope import Scope


def wrong_tables(candidate: Recording, golden: Recording) -> dict[tuple[str, int], OpVerdict]:
    """The cos and sin of a candidate that are not those of its own positions and frequencies, by name and step."""
    if golden.case.mode not in (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER, pb.BLOCK):
        return {}
    values, scope = Values(candidate, {}, golden), Scope(golden)
    wrong = {}
    for item in candidate:
        place = values.place(item.info.name)
        if place is None or place.op not in ("cos", "sin"):
            continue
        evidence = gather(values, item, scope)
        if not isinstance(evidence, str):
            verdict = judge(OpVerdict(*item.key, place.op), evidence)
            if not verdict.passed:
                wrong[item.key] = verdict
    return wrong
