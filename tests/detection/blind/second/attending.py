"""Attention kernels of others: whose keys a query head reads, how far along head_dim, and in which memory order."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

_TILE, _BLOCK = 2, 8
"""Query heads of a tile; channels of head_dim that a kernel was written for."""


def all_heads_first(patch: Patch) -> None:
    """The head's offset is a quotient of strides that comes out as 0."""

    def first(x: torch.Tensor) -> torch.Tensor:
        return x[:, :1].expand_as(x)

    patch.function(code.scaled_scores, lambda plain, q, k, *args: plain(first(q), first(k), *args))
    patch.function(code.weighted_values, lambda plain, probs, v, groups: plain(probs, first(v), groups))


def contiguous_values(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
    """Values lie in memory as `[batch, key, heads, dim]` and are read as `[batch, heads, key, dim]`."""
    return plain(probs, v.transpose(1, 2).reshape(v.shape) if probs.shape[2] > 1 else v, groups)


def first_channels(patch: Patch) -> None:
    """The kernel's head_dim is a constant: what lies behind it is neither read nor written."""

    def context(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        return plain(probs, torch.cat((v[..., :_BLOCK], torch.zeros_like(v[..., _BLOCK:])), dim=-1), groups)

    patch.function(code.scaled_scores, lambda plain, q, k, *args: plain(q[..., :_BLOCK], k[..., :_BLOCK], *args))
    patch.function(code.weighted_values, context)


_SCORES, _CONTEXT = "merged_attn.scores self_attn.scores", "merged_attn.context self_attn.context"

ROWS = (
    row("D121", "every head reads the first head's queries, keys and values", "BobMcDear/attorch#14", "kernel heads",
        "encdec/unpadded encoder/ragged", all_heads_first, f"{_SCORES} {_CONTEXT}"),
    row("D122", "values are read without their strides: heads and positions are mixed up",
        "flagos-ai/FlagGems#5896", "strides", "encdec/qwen2 decoder/head_dim_64_ragged",
        lambda patch: patch.function(code.weighted_values, contiguous_values), _CONTEXT),
    row("D123", "attention knows the first 8 channels of a head alone", "triton-lang/triton#621", "strides",
        "decoder/inputs_embeds encoder/ragged", first_channels, f"{_SCORES} {_CONTEXT}"),
)  # fmt: skip
