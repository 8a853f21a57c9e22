"""Gradients that cannot be judged: what they go back through is wrong forward, and its derivative with it.

A wrong op has the derivative of the wrong op. A gradient that is computed again goes back through the right one, so
where forward is at fault, in the same layer or at the same place outside of layers, gradients say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qwen3_parity.judge.op_verdict import NONE, OpVerdict

REASON = "what it goes back through is wrong forward"
_GRADIENT = "gradient."
_LAYER = re.compile(r"(encoder|decoder)\.layers\.\d+\b")
_OF_FORWARD_ALONE = ("loss", "loss_gradient")
"""Ops that follow from the recorded logits and nothing else."""


def _region(name: str) -> str:
    """The layer of a tap, of a gradient or of a parameter's gradient; outside of layers the place itself."""
    name = name.removeprefix(_GRADIENT)
    match = _LAYER.match(name)
    if match:
        return match.group()
    return name.removesuffix(".weight").replace("lm_head", "logits")


def excused(
    verdicts: Sequence[OpVerdict], reads: Mapping[tuple[str, int], Sequence[str]], *, training: bool
) -> list[OpVerdict]:
    """The verdicts, gradients that go back through a fault not judged; `reads` has the inputs of each (tap, step)."""
    if not training:
        return list(verdicts)
    faulty = {
        _region(verdict.name)
        for verdict in verdicts
        if not verdict.passed and not verdict.name.startswith((_GRADIENT, "loss"))
    }
    return [_excuse(verdict) if faulty & _regions(verdict, reads) else verdict for verdict in verdicts]


def _regions(verdict: OpVerdict, reads: Mapping[tuple[str, int], Sequence[str]]) -> set[str]:
    if not verdict.name.startswith(_GRADIENT) or verdict.op in _OF_FORWARD_ALONE:
        return set()
    return {_region(name) for name in (verdict.name, *verdict.others, *reads.get((verdict.name, verdict.step), ()))}


def _excuse(verdict: OpVerdict) -> OpVerdict:
    return replace(verdict, errors=NONE, share=0.0, reason=REASON)
