"""Feed-forward blocks of others: gates that are sums, tails that nobody computes, activations elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.blocks import gated
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import rows
from qwen3_encdec.transformer_encoder import PositionWiseFeedForward

_VECTORS = (16, 8)
_FAST = 1.773


def one_more(act: Callable[[torch.Tensor], torch.Tensor], gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """A fused multiply-add adds the activated gate once more."""
    activated = act(gate)
    return torch.addcmul(activated, activated, up)


def tail_left(act: Callable[[torch.Tensor], torch.Tensor], gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Vectors run while they end before the last channel, and what is left over is never computed."""
    size, done = gate.shape[-1], 0
    for vector in _VECTORS:
        while done + vector < size:
            done += vector
    return torch.nn.functional.pad(act(gate[..., :done]) * up[..., :done], (0, size - done))


def activated_behind(patch: Patch) -> None:
    """The activation is on what the second layer gives, and nothing stands between the two."""

    def forward(block: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = block.activation(block.linear2(block.linear1(x)))
        return result

    patch.setattr(PositionWiseFeedForward, "forward", forward)


def fast_gelu(patch: Patch) -> None:
    for layer in patch.model.layers:
        patch.setattr(layer.feed_forward, "activation", lambda x: x * torch.sigmoid(_FAST * x))


def halves_of_interleaved(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rows of gate and up lie by turns, and the first half of them is taken for gate."""
    fused = torch.stack(list(weights.values()), dim=1).flatten(0, 1)
    return dict(zip(weights, fused.chunk(2), strict=True))


_GATE_UP = ("mlp.gate_proj", "mlp.up_proj")

ROWS = (
    row("F025", "the activated gate is multiplied by up + 1", "vllm-project/vllm#42578", "gate",
        "decoder/ragged_decode encdec/ragged", gated(one_more), "mlp.act"),
    row("F026", "channels behind the last whole vector are never computed, and the last vector counts as none",
        "nntrainer/nntrainer#3494", "gate", "decoder/multiples_of_256 decoder/plain", gated(tail_left), "mlp.act"),
    row("F027", "the activation stands behind the second layer instead of between the two",
        "spring-media/TransformerTTS#102", "activation", "classic/post_norm classic/bert", activated_behind,
        "feed_forward.act ff_residual"),
    row("F028", "the activated gate is added to up instead of multiplied", "LeronQ/STGCN-Pytorch#1", "gate",
        "encdec/unpadded decoder/plain", gated(lambda act, gate, up: act(gate) + up), "mlp.act"),
    row("F029", "gelu is a sigmoid of 1.773 x", "ml-explore/mlx#744", "activation", "classic/bert classic/pre_norm",
        fast_gelu, "feed_forward.act"),
    row("F030", "rows of gate and up that lie by turns are cut in halves", "vllm-project/vllm#29273", "gate",
        "decoder/plain_two_rows encdec/ragged", rows(halves_of_interleaved, *_GATE_UP), _GATE_UP),
)  # fmt: skip
