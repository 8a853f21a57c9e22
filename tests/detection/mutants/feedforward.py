"""Wrong feed-forward blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec.mlp import Qwen3MLP

ACT = words("mlp.act")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
SQUARE = ("encdec/qwen2",)


def blocks(change: Callable[[Patch, Any], None], layers: slice = slice(None)) -> Seed:
    """`change(patch, block)` of every feed-forward block."""

    def seed(patch: Patch) -> None:
        for layer in patch.layers()[layers]:
            change(patch, layer.mlp)

    return seed


def exchanged(patch: Patch, block: Any) -> None:
    gate, up = block.gate_proj, block.up_proj
    patch.setattr(block, "gate_proj", up)
    patch.setattr(block, "up_proj", gate)


def interleaved(patch: Patch, block: Any) -> None:
    """A fused [gate; up] whose rows are read by turns."""
    both = torch.cat((block.gate_proj.weight, block.up_proj.weight)).detach().clone()
    patch.change(block.gate_proj.weight, both[::2])
    patch.change(block.up_proj.weight, both[1::2])


def transposed(patch: Patch, block: Any) -> None:
    patch.change(block.down_proj.weight, block.down_proj.weight.detach().T.clone())


def row_lost(patch: Patch, block: Any) -> None:
    weight = block.down_proj.weight.detach().clone()
    weight[-1] = 0
    patch.change(block.down_proj.weight, weight)


def exchanged_in_steps(patch: Patch) -> None:
    def forward(block: Any, x: torch.Tensor) -> Any:
        gate, up = block.gate_proj(x), block.up_proj(x)
        return block.down_proj(functional.silu(gate) * up if x.shape[1] > 1 else functional.silu(up) * gate)

    patch.setattr(Qwen3MLP, "forward", forward)


MUTANTS = (
    Mutant("MLP-01/weights", "gate's and up's weights exchanged", blocks(exchanged), words("mlp.gate_proj mlp.up_proj"),
           words("weight.other_tensor"), BOTH),
    Mutant("MLP-01/steps", "silu(up) · gate in decode steps alone", exchanged_in_steps, ACT,
           words("mlp.gate_up_exchanged"), BOTH[:3]),
    Mutant("MLP-08", "down_proj transposed", blocks(transposed), words("mlp.down_proj"), words("weight.transposed"),
           SQUARE),
    Mutant("own/mlp-fused", "rows of a fused [gate; up] taken by turns", blocks(interleaved),
           words("mlp.gate_proj mlp.up_proj"), words("weight.fused_layout weight.permuted weight.unknown"), BOTH),
    Mutant("own/mlp-row", "the last row of down_proj is 0", blocks(row_lost, slice(1, 2)), words("mlp.down_proj"),
           words("weight.unknown fit.concentrated"), (BOTH[0], BOTH[3])),
)  # fmt: skip
