"""Heads side by side in channels, behind positions, and in front of them."""

import numpy as np

from qwen3_spec.arithmetic import Array


def split_heads(values: Array, head_dim: int) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, seq, heads, head_dim]`."""
    return values if values.ndim == 4 else values.reshape(*values.shape[:2], values.shape[2] // head_dim, head_dim)


def heads_first(values: Array, head_dim: int) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, heads, seq, head_dim]`."""
    return np.swapaxes(split_heads(values, head_dim), 1, 2)


def side_by_side(values: Array) -> Array:
    """`[batch, heads, seq, head_dim] -> [batch, seq, channel]`."""
    return np.swapaxes(values, 1, 2).reshape(values.shape[0], values.shape[2], -1)
