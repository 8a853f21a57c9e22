"""The softmax in other forms, over keys hidden in other ways; a row that sees no key stays finite in all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.honest.attending import Softmax, attending, attention, groups_of, our_scores, our_softmax
from detection.honest.ours import ours
from detection.honest.variation import Variation, float32_alone
from qwen3_encdec.attention import repeat_kv

Tensor = torch.Tensor

_LOG2_E = 1.4426950408889634
_BLOCK = 4
"""Keys that a blocked softmax takes at a time."""


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Float32 scores, -inf where hidden."""
    return scores.float().masked_fill(mask != 0, -torch.inf)


def _normalised(weights: Tensor, dtype: torch.dtype) -> Tensor:
    return (weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)).to(dtype)


def _shifted_by(shift: Callable[[Tensor], Tensor]) -> Softmax:
    """exp(s - shift) over its sum, with `shift(masked scores)` `[batch, heads, query, 1]`."""

    def softmax(scores: Tensor, mask: Tensor) -> Tensor:
        masked = _masked(scores, mask)
        return _normalised(torch.exp(masked - shift(masked).nan_to_num(0.0, 0.0, 0.0)), scores.dtype)

    return softmax


def _peak(masked: Tensor) -> Tensor:
    return masked.amax(dim=-1, keepdim=True)


def _mean(masked: Tensor) -> Tensor:
    """The mean of the visible scores: nearer to the maximum than float32's exponent range by far."""
    visible = masked.isfinite()
    return masked.masked_fill(~visible, 0).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)


def _exp2(scores: Tensor, mask: Tensor) -> Tensor:
    masked = _masked(scores, mask) * _LOG2_E
    return _normalised(torch.exp2(masked - _peak(masked).nan_to_num(0.0, 0.0, 0.0)), scores.dtype)


def _log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.log_softmax(scores.float() + mask, dim=-1).exp().to(scores.dtype)


def _by_reciprocal(scores: Tensor, mask: Tensor) -> Tensor:
    masked = _masked(scores, mask)
    weights = torch.exp(masked - _peak(masked).nan_to_num(0.0, 0.0, 0.0))
    return (weights * (1 / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30))).to(scores.dtype)


def wide_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """In float64, then in the dtype of the scores."""
    return torch.softmax(scores.double() + mask, dim=-1).to(scores.dtype)


def _blocked(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **_more: Any) -> Any:
    """An online softmax: a running maximum, sum and context over blocks of keys, rescaled when the maximum grows."""
    masked = _masked(our_scores(query, key, scaling), mask)
    values = repeat_kv(value, groups_of(query, value)).float()
    peak = torch.full_like(masked[..., :1], -1e30)
    total = torch.zeros_like(peak)
    context = torch.zeros(*masked.shape[:3], value.shape[-1])
    for part, block in zip(torch.split(masked, _BLOCK, -1), torch.split(values, _BLOCK, 2), strict=True):
        higher = torch.maximum(peak, _peak(part))
        weights, shrink = torch.exp(part - higher), torch.exp(peak - higher)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        context = context * shrink + weights @ block
        peak = higher
    total = total.clamp(min=1e-30)
    probs = torch.exp(masked - peak) / total
    return (context / total).transpose(1, 2).contiguous().to(query.dtype), probs.to(query.dtype)


def _hidden_by(constant: float) -> Softmax:
    """Another number than `finfo.min` where a key is hidden; a row that sees nothing keeps ours, to stay finite."""

    def softmax(scores: Tensor, mask: Tensor) -> Tensor:
        sees = (mask == 0).any(dim=-1, keepdim=True)
        return our_softmax(scores, torch.where(sees & (mask != 0), constant, mask).to(mask.dtype))

    return softmax


def _filled(scores: Tensor, mask: Tensor) -> Tensor:
    """A bool mask that fills instead of one that adds."""
    return torch.softmax(scores.float().masked_fill(mask != 0, torch.finfo(torch.float32).min), -1).to(scores.dtype)


def _form(name: str, says: str, softmax: Softmax) -> Variation:
    return Variation(name, says, ours(attention(name, softmax=softmax)))


VARIATIONS = (
    _form("softmax_log", "exp of a log-softmax", _log_softmax),
    _form("softmax_exp2", "powers of 2 of scores times log2(e)", _exp2),
    _form("softmax_reciprocal", "weights times the reciprocal of their sum", _by_reciprocal),
    _form("softmax_unshifted", "no maximum subtracted", _shifted_by(torch.zeros_like)),
    _form("softmax_mean_shift", "the mean of a row subtracted, not its maximum", _shifted_by(_mean)),
    _form("softmax_constant", "1 more than the maximum subtracted", _shifted_by(lambda masked: _peak(masked) + 1)),
    _form("softmax_float64", "the softmax in float64", wide_softmax),
    Variation(
        "softmax_online",
        "blocks of 4 keys with a running maximum, as fused kernels do",
        ours(attending("softmax_online", _blocked)),
        float32_alone,  # the probabilities that it multiplies by are never stored
    ),
    _form("mask_1e9", "hidden keys at -1e9", _hidden_by(-1e9)),
    _form("mask_1e4", "hidden keys at -1e4", _hidden_by(-1e4)),
    _form("mask_infinity", "hidden keys at minus infinity", _hidden_by(-torch.inf)),
    _form("mask_fills", "a bool mask that fills scores instead of one that is added", _filled),
)
