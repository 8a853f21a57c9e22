"""Every tap of a recording judged alone, then beside its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwen3_golden import Array, Recording
from qwen3_parity.blame.absorbed import Reads, absorbed
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.blame.way_back import excused
from qwen3_parity.judge.op_verdict import OpVerdict


def replay(candidate: Recording, weights: Mapping[str, Array], golden: Recording | None = None) -> list[OpVerdict]:
    """Compute every tap of a candidate again, in its order; `weights` by canonical parameter name, as loaded.

    Raises `KeyError` for a parameter that an op needs and `weights` does not have.
    """
    judge = TapJudge.of(candidate, weights, golden)
    alone = [judge.alone(item) for item in judge.taps()]
    return settled([verdict for verdict, _ in alone], {(tap.name, tap.step): names for tap, names in alone}, judge)


def settled(verdicts: Sequence[OpVerdict], reads: Reads, judge: TapJudge) -> list[OpVerdict]:
    """The verdicts on single taps, in their order, after a look at their neighbours; `reads` has each tap's inputs.

    What is right in the kernel that it may be in is right, and what goes back through a fault is not judged.
    """
    return excused(absorbed(verdicts, reads, judge), reads, training=judge.values.case.HasField("training"))
