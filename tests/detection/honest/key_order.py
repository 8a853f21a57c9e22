"""Keys, values and mask columns all in another order, which no softmax notices; recorded in ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.honest.attending import attending, our_context, our_scores, our_softmax
from detection.honest.ours import Change, ours
from detection.honest.variation import Variation

Tensor = torch.Tensor


def _other_key_order(order: Callable[[int], Tensor]) -> Change:

    def scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
        there = order(key.shape[2])
        return our_scores(query, key[:, :, there], scaling)[..., there.argsort()]

    def attend(
        _module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **_more: Any
    ) -> tuple[Tensor, Tensor]:
        there = order(key.shape[2])
        probs = our_softmax(our_scores(query, key[:, :, there], scaling), mask[..., there])
        return our_context(probs, value[:, :, there]), probs[..., there.argsort()]

    return attending(f"keys{order.__name__}", attend, scores)


def _reversed(length: int) -> Tensor:
    return torch.arange(length).flip(0)


def _scattered(length: int) -> Tensor:
    return torch.randperm(length, generator=torch.Generator().manual_seed(length))


VARIATIONS = (
    Variation("keys_reversed", "the newest keys, or the encoder's, first", ours(_other_key_order(_reversed))),
    Variation("keys_scattered", "keys in an arbitrary order", ours(_other_key_order(_scattered))),
)
