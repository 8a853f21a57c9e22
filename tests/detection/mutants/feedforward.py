"""Wrong feed-forward blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec.mlp import Qwen3MLP

Gate = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`gate(gate, up)`: what `down_proj` is given."""

ACT = words("mlp.act")
ACTIVATION = words("mlp.activation")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
SQUARE = ("encdec/qwen2",)


def gated(function: Gate) -> Seed:
    """`function(gate, up)` in the place of `silu(gate) · up`."""

    def forward(block: Any, x: torch.Tensor) -> Any:
        return block.down_proj(function(block.gate_proj(x), block.up_proj(x)))

    return lambda patch: patch.setattr(Qwen3MLP, "forward", forward)


def activated(function: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """Another activation; also in the cases of one op, which build a block of their own."""

    def forward(block: Any, x: torch.Tensor) -> Any:
        return block.down_proj(function(block.gate_proj(x)) * block.up_proj(x))

    return lambda patch: patch.setattr(Qwen3MLP, "forward", forward)


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


def after(name: str, change: Callable[[Any], Any]) -> Callable[[Patch, Any], None]:
    return lambda patch, block: patch.result(block, name, change)


def naive(x: torch.Tensor) -> torch.Tensor:
    return x * x.exp() / (1 + x.exp())


def oai(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate.clamp(max=1.5)) * up.clamp(-1.5, 1.5)


def low(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return (functional.silu(gate.bfloat16()) * up.bfloat16()).to(gate.dtype)


def channel_lost(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    act = functional.silu(gate) * up
    return torch.cat((act[..., :-1], act[..., -1:] * 0), -1)


def late(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate) * up.roll(1, 1)


def in_steps(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate) * up if gate.shape[1] > 1 else functional.silu(up) * gate


MUTANTS = (
    Mutant("MLP-01", "silu(up) · gate", gated(lambda gate, up: functional.silu(up) * gate), ACT,
           words("mlp.gate_up_exchanged"), BOTH),
    Mutant("MLP-01/weights", "gate's and up's weights exchanged", blocks(exchanged), words("mlp.gate_proj mlp.up_proj"),
           words("weight.other_tensor"), BOTH),
    Mutant("MLP-01/steps", "silu(up) · gate in decode steps alone", gated(in_steps), ACT,
           words("mlp.gate_up_exchanged"), BOTH[:3]),
    Mutant("MLP-02", "silu(gate · up)", gated(lambda gate, up: functional.silu(gate * up)), ACT,
           words("mlp.activation_on_product"), BOTH),
    Mutant("MLP-04", "GELU", activated(functional.gelu), ACT, ACTIVATION, (*BOTH, "op/swiglu")),
    Mutant("MLP-04/tanh", "GELU by tanh", activated(lambda x: functional.gelu(x, approximate="tanh")), ACT, ACTIVATION,
           BOTH),
    Mutant("MLP-04/relu", "ReLU", activated(functional.relu), ACT, ACTIVATION, BOTH),
    Mutant("MLP-06", "x · eˣ / (1 + eˣ)", activated(naive), ACT, words("mlp.activation mlp.overflow"), ("op/swiglu",)),
    Mutant("MLP-08", "down_proj transposed", blocks(transposed), words("mlp.down_proj"), words("weight.transposed"),
           SQUARE),
    Mutant("MLP-09", "a bias behind up_proj",
           blocks(after("up_proj", lambda y: y + torch.linspace(-0.2, 0.2, y.shape[-1]))), words("mlp.up_proj"),
           words("weight.extra_bias fit.channel_offset"), BOTH),
    Mutant("MLP-10", "quick GELU", activated(lambda x: x * (1.702 * x).sigmoid()), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-relu2", "ReLU squared", activated(lambda x: x.relu() ** 2), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-sigmoid", "sigmoid (GLU)", activated(torch.sigmoid), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-tanh", "tanh", activated(torch.tanh), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-mish", "Mish", activated(functional.mish), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-hard", "hard swish", activated(functional.hardswish), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-linear", "no activation", gated(lambda gate, up: gate * up), ACT, ACTIVATION, BOTH),
    Mutant("own/mlp-beta", "swish of 1.01", activated(lambda x: x * (1.01 * x).sigmoid()), ACT, words("mlp.activation"),
           BOTH),
    Mutant("own/mlp-no-gate", "silu(up), no product", gated(lambda gate, up: functional.silu(up)), ACT,
           words("mlp.no_gate"), BOTH),
    Mutant("own/mlp-no-up", "silu(gate), no product", gated(lambda gate, up: functional.silu(gate)), ACT,
           words("mlp.no_gate"), BOTH),
    Mutant("own/mlp-both", "silu(gate) · silu(up)", gated(lambda gate, up: functional.silu(gate) * functional.silu(up)),
           ACT, words("mlp.activation_on_both"), BOTH),
    Mutant("own/mlp-sum", "silu(gate) + up", gated(lambda gate, up: functional.silu(gate) + up), ACT, words("mlp.sum"),
           BOTH),
    Mutant("own/mlp-one-more", "silu(gate) · (up + 1)", gated(lambda gate, up: functional.silu(gate) * (up + 1)), ACT,
           words("mlp.up_plus_one"), BOTH),
    Mutant("own/mlp-clamped", "gate and up clamped", gated(oai), ACT, words("mlp.clamped"), BOTH),
    Mutant("own/mlp-bfloat16", "product in bfloat16", gated(low), ACT, words("mlp.half_precision fit.grid"), BOTH),
    Mutant("own/mlp-channel", "the last channel lost", gated(channel_lost), ACT,
           words("fit.concentrated fit.channel_factor"), BOTH),
    Mutant("own/mlp-late", "the token before's up", gated(late), ACT, words("fit.shift mlp.up_shifted"),
           BOTH[:1] + BOTH[3:]),
    Mutant("own/mlp-fused", "rows of a fused [gate; up] taken by turns", blocks(interleaved),
           words("mlp.gate_proj mlp.up_proj"), words("weight.fused_layout weight.permuted weight.unknown"), BOTH),
    Mutant("own/mlp-row", "the last row of down_proj is 0", blocks(row_lost, slice(1, 2)), words("mlp.down_proj"),
           words("weight.unknown fit.concentrated"), (BOTH[0], BOTH[3])),
    Mutant("own/mlp-scaled", "the block's output halved", blocks(after("down_proj", lambda y: y / 2)),
           words("mlp.down_proj"), words("fit.factor weight.scaled"), BOTH),
)  # fmt: skip
