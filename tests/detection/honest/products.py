"""Scores and contexts in other orders: where the scale goes, how KV heads are shared, what sums are rounded to."""

from __future__ import annotations

from typing import Any

import torch

from detection.honest.attending import attention, groups_of, our_context, our_scores
from detection.honest.ours import ours
from detection.honest.variation import Variation, float32_alone

Tensor = torch.Tensor


def _folded(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    return our_scores(query * scaling, key, 1.0)


def _shared_scale(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    return our_scores(query * scaling**0.5, key * scaling**0.5, 1.0)


def _divided(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    return our_scores(query, key, 1.0) / (1 / scaling)


def _grouped(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    batch, heads, length, dim = query.shape
    grouped = query.view(batch, key.shape[1], heads // key.shape[1], length, dim)
    return torch.einsum("bkgqd,bksd->bkgqs", grouped, key).reshape(batch, heads, length, -1) * scaling


def _expanded(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    batch, kv_heads, length, dim = key.shape
    view = key[:, :, None].expand(batch, kv_heads, groups_of(query, key), length, dim)
    return torch.matmul(query, view.reshape(batch, -1, length, dim).transpose(2, 3)) * scaling


def _wide_scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    return our_scores(query.double(), key.double(), scaling).to(query.dtype)


def _grouped_context(probs: Tensor, value: Tensor) -> Tensor:
    batch, heads, length, _ = probs.shape
    grouped = probs.view(batch, value.shape[1], heads // value.shape[1], length, -1)
    return torch.einsum("bkgqs,bksd->bqkgd", grouped, value).reshape(batch, length, heads, -1)


def _wide_context(probs: Tensor, value: Tensor) -> Tensor:
    return our_context(probs.double(), value.double()).to(probs.dtype)


def _part(name: str, says: str, *, half: bool = False, **parts: Any) -> Variation:
    """`half`: the cast points are ours, so that bfloat16 is the same network too."""
    build = ours(attention(name, **parts))
    return Variation(name, says, build) if half else Variation(name, says, build, float32_alone)


VARIATIONS = (
    _part("scale_in_q", "queries are scaled, not scores", scores=_folded),
    _part("scale_shared", "queries and keys are each scaled by the root of the scale", scores=_shared_scale),
    _part("scale_divides", "scores are divided by the root of head_dim", scores=_divided),
    _part("gqa_grouped", "query heads of one KV head in one einsum", scores=_grouped, context=_grouped_context),
    _part("gqa_expanded", "KV heads repeated as an expanded view", scores=_expanded, half=True),
    _part("products_float64", "scores and contexts summed in float64", scores=_wide_scores, context=_wide_context),
)
