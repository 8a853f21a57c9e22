"""Products with matrices of float32 that are too large to become float64 as a whole, and once more for each draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Array
from qwen3_spec.sums import dot_products

LARGE = 1 << 20
"""Elements from which on a matrix is large."""
HELD = 1 << 24
"""The most elements of a product that is held for other draws."""
_BLOCK = 1 << 20
"""Elements of a block: small enough for memory that was freed just now, large enough for several threads."""


class Base(NamedTuple):
    """A product `left right` in float64, near which others are."""

    left: Array
    right: Array
    product: Array


def is_large(b: Array) -> bool:
    """Whether a right side is worth it."""
    return b.ndim == 2 and b.dtype == np.float32 and b.size >= LARGE


def product(a: Array, b: Array) -> Array:
    """`a b` in float64, `[…, k]` and `[k, n]`, a block of columns at a time."""
    total = np.empty((*a.shape[:-1], b.shape[1]))
    rows, wide = total.reshape(-1, b.shape[1]), FLOAT64.cast(a).reshape(-1, a.shape[-1])
    for columns in _blocks(b):
        rows[:, columns] = wide @ FLOAT64.cast(b[:, columns])
    return total


def products(a: Array, b: Array) -> tuple[Array, Array]:
    """As `qwen3_spec.sums.dot_products` of `[…, k]` and `[k, n]`."""
    sums, drift = (np.empty((*a.shape[:-1], b.shape[1])) for _ in range(2))
    wide = FLOAT64.cast(a).reshape(-1, a.shape[-1])
    sides = sums.reshape(-1, b.shape[1]), drift.reshape(-1, b.shape[1])
    for columns in _blocks(b):
        for side, part in zip(sides, dot_products(wide, b[:, columns]), strict=True):
            side[:, columns] = part
    return sums, drift


def beside(base: Base, a: Array) -> Array:
    """`a` times the base's right side, of an `a` near its left one: the difference is float32's, and small."""
    difference = (a - base.left).astype(np.float32).reshape(-1, a.shape[-1])
    return np.asarray(base.product + (difference @ base.right).reshape(base.product.shape))


def is_of(base: Base, a: Array, b: Array) -> bool:
    """Whether a product has the base's right side itself, and a left one of the same shape."""
    ours, theirs = base.right.__array_interface__, b.__array_interface__
    same = ours["data"] == theirs["data"] and ours["shape"] == theirs["shape"] and base.right.strides == b.strides
    return same and base.left.shape == a.shape


def _blocks(b: Array) -> Iterator[slice]:
    width = max(1, _BLOCK // b.shape[0])
    return (slice(start, start + width) for start in range(0, b.shape[1], width))
