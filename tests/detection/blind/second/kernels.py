"""Attention kernels of others: heads, scales, softmaxes, half precision, and how heads are put together."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.softmaxes import probabilities
from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

_TILE = 2


def tiled(patch: Patch) -> None:
    """In decode steps a tile of 2 query heads reads the KV head of its first one, also across a group's edge."""

    def heads(x: torch.Tensor, groups: int) -> torch.Tensor:
        query = torch.arange(x.shape[1] * groups)
        return x[:, query // _TILE * _TILE // groups]

    def scores(plain: Any, q: torch.Tensor, k: torch.Tensor, scaling: float, groups: int) -> Any:
        return plain(q, heads(k, groups), scaling, 1) if q.shape[2] == 1 else plain(q, k, scaling, groups)

    def context(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        return plain(probs, heads(v, groups), 1) if probs.shape[2] == 1 else plain(probs, v, groups)

    patch.function(code.scaled_scores, scores)
    patch.function(code.weighted_values, context)


def repeated_as_a_whole(patch: Patch) -> None:
    patch.function(code.repeat_kv, lambda _plain, x, groups: x.repeat(1, groups, 1, 1))


def one_more_than_the_largest(scores: torch.Tensor) -> torch.Tensor:
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / (1.0 + weights.sum(-1, keepdim=True))


def padded_width(patch: Patch) -> None:
    """Heads are padded to a multiple of 64 for the kernel, which takes its scale from what it gets."""
    for attention in patch.attentions():
        patch.setattr(attention, "scaling", (-(-attention.head_dim // 64) * 64) ** -0.5)


def in_bfloat16(scores: torch.Tensor) -> torch.Tensor:
    """The mask's lowest number stays finite, as bfloat16's own would."""
    lowest = torch.finfo(torch.bfloat16).min
    return scores.clamp(min=lowest).bfloat16().softmax(-1).to(scores.dtype)


def half_products(plain: Any, q: torch.Tensor, k: torch.Tensor, scaling: float, groups: int) -> torch.Tensor:
    products: torch.Tensor = plain(q, k, 1.0, groups).half()
    return (products * scaling).to(q.dtype)


def dropping(patch: Patch) -> None:
    draw = torch.Generator().manual_seed(3)

    def around(plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
        probs: torch.Tensor = plain(scores, mask, dtype)
        share = patch.attentions()[0].attention_dropout
        dropped: torch.Tensor = probs * (torch.rand(probs.shape, generator=draw) >= share) / (1 - share)
        return dropped

    patch.function(code.probabilities, around)


def not_transposed(_plain: Any, probs: torch.Tensor, value: torch.Tensor, groups: int) -> torch.Tensor:
    context = torch.matmul(probs, code.repeat_kv(value, groups))
    batch, heads, query, dim = context.shape
    return context.reshape(batch, query, heads, dim)


_STEPS = "decoder/ragged_decode encdec/ragged"
_SCORES, _PROBS, _CONTEXT = "merged_attn.scores", "merged_attn.probs", "merged_attn.context"

ROWS = (
    row("D036", "a tile of query heads that crosses the edge of a group reads one KV head in decode steps",
        "FlashML-org/FreeToken#177", "grouped heads", _STEPS, tiled, f"{_SCORES} {_CONTEXT}"),
    row("D037", "KV heads are repeated as a whole, 0 1 0 1, instead of one by one, 0 0 1 1", "onnx/onnx#7274",
        "grouped heads", "decoder/head_dim_64_ragged decoder/plain", repeated_as_a_whole, f"{_SCORES} {_CONTEXT}"),
    row("D038", "1 is added to the softmax's denominator behind the subtraction of the largest score",
        "kyegomez/AttentionIsOFFByOne#5", "softmax", "encdec/unrotated decoder/plain",
        probabilities(one_more_than_the_largest), f"{_PROBS} self_attn.probs"),
    row("D039", "the scale is that of the width to which heads were padded", "intel/ipex-llm#12619", "scale",
        "encdec/qwen2 decoder/plain", padded_width, f"{_SCORES} self_attn.scores"),
    row("D040", "the softmax runs in bfloat16", "tinygrad/tinygrad#12280", "half precision", _STEPS,
        probabilities(in_bfloat16), f"{_PROBS} self_attn.probs"),
    row("D041", "products of queries and keys are held in float16 before they are scaled",
        "philipturner/metal-flash-attention#8", "half precision", "decoder/head_dim_64 encdec/ragged",
        lambda patch: patch.function(code.scaled_scores, half_products), f"{_SCORES} self_attn.scores"),
    row("D042", "attention's dropout stays on in inference", "suno-ai/bark#662", "dropout", "encdec/unpadded",
        dropping, f"{_PROBS} self_attn.probs"),
    row("D043", "the heads' contexts are put together without a transpose", "jsbaan/transformer-from-scratch#6",
        "layout", "decoder/ragged_decode decoder/head_dim_64",
        lambda patch: patch.function(code.weighted_values, not_transposed), _CONTEXT),
)  # fmt: skip
