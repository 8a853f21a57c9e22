"""Merged attention with its keys, or values, put together in another order than the mask has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array

Order = Callable[[Array, Array, int], Array]
"""The decoder's own `[batch, kv_heads, own, head_dim]`, the encoder's, and how many are new, to all of them."""


def _between(own_half: Array, memory: Array, new: int) -> Array:
    past = own_half.shape[2] - new
    return np.concatenate((own_half[:, :, :past], memory, own_half[:, :, past:]), 2)


ORDERS: tuple[tuple[str, str, Order], ...] = (
    ("halves_exchanged", "before the decoder's", lambda own_half, memory, _: np.concatenate((memory, own_half), 2)),
    ("halves_interleaved", "between the decoder's older ones and the step's own", _between),
)
"""The end of a name, where the encoder's stand, and the order."""
