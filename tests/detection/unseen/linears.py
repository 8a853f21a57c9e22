"""Linears that sum too little or too much, round what they read, or look up other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.mutant import Seed, attention
from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec.mlp import Qwen3MLP

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`product(x, weight)`, in the place of `x @ weight.T`."""
_RAGGED = "encdec/ragged"


def _forward(name: str, product: Product) -> Seed:
    """The linear `name` of every layer computes `product`."""

    def seed(patch: Patch) -> None:
        for layer in patch.layers():
            linear = _linear(layer, name)
            patch.wrap(linear, "forward", lambda _plain, x, linear=linear: product(x, linear.weight))

    return seed


def _linear(layer: Any, name: str) -> Any:
    """A linear of a layer's attention or of its MLP."""
    owner = layer.mlp if name == "down_proj" else getattr(layer, "self_attn", None) or layer.merged_attn
    return getattr(owner, name)


def _half(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    width = x.shape[-1] // 2
    return functional.linear(x[..., :width], weight[:, :width])


def _in_int8(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    step = x.abs().amax(-1, keepdim=True) / 127
    return functional.linear((x / step).round() * step, weight)


def _whole_chunks(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = functional.linear(x, weight)
    y[:, x.shape[1] // 4 * 4 :] = 0
    return y


def _clamped(block: Any, x: torch.Tensor) -> Any:
    gate, up = block.gate_proj(x).clamp(max=2), block.up_proj(x).clamp(-2, 2)
    return block.down_proj(functional.silu(gate) * up)


def _shard_too_early(patch: Patch) -> None:
    for stack in (patch.model.encoder, patch.model.decoder):
        table = stack.embed_tokens
        second = (table.num_embeddings + 1) // 2

        def look_up(plain: Any, ids: torch.Tensor, second: int = second) -> Any:
            return plain(torch.where(ids >= second, ids - 3, ids))

        patch.wrap(table, "forward", look_up)


def _shards_exchanged(patch: Patch) -> None:
    def change(logits: torch.Tensor) -> torch.Tensor:
        return logits.roll(-(logits.shape[-1] // 2), -1)

    patch.result(patch.model.lm_head, "forward", change)


ROWS = (
    row("X16", "the MLP goes in chunks of 4 tokens: the tokens of the remainder get none",
        _forward("down_proj", _whole_chunks), "mlp.down_proj", ["tail.zero",
        "*: remainder|whole (block|chunk)|multiple of 4"],
        _RAGGED, "logits"),
    row("D3", "the all-reduce behind o_proj is done twice on two ranks",
        _forward("o_proj", lambda x, weight: 2 * functional.linear(x, weight)), attention("o_proj"),
        ["weight.scaled", r"fit.factor: (by|of) 2\b"], _RAGGED, "modules"),
    row("D2", "tensor parallel: the all-reduce behind down_proj is missing, rank 0 alone", _forward("down_proj", _half),
        "mlp.down_proj", ["linear.lost_terms"], _RAGGED, "layer"),
    row("K1", "W8A8: the activations of down_proj are rounded to int8, a scale a token", _forward("down_proj",
        _in_int8),
        "mlp.down_proj", ["*: (activation|input|token|reads).*(int8|8 bits)|(int8|8 bits).*(activation|input|token)"],
        _RAGGED, "layer"),
    row("D5", "SwiGLU is clamped at 2", lambda patch: patch.setattr(Qwen3MLP, "forward", _clamped), "mlp.act",
        ["mlp.clamped", "invariant.clamped"], _RAGGED, "logits"),
    row("E1", "vocabulary-parallel embedding: the second shard starts 3 rows too early", _shard_too_early,
        "encoder.embed_tokens decoder.embed_tokens", ["embedding.other_row", "from.*: 3 rows|id - 3"], _RAGGED,
        "logits"),
    row("E2", "vocabulary-parallel head: shards are gathered in the wrong order", _shards_exchanged, "logits",
        ["weight.permuted", "weight.shards_shuffled", "structure.rows_permuted", "fit.permuted", "from.*: 105"],
        "decoder/ragged_decode", "layer"),
)  # fmt: skip
