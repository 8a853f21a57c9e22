"""An attention function that records what lives between modules, and calls another one for the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

from qwen3_reference.binding import SITES
from qwen3_reference.torch_tensors import visible

Attention = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
Scores = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def eager_scores(query: torch.Tensor, key: torch.Tensor, scaling: float) -> torch.Tensor:
    """`query · repeat_kv(key)ᵀ · scaling`, with the very operations of HF's eager attention, so with its bits."""
    batch, kv_heads, length, width = key.shape
    groups = query.shape[1] // kv_heads
    repeated = key[:, :, None].expand(batch, kv_heads, groups, length, width).reshape(batch, -1, length, width)
    return torch.matmul(query, repeated.transpose(2, 3)).mul_(scaling)  # in place: new memory costs more than the sum


def recording_attention(
    name: str, inner: Attention, *, materialise: bool = True, scores: Scores = eager_scores
) -> None:
    """Register `inner` under `name` as an attention function that records; set a model's `attn_implementation` to it.

    `inner(module, query, key, value, mask, ...)` gets `query[batch, heads, query, head_dim]`, keys and values
    `[batch, kv_heads, key, head_dim]` in the order [decoder ; encoder], and returns `context[batch, query, heads,
    head_dim]` and the probabilities or None. `materialise=False`: no scores and no probs (SDPA never has them).
    `scores(query, key, scaling)` is how `inner` makes its scores, which it shows nobody: they are made once more. The
    name also gets HF's eager mask builder: one without a builder is given no mask at all, silently.
    """

    def attend(
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        site = SITES.get(module)
        if site is not None:
            decoder_length = key.shape[2] - site.encoder_length
            site.emit("query", query)
            site.emit("key", key[:, :, decoder_length - query.shape[2] : decoder_length])
            site.emit("value", value)
            site.emit("cache_keys", key[:, :, :decoder_length])
            site.emit("cache_values", value[:, :, :decoder_length])
            if site.encoder_length:
                site.emit("cache_encoder_keys", key[:, :, decoder_length:])
                site.emit("cache_encoder_values", value[:, :, decoder_length:])
            site.emit("mask", visible(attention_mask, query, key))
            if materialise and "scores" in site.names:
                scaling = kwargs.get("scaling")
                scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
                site.emit("scores", scores(query, key, scale))
        context, probabilities = inner(module, query, key, value, attention_mask, **kwargs)
        if site is not None:
            if materialise and probabilities is not None:
                site.emit("probs", probabilities)
            site.emit("context", context)
        return context, probabilities

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, eager_mask)
