"""The op tier: one operation alone, on inputs that whole runs seldom meet, computed by Hugging Face's own code.

By the convention of golden/README.md: `case.op` names the operation, `case.attributes` its numbers; tensors are called
"input.x" (what it is given, op "input"), "parameter.x" (weights, op "parameter") and "output.x". The operands of every
op stand in docs/port-to-another-language.md, "The cases of one op".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from qwen3_golden import Array

Outputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class OpCase:
    """One op on given tensors. `given` holds input.* and parameter.* tensors; `axes` those of the outputs."""

    name: str
    op: str
    description: str
    given: Mapping[str, torch.Tensor]
    outputs: Outputs
    axes: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)
    exposes: tuple[str, ...] = ()
    judged: Array | None = None
