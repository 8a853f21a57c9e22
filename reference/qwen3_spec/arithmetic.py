"""The two ways to compute: float64 for truth, float32 with plain sequential sums for the noise floor.

The only places where the order of a sum matters are matrix products and sums over the last axis; an op takes both from
an `Arithmetic` and is written once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK = 1 << 16
"""Elements of one accumulator in `_sequential_matmul`: with its products it stays in a core's cache."""


class Arithmetic(NamedTuple):
    """A float type and its sums: `matmul(a, b)` as `numpy.matmul` on >= 2-D arrays, `sum(a)` over the last axis."""

    dtype: type[np.float64] | type[np.float32]
    matmul: Callable[[Array, Array], Array]
    sum: Callable[[Array], Array]

    def cast(self, a: Array) -> Array:
        """`a` in this arithmetic's dtype, without a copy when it already is."""
        return np.asarray(a, dtype=self.dtype)


def _sequential_matmul(a: Array, b: Array) -> Array:
    """`[..., m, k] @ [..., k, n]` in float32: each product is rounded, then added to the rounded sum before it."""
    left = np.ascontiguousarray(np.moveaxis(a, -1, 0), dtype=np.float32)[..., None]
    *batch, rows = np.broadcast_shapes((*a.shape[:-2], a.shape[-2]), (*b.shape[:-2], 1))
    columns = b.shape[-1]
    out = np.empty((*batch, rows, columns), np.float32)
    width = max(1, _BLOCK // max(1, int(np.prod(out.shape[:-1]))))
    for start in range(0, columns, width):
        right = np.ascontiguousarray(b[..., start : start + width], dtype=np.float32)
        total = np.zeros((*batch, rows, right.shape[-1]), np.float32)
        product = np.empty_like(total)
        for k in range(a.shape[-1]):
            np.multiply(left[k], right[..., k, None, :], out=product)
            np.add(total, product, out=total)
        out[..., start : start + width] = total
    return out


def _sequential_sum(a: Array) -> Array:
    """The sum over the last axis in float32, one element after the other (`numpy.sum` adds in pairs)."""
    running: Array = np.add.accumulate(a, axis=-1, dtype=np.float32)
    return running[..., -1]


def _float64_sum(a: Array) -> Array:
    return np.asarray(np.add.reduce(a, axis=-1, dtype=np.float64))


FLOAT64 = Arithmetic(np.float64, np.matmul, _float64_sum)
SEQUENTIAL_FLOAT32 = Arithmetic(np.float32, _sequential_matmul, _sequential_sum)
