"""A context as whoever asks which keys were read sees it, by whichever judge it was judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array

_STRAIGHT = 1e-4
"""How far the logarithms of probabilities may be from a multiple of the products of queries and keys."""
_LEAST = 1e-20
"""Probabilities below this tell no scale."""


@dataclass(frozen=True)
class Attended:
    """What a context is made of, float64: `queries[batch, heads, query, head_dim]`, the same query's keys and values
    `[batch, kv_heads, key, head_dim]`, the right `probs[batch, heads, query, key]`, 0 where a key is hidden; `first` is
    the slot of the first key, where a cache has only the last ones.
    """

    queries: Array
    keys: Array
    values: Array
    probs: Array
    first: int = 0

    @property
    def group(self) -> int:
        """How many query heads read one KV head."""
        return int(self.queries.shape[1] // self.keys.shape[1])

    def scale(self) -> float | None:
        """What products of queries and keys are multiplied by; None where the probabilities are made otherwise."""
        products = self.queries @ np.repeat(self.keys, self.group, 1).swapaxes(2, 3)
        visible = self.probs > _LEAST
        logs = np.log(np.where(visible, self.probs, 1))
        count = np.maximum(visible.sum(-1, keepdims=True), 1)
        x, y = (
            np.where(visible, part - np.where(visible, part, 0).sum(-1, keepdims=True) / count, 0)
            for part in (products, logs)
        )
        size = float(np.vdot(x, x))
        scale = float(np.vdot(x, y)) / size if size else 0.0
        if not scale or not np.isfinite(scale) or np.abs(y - scale * x).max() > _STRAIGHT * max(np.abs(y).max(), 1):
            return None
        return scale


def attended(queries: Array | None, keys: Array | None, values: Array | None, probs: Array | None) -> Attended | None:
    """These where all are there and of one shape."""
    if queries is None or keys is None or values is None or probs is None:
        return None
    fits = queries.ndim == keys.ndim == probs.ndim == 4 and keys.shape[:3] == values.shape[:3]
    fits = fits and probs.shape == (*queries.shape[:3], keys.shape[2]) and keys.shape[3] == queries.shape[3]
    fits = fits and queries.shape[1] % max(keys.shape[1], 1) == 0
    queries, keys, values, probs = (np.asarray(part, np.float64) for part in (queries, keys, values, probs))
    return Attended(queries, keys, values, probs) if fits else None
