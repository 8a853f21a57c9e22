"""Ops that make values from sizes and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import Numbers


def arange(numbers: Numbers, *bounds: float, dtype: str | None = None) -> Array:
    """Numbers from a start to an end in steps."""
    whole = all(isinstance(bound, int) for bound in bounds)
    return np.arange(*bounds, dtype=numbers.dtype(dtype or ("int64" if whole else "float32")))


def full(numbers: Numbers, shape: Sequence[int], value: float, *, dtype: str | None = None) -> Array:
    """One number everywhere."""
    kinds = {bool: "bool", int: "int64"}
    return np.full(shape, value, numbers.dtype(dtype or kinds.get(type(value), "float32")))


def zeros(numbers: Numbers, shape: Sequence[int], *, dtype: str | None = None) -> Array:
    """Zeros."""
    return np.zeros(shape, numbers.dtype(dtype or "float32"))


def ones(numbers: Numbers, shape: Sequence[int], *, dtype: str | None = None) -> Array:
    """Ones."""
    return np.ones(shape, numbers.dtype(dtype or "float32"))


def eye(numbers: Numbers, rows: int, columns: int | None = None, *, dtype: str | None = None) -> Array:
    """Ones on the diagonal."""
    return np.eye(rows, columns, dtype=numbers.dtype(dtype or "float32"))


def scalar(numbers: Numbers, value: float, *, dtype: str | None = None) -> Array:
    """A number as a value without axes."""
    return full(numbers, (), value, dtype=dtype)


def new_full(numbers: Numbers, x: Array, shape: Sequence[int], value: float, *, dtype: str | None = None) -> Array:
    """One number everywhere, in the dtype of another value unless one is named."""
    return np.full(shape, value, numbers.dtype(dtype) if dtype else x.dtype)


def new_zeros(numbers: Numbers, x: Array, shape: Sequence[int], *, dtype: str | None = None) -> Array:
    """Zeros in the dtype of another value unless one is named."""
    return new_full(numbers, x, shape, 0, dtype=dtype)


def new_ones(numbers: Numbers, x: Array, shape: Sequence[int], *, dtype: str | None = None) -> Array:
    """Ones in the dtype of another value unless one is named."""
    return new_full(numbers, x, shape, 1, dtype=dtype)


def full_like(numbers: Numbers, x: Array, value: float, *, dtype: str | None = None, **_: Any) -> Array:
    """One number in the shape of another value."""
    return new_full(numbers, x, x.shape, value, dtype=dtype)


def zeros_like(numbers: Numbers, x: Array, *, dtype: str | None = None, **_: Any) -> Array:
    """Zeros in the shape of another value."""
    return full_like(numbers, x, 0, dtype=dtype)


def ones_like(numbers: Numbers, x: Array, *, dtype: str | None = None, **_: Any) -> Array:
    """Ones in the shape of another value."""
    return full_like(numbers, x, 1, dtype=dtype)
