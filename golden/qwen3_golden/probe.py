"""The probe of a weight: a sum over its elements that depends on where each stands, see `Weights` in golden.proto.

A digest says that the bytes are right; the probe says that they were read as what they are: a matrix that was
transposed, or cut in another order, has another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import Array, to_float32
from qwen3_golden.errors import ParityError

_ROWS, _COLUMNS = 61, 67
_TOLERANCE = 1e-9
_BLOCK = 1 << 16  # elements that are widened at a time: they stay in the cache


class Probe(NamedTuple):
    """`value` is the sum, `scale` that of the absolute terms: what a tolerance is relative to."""

    value: float
    scale: float

    def agrees(self, value: float) -> bool:
        """Whether `value` is the same sum; over elements that are not all finite, any sum that is not finite is."""
        if not math.isfinite(self.scale):
            return not math.isfinite(value)
        return abs(self.value - value) <= _TOLERANCE * self.scale


def blocks(array: Array, dtype: pb.DType | None = None) -> Iterator[tuple[int, Array]]:
    """A vector or matrix in float64, some rows at a time: the number of the first, and `[rows, columns]`.

    A vector is one row. `dtype` is needed for bfloat16 bits (uint16) alone. Raises `ParityError` for more dimensions.
    """
    if array.ndim > 2:
        raise ParityError(
            "array",
            "a weight has one dimension or two",
            expected="a vector or a matrix",
            got=f"shape {list(array.shape)}",
            next_step="probe its matrices one by one",
        )
    matrix = array.reshape(1, -1) if array.ndim < 2 else array
    rows = max(1, _BLOCK // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        part = matrix[start : start + rows]
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            wide = (to_float32(part) if dtype == pb.BF16 else part).astype(np.float64, copy=False)
        yield start, wide


def probe(array: Array, dtype: pb.DType | None = None) -> Probe:
    """The probe of a weight `[out, in]`, `[vocab, hidden]` or `[size]`; see `blocks` for `dtype` and what raises."""
    value = scale = 0.0
    columns = 1.0 + np.arange(array.shape[-1] if array.ndim else 1) % _COLUMNS
    for start, part in blocks(array, dtype):
        rows = 1.0 + np.arange(start, start + len(part)) % _ROWS
        with np.errstate(all="ignore"):  # NaN and infinities are the caller's to judge
            value += float(rows @ (part @ columns))
            scale += float(rows @ (np.abs(part) @ columns))
    return Probe(value, scale)
