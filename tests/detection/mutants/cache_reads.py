"""What a wrong cache gives back: functions of the slots it holds, `[batch, kv_heads, slots, head_dim]`."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.cache_seeds import Pair


def exchanged(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
    keys, values = pair
    keys[:, :, :past], values[:, :, :past] = values[:, :, :past].clone(), keys[:, :, :past].clone()
    return pair


def layer_before(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    if layer:
        earlier = cache.layers[layer - 1]
        for x, theirs in zip(pair, (earlier.keys, earlier.values), strict=True):
            x[:, :, :past] = theirs[:, :, :past]
    return pair


def overwritten(x: torch.Tensor, past: int) -> None:
    if past and x.shape[2] == past + 1:
        x[:, :, past - 1] = x[:, :, past]
        x[:, :, past] = 0


def copied_back(x: torch.Tensor, past: int) -> None:
    if past:
        x[:, :, past - 1] = x[:, :, past]


def newest_missing(x: torch.Tensor, past: int) -> None:
    if past:
        x[:, :, past:] = 0


def ring(x: torch.Tensor, past: int) -> None:
    """Of 5 slots: what is older repeats what overwrote it."""
    total = x.shape[2]
    x[:, :, :past] = x[:, :, [slot + (total - 1 - slot) // 5 * 5 for slot in range(past)]]


def ring_in_prompt(x: torch.Tensor, past: int) -> None:
    if not past:
        ring(x, x.shape[2])


def when_full(x: torch.Tensor, past: int) -> None:
    """The call in which the length reaches 5 turns the older slots by one."""
    if past < 5 <= x.shape[2]:
        x[:, :, :past] = x[:, :, :past].roll(1, 2)


def beyond_capacity(x: torch.Tensor, past: int) -> None:
    x[:, :, 6:] = 0


def first_lost(x: torch.Tensor, past: int) -> None:
    if past >= 5:
        x[:, :, 0] = 0


def rows_shared(x: torch.Tensor) -> torch.Tensor:
    x[:, :, 5:] = x[-1:, :, 5:]
    return x


def one_row_late(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x[:1].roll(1, 2), x[1:]))


def one_head(x: torch.Tensor) -> torch.Tensor:
    return x[:, :1].expand_as(x).clone()


def in_eight_bits(x: torch.Tensor) -> torch.Tensor:
    step = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return (x / step).round() * step
