"""The op tier: one operation alone, on inputs that whole runs seldom meet, computed by Hugging Face's own code.

By the convention of golden/README.md: `case.op` names the operation, `case.attributes` its numbers; what each op has
stands in `qwen3_golden.op_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from qwen3_golden import Array
from qwen3_golden.op_table import OP_TABLE


@dataclass(frozen=True)
class OpCase:
    """One op on given tensors: `operands` and `results` in the order of the op's row, None for an absent operand."""

    name: str
    op: str
    description: str
    operands: tuple[torch.Tensor | None, ...]
    results: tuple[torch.Tensor, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)
    exposes: tuple[str, ...] = ()
    judged: Array | None = None

    @property
    def operands_by_name(self) -> dict[str, torch.Tensor]:
        """The operands by name."""
        pairs = zip(OP_TABLE[self.op].operands, self.operands, strict=True)
        return {row.name: value for row, value in pairs if value is not None}

    @property
    def outputs(self) -> dict[str, torch.Tensor]:
        """The results by name."""
        return {row.name: value for row, value in zip(OP_TABLE[self.op].outputs, self.results, strict=True)}
