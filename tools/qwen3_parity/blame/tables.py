"""The cos and sin of a run by themselves: no weights are needed to say whether they belong to their positions."""

from __future__ import annotations

from qwen3_golden import Recording, pb
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.judge.op_verdict import OpVerdict


def wrong_tables(candidate: Recording, golden: Recording) -> dict[tuple[str, int], OpVerdict]:
    """The cos and sin of a candidate that are not those of its own positions and frequencies, by name and step."""
    if golden.case.mode not in (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER, pb.BLOCK):
        return {}
    judge = TapJudge.of(candidate, {}, golden)
    alone = (judge.alone(item)[0] for item in judge.taps() if judge.op(item) in ("cos", "sin"))
    return {(verdict.name, verdict.step): verdict for verdict in alone if not (verdict.reason or verdict.passed)}
