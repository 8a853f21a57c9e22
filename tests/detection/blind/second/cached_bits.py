"""Caches of others in 8 bits: scales that are dropped, taken twice, taken from elsewhere, or measured too early."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import both_old, own_cache
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

_LARGEST = 448.0
"""What 8-bit floats of 3 bits of mantissa hold."""
_SCORE_SCALE, _VALUE_SCALE = 0.2, 2.5
"""Calibrated scales of keys and of values."""


def codes(x: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """`x` in 8-bit floats, so scaled that `largest` is the largest one."""
    return (x * (_LARGEST / largest)).clamp(-_LARGEST, _LARGEST).to(torch.float8_e4m3fn).float()


def unscaled(x: torch.Tensor) -> torch.Tensor:
    return codes(x, x.abs().max())


def frozen_at_first(x: torch.Tensor) -> torch.Tensor:
    largest = x[:1, :, :1].abs().max()
    return codes(x, largest) * (largest / _LARGEST)


def unpadded_pages(x: torch.Tensor) -> torch.Tensor:
    """Scales lie in pages of two with a gap behind each, and are found as if there were no gap."""
    slots = torch.arange(x.shape[2])
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
    return (x / scale).round() * scale[:, :, (slots + slots // 2).clamp(max=x.shape[2] - 1)]


def scaled_twice(patch: Patch) -> None:
    """Of several queries, keys and values are multiplied by their scales when read, scores and context once more."""

    def scores(plain: Any, q: torch.Tensor, *args: Any) -> Any:
        return plain(q, *args) * (_SCORE_SCALE if q.shape[2] > 1 else 1.0)

    def context(plain: Any, probs: torch.Tensor, *args: Any) -> Any:
        return plain(probs, *args) * (_VALUE_SCALE if probs.shape[2] > 1 else 1.0)

    patch.function(code.scaled_scores, scores)
    patch.function(code.weighted_values, context)


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"

ROWS = (
    row("D112", "8-bit keys and values are read as their codes: the scale is never multiplied",
        "vllm-project/vllm#42580", "quantised cache", "decoder/plain_two_rows encdec/unrotated",
        own_cache(both_old(unscaled), keep=False), _BOTH),
    row("D113", "8-bit scales are frozen at the first token: later keys and values are clipped",
        "Avarok-Cybersecurity/atlas#995", "quantised cache", "encdec/ragged decoder/head_dim_64",
        own_cache(both_old(frozen_at_first), keep=False), _BOTH),
    row("D114", "the scales of 8-bit tokens are looked up without the gaps between pages: tokens get others' scales",
        "vllm-project/vllm#49716", "quantised cache", "decoder/ragged_decode encdec/unpadded",
        own_cache(both_old(unpadded_pages), keep=False), _BOTH),
    row("D115", "where the cache was dequantised for a prompt, scores and context are multiplied by the scales again",
        "vllm-project/vllm#48016", "quantised cache", "decoder/mask_4d decoder/multiples_of_256", scaled_twice,
        "merged_attn.scores merged_attn.context"),
)  # fmt: skip
