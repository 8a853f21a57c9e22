"""Keys and values read in another order than they have in memory: other strides, a repeat along another axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank

ORDER = "keys and values are [batch, kv_heads, key, head_dim]; repeat kv_heads, and read them with their own strides"

Read = Callable[[Array, int], "Array | None"]
"""`[batch, kv_heads, key, head_dim]` and the number of query heads, to what is read: of kv_heads, or of all heads."""


def _as(order: tuple[int, ...]) -> Read:
    """In memory they are in this order, and are read as if they were not."""
    return lambda x, _: np.ascontiguousarray(x.transpose(order)).reshape(x.shape)


def _from(order: tuple[int, ...]) -> Read:
    """Read as if they were in this order in memory."""

    def read(x: Array, _: int) -> Array:
        shape = [x.shape[axis] for axis in order]
        return np.ascontiguousarray(x).reshape(shape).transpose(np.argsort(order))

    return read


def _repeated(axis: int, *, tiled: bool) -> Read:
    """Repeated along another axis, and viewed as heads."""

    def read(x: Array, heads: int) -> Array | None:
        times = heads // x.shape[1]
        if times < 2:
            return None
        repeated = np.concatenate([x] * times, axis=axis) if tiled else np.repeat(x, times, axis=axis)
        return np.ascontiguousarray(repeated).reshape(x.shape[0], heads, *x.shape[2:])

    return read


def _pitch(more: int) -> Read:
    """Each head begins so many keys later than it does, from the one before; behind the last there are zeros."""

    def read(x: Array, _: int) -> Array | None:
        batch, heads, keys, dim = x.shape
        if heads < 2 or keys + more < 1:
            return None
        flat = x.reshape(batch, heads * keys, dim)
        flat = np.concatenate([flat, np.zeros((batch, heads * abs(more), dim), x.dtype)], axis=1)
        return flat[:, np.arange(heads)[:, None] * (keys + more) + np.arange(keys)]

    return read


READS: tuple[tuple[str, str, Read, Rank], ...] = (
    ("strides", "that are [batch, key, kv_heads, head_dim] in memory as if they were contiguous",
     _as((0, 2, 1, 3)), PLAIN + 1),
    ("strides", "with the strides of [batch, key, kv_heads, head_dim]", _from((0, 2, 1, 3)), PLAIN + 1),
    ("strides", "that are [batch, kv_heads, head_dim, key] in memory as if they were contiguous",
     _as((0, 1, 3, 2)), RARE),
    ("strides", "with the strides of [batch, kv_heads, head_dim, key]", _from((0, 1, 3, 2)), RARE),
    ("strides", "that are [kv_heads, batch, key, head_dim] in memory as if they were contiguous",
     _as((1, 0, 2, 3)), RARE),
    ("strides", "with a stride of heads that is a key too long", _pitch(1), RARE),
    ("strides", "with a stride of heads that is a key too short", _pitch(-1), RARE),
    ("repeat_axis", "repeated along the keys and viewed as heads", _repeated(2, tiled=False), PLAIN + 1),
    ("repeat_axis", "repeated along head_dim and viewed as heads", _repeated(3, tiled=False), RARE),
    ("repeat_axis", "laid one behind the other along the keys and viewed as heads", _repeated(2, tiled=True), RARE),
    ("repeat_axis", "repeated along the batch and viewed as heads", _repeated(0, tiled=False), RARE),
)  # fmt: skip
"""The ends of names, what is wrong, how they are read, rank."""
