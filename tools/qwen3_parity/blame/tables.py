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
        spot = values.place(item.info.name)
        if spot is None or spot.op not in ("cos", "sin"):
            continue
        found = gather(values, item, scope)
        if not isinstance(found, str):
            own = judge(OpVerdict(*item.key, spot.op), found)
            if not own.passed:
                wrong[item.key] = own
    return wrong
