"""The weights that a candidate computed with, where the golden's run rounded them and the candidate is in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qwen3_golden import Array, Recording, pb
from qwen3_parity.blame.replay import replay
from qwen3_parity.judge.match import digest, parameters_differ
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdicts
from qwen3_reference.checkpoints.weights import Weights

UNROUNDED = "its weights are the checkpoint's float32 ones, which the golden's run rounded: ops are judged on those"
_HALF = (pb.ARITHMETIC_BF16, pb.ARITHMETIC_F16)


def held(candidate: Recording, weights: Mapping[str, Array], golden: Recording) -> Mapping[str, Array]:
    """The checkpoint's own float32 weights where more of a float32 candidate's ops are right on them; else `weights`.

    Whoever loads a float32 checkpoint in float32 rounds nothing, though the golden's run in half precision did.
    """
    differ = golden.run.arithmetic in _HALF and candidate.run.arithmetic == pb.ARITHMETIC_F32
    unrounded = weights.before_rounding if differ and isinstance(weights, Weights) else None
    if unrounded is None or _wrong(candidate, unrounded, golden) >= _wrong(candidate, weights, golden):
        return weights
    return unrounded


def _wrong(candidate: Recording, weights: Mapping[str, Array], golden: Recording) -> int:
    return sum(not verdict.passed for verdict in replay(candidate, weights, golden))


def on_held(
    run: Verdicts, alone: Sequence[OpVerdict], candidate: Recording, golden: Recording, mine: Mapping[str, Array]
) -> Verdicts:
    """The verdicts on a run with weights of its own, `mine`, which the golden's run rounded: their bytes are others.

    `alone` are those on its ops, on the same weights: the rows of a table that are right are no copies of the golden's.
    """
    passed = {(verdict.name, verdict.step) for verdict in alone if verdict.passed and not verdict.reason}
    taps = [
        replace(tap, problem=None) if tap.exact and tap.op == "embedding" and (tap.name, tap.step) in passed else tap
        for tap in run.taps
    ]
    digests = {item.name: item.sha256 for item in candidate.parameters if item.dtype == pb.F32 and item.name in mine}
    unrounded = [name for name, sha256 in digests.items() if sha256 == digest(mine[name])]
    before, after = parameters_differ(candidate, golden), parameters_differ(candidate, golden, unrounded)
    rest = [problem for problem in run.structural if problem not in before]
    return replace(run, taps=taps, structural=[*after, *rest], notes=(*run.notes, UNROUNDED))
