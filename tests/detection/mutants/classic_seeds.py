"""How wrong code is put into the classic encoder, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import classic_attention
from qwen3_encdec.transformer_encoder import (
    MultiHeadSelfAttention,
    PositionWiseFeedForward,
    TransformerEncoder,
    TransformerEncoderBlock,
)

Norm = Callable[[torch.Tensor, nn.LayerNorm], torch.Tensor]


def normed(norm: Norm) -> Seed:
    """Every LayerNorm computed by `norm`."""

    def seed(patch: Patch) -> None:
        for module in patch.model.modules():
            if isinstance(module, nn.LayerNorm):
                patch.setattr(module, "forward", lambda x, m=module: norm(x, m))

    return seed


def by(divisor: Callable[[torch.Tensor, float], torch.Tensor]) -> Seed:
    """LayerNorm that divides deviations by something else."""
    return normed(lambda x, m: m.weight * (x - x.mean(-1, keepdim=True)) / divisor(x, m.eps) + m.bias)


def eps(value: float) -> Seed:
    """Another eps in the layers: behind the last one, numbers are too large to show it."""

    def seed(patch: Patch) -> None:
        for layer in patch.model.layers:
            patch.setattr(layer.norm1, "eps", value)
            patch.setattr(layer.norm2, "eps", value)

    return seed


def rms(x: torch.Tensor, m: nn.LayerNorm) -> torch.Tensor:
    return m.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m.eps) + m.bias


def blocks(forward: Callable[..., torch.Tensor]) -> Seed:
    """Every block computed by `forward(block, x, attend)`, `attend` its attention with the padding filled in."""

    def run(block: Any, x: torch.Tensor, mask: Any = None, return_attention: bool = False) -> Any:
        return forward(block, x, lambda y: block.self_attn(y, mask)[0]), None

    return lambda patch: patch.setattr(TransformerEncoderBlock, "forward", run)


def post(patch: Patch) -> None:
    for layer in patch.model.layers:
        patch.setattr(layer, "pre_norm", False)


def pre(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = x + attend(block.norm1(x))
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def stream_normed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = block.norm1(x)
    x = x + attend(x)
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def branch_unnormed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    block.norm1(x)
    x = x + attend(x)
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def sum_unnormed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = x + attend(x)
    result: torch.Tensor = block.norm2(x + block.feed_forward(block.norm1(x)))
    return result


def last_norm_missing(patch: Patch) -> None:
    patch.setattr(patch.model, "norm", lambda x: x)


def last_norm_extra(patch: Patch) -> None:
    last = patch.model.layers[-1].norm2
    patch.setattr(patch.model, "norm", lambda x: functional.layer_norm(x, x.shape[-1:], last.weight, last.bias))


def scale(change: Callable[[float], float]) -> Seed:
    return lambda patch: patch.setattr(patch.model, "scale", change(patch.model.scale))


def sum_scaled(patch: Patch) -> None:
    """(tokens + positions) scaled together: positions are scaled behind their tap."""
    model = patch.model
    patch.given(model.dropout, lambda x: x + (model.scale - 1) * model.embed_positions.weight[: x.shape[1]])


def positions(change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """Rows of the table at `change(slots [batch, seq], mask [batch, seq])`."""

    def seed(patch: Patch) -> None:
        seen: list[torch.Tensor] = []

        def forward(plain: Any, model: Any, ids: torch.Tensor, mask: Any = None, *rest: Any) -> Any:
            seen[:] = [torch.ones_like(ids) if mask is None else mask.long()]
            return plain(model, ids, mask, *rest)

        def rows(plain: Any, slots: torch.Tensor) -> Any:
            return plain(change(slots.expand(seen[0].shape), seen[0]))

        patch.wrap(TransformerEncoder, "forward", forward)
        patch.wrap(patch.model.embed_positions, "forward", rows)

    return seed


def split(order: str, thirds: tuple[int, int, int] = (0, 1, 2)) -> Seed:
    """The fused projection cut as `order` says: "phd" is right (part, head, dim)."""

    def cut(attn: Any, qkv: torch.Tensor) -> Any:
        sizes = {"p": 3, "h": attn.num_heads, "d": attn.head_dim}
        parts = qkv.view(*qkv.shape[:2], *(sizes[one] for one in order))
        p, h, d = (2 + order.index(one) for one in "phd")
        found = parts.permute(p, 0, h, 1, d)
        return tuple(found[third] for third in thirds)

    return lambda patch: patch.setattr(MultiHeadSelfAttention, "split_heads", cut)


def scores(factor: Callable[[int, int], float]) -> Seed:
    """Scores times `factor(head_dim, hidden)`."""

    def computed(plain: Any, q: torch.Tensor, k: torch.Tensor) -> Any:
        return torch.matmul(q, k.transpose(2, 3)) * factor(q.shape[-1], q.shape[-1] * q.shape[1])

    return lambda patch: patch.function(classic_attention.scaled_scores, computed)


def masks(change: Callable[[torch.Tensor], torch.Tensor | None]) -> Seed:
    """Another padding mask, True = padding, in every attention."""

    def attend(plain: Any, attn: Any, x: torch.Tensor, mask: Any = None, *rest: Any) -> Any:
        return plain(attn, x, mask if mask is None else change(mask), *rest)

    return lambda patch: patch.wrap(MultiHeadSelfAttention, "forward", attend)


def ignored(patch: Patch) -> None:
    """The mask is made and never used: the softmax sees every key."""
    patch.function(classic_attention.probabilities, lambda plain, found, hidden: functional.softmax(found, dim=-1))


def activated(function: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    def seed(patch: Patch) -> None:
        for module in patch.model.modules():
            if isinstance(module, PositionWiseFeedForward):
                patch.setattr(module, "activation", function)

    return seed


def without_biases(*names: str) -> Seed:
    """Linears of these names without their biases."""

    def seed(patch: Patch) -> None:
        for layer in patch.model.layers:
            for name in names:
                module = layer.get_submodule(name)
                patch.setattr(module, "forward", lambda x, m=module: functional.linear(x, m.weight))

    return seed


def norms_exchanged(patch: Patch) -> None:
    for layer in patch.model.layers:
        one, two = layer.norm1, layer.norm2
        patch.setattr(one, "forward", lambda x, m=two: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps))
        patch.setattr(two, "forward", lambda x, m=one: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps))


def variance(x: torch.Tensor, unbiased: bool = False) -> torch.Tensor:
    return x.var(-1, keepdim=True, unbiased=unbiased)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh")
