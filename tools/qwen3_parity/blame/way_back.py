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
    found = _LAYER.match(name)
    if found:
        return found.group()
    return name.removesuffix(".weight").replace("lm_head", "logits")


def excused(
    own: Sequence[OpVerdict], reads: Mapping[tuple[str, int], Sequence[str]], *, training: bool
) -> list[OpVerdict]:
    """The verdicts, gradients that go back through a fault not judged; `reads` has the inputs of each (tap, step)."""
    if not training:
        return list(own)
    faulty = {_region(one.name) for one in own if not one.passed and not one.name.startswith((_GRADIENT, "loss"))}
    return [_excuse(one) if faulty & _regions(one, reads) else one for one in own]


def _regions(one: OpVerdict, reads: Mapping[tuple[str, int], Sequence[str]]) -> set[str]:
    if not one.name.startswith(_GRADIENT) or one.op in _OF_FORWARD_ALONE:
        return set()
    return {_region(name) for name in (one.name, *one.others, *reads.get((one.name, one.step), ()))}


def _excuse(one: OpVerdict) -> OpVerdict:
    return replace(one, errors=NONE, share=0.0, reason=REASON)
