"""What an op of a graph computes with: the float type of its values, and how it adds.

Every function of this package that adds more than two numbers takes a `Numbers`; all others are NumPy's, in the dtype
of their operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from qwen3_spec.arithmetic import FLOAT64 as FLOAT64_SUMS
from qwen3_spec.arithmetic import SEQUENTIAL_FLOAT32, Arithmetic, Array
from qwen3_spec.aten import large

_FLOATS = frozenset({"float64", "float32", "bfloat16", "float16"})
_COMPLEX = frozenset({"complex64", "complex128"})
_EXACT = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})
DTYPES = _FLOATS | _COMPLEX | _EXACT
"""torch's names of what a value of a graph may be."""


@dataclass(frozen=True)
class Numbers:
    """The float type that stands for every float of a graph, with its sums."""

    arithmetic: Arithmetic

    def dtype(self, name: str) -> np.dtype[np.generic]:
        """What a dtype of the graph ("float32", "bfloat16", "int64", "bool", …) is computed in.

        Raises `ValueError` for a name that is none of `DTYPES`: NumPy would read it as a type of any size.
        """
        return _dtype(name, np.dtype(self.arithmetic.dtype))

    def lifted(self, value: Array) -> Array:
        """A value in this type, where it is one of floats."""
        dtype = value.dtype
        return value if dtype.kind != "f" or dtype.type is self.arithmetic.dtype else self.arithmetic.cast(value)

    def at(self, value: int) -> Numbers:
        """What the node of this number is computed with."""
        return self

    def piece(self, number: int) -> Numbers:
        """What a part of the node's product is computed with."""
        return self

    def rounded(self, x: Array) -> Array:
        """An intermediate result inside of an op, as it goes on."""
        return x

    def approximated(self, x: Array) -> Array:
        """The result of a function that libraries replace by a polynomial, as it goes on."""
        return x

    def result(self, x: Array, dtype: str) -> Array:
        """The result of an op that rounds, of this dtype of the graph, as it goes on."""
        return x

    def cast(self, x: Array, dtype: str) -> Array:
        """A value that becomes one of this dtype of the graph, as it goes on."""
        return x

    def matmul(self, a: Array, b: Array) -> Array:
        """As `numpy.matmul`, vectors included, of values that need not be lifted."""
        if a.dtype.kind != "f":
            return np.asarray(np.matmul(a, b))
        left = a[None] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        if self.arithmetic is FLOAT64_SUMS and large.is_large(right):
            product = self.large(left, right)
        else:
            product = self.arithmetic.matmul(self.lifted(left), self.lifted(right))
        if b.ndim == 1:
            product = product[..., 0]
        return product[..., 0, :] if a.ndim == 1 and b.ndim > 1 else product[..., 0] if a.ndim == 1 else product

    def large(self, left: Array, right: Array) -> Array:
        """The product `[…, k]` and `[k, n]` with a matrix that is too large to become float64 as a whole."""
        return large.product(left, right)

    def sum(self, value: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> Array:
        """The sum over some axes."""
        if value.dtype.kind != "f":
            return np.asarray(value.sum(axes, keepdims=keepdims))
        axes = tuple(sorted(axis % value.ndim for axis in axes))
        if axes == (value.ndim - 1,) and value.shape[-1]:  # nearly always
            total = self.arithmetic.sum(value)
            return total[..., None] if keepdims else total
        last = np.moveaxis(value, axes, range(-len(axes), 0))
        flat = last.reshape(*last.shape[: value.ndim - len(axes)], -1)
        total = self.arithmetic.sum(flat) if flat.shape[-1] else np.zeros(flat.shape[:-1], value.dtype)
        return np.expand_dims(total, axes) if keepdims else total

    def running_sum(self, value: Array, axis: int) -> Array:
        """The sums of the first elements of an axis, of the first two, and so on."""
        return np.cumsum(value, axis, dtype=value.dtype)


@cache
def _dtype(name: str, of_floats: np.dtype[np.generic]) -> np.dtype[np.generic]:
    if name in _COMPLEX:
        return np.result_type(of_floats, np.complex64)
    if name not in DTYPES:
        raise ValueError(f"no dtype of a graph: {name!r}")
    return of_floats if name in _FLOATS else np.dtype(name)


TRUTH = Numbers(FLOAT64_SUMS)
"""float64, whatever the graph stores."""
FLOAT32 = Numbers(SEQUENTIAL_FLOAT32)
"""float32 with plain sequential sums, whatever the graph stores."""
