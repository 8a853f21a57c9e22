"""The attention of the classic encoder between its projections: eager, and torch's fused one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Attention = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, nn.Dropout],
    tuple[torch.Tensor, torch.Tensor | None],
]
"""`attention(query, key, value, hidden, dropout) -> (context, weights | None)`.

Query, key, value and context are `[batch, heads, seq, head_dim]`; `hidden [batch, 1, 1, key]` bool, True = a key that
no query sees, or None; `weights [batch, heads, query, key]` before dropout, None where they are never in memory.
"""


def scaled_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """`query key^T / sqrt(head_dim)`, `[batch, heads, query, key]`."""
    return torch.matmul(query, key.transpose(2, 3)) * float(query.shape[-1] ** -0.5)


def probabilities(scores: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
    """The softmax over keys that are not hidden, of the shape of `scores`."""
    if hidden is not None:
        # The lowest number, not -inf: a row without any visible key would be NaN.
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return nn.functional.softmax(scores, dim=-1)


def eager_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None, dropout: nn.Dropout
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scores, softmax and weighted values one after the other; see `Attention`."""
    weights = probabilities(scaled_scores(query, key), hidden)
    return torch.matmul(dropout(weights), value), weights


def sdpa_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None, dropout: nn.Dropout
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """torch's fused attention, which has no weights; see `Attention`."""
    mask = None
    if hidden is not None:
        mask = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
        mask = mask.masked_fill(hidden, torch.finfo(query.dtype).min).expand(-1, -1, query.shape[2], -1)
    share = dropout.p if dropout.training else 0.0
    context = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=share)
    return context, None


ATTENTIONS: dict[str, Attention] = {"eager": eager_attention, "sdpa": sdpa_attention}
"""By the names that Hugging Face has for them. An attention that returns its weights is always the eager one."""
