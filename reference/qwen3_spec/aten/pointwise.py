"""Ops that make each element from the elements at its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import Numbers

_QUANTILE = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])


def add(a: Array, b: Array | float, *, alpha: float = 1) -> Array:
    """`a + alpha b`."""
    return np.asarray(a + (b if alpha == 1 else alpha * b))


def sub(a: Array, b: Array | float, *, alpha: float = 1) -> Array:
    """`a - alpha b`."""
    return np.asarray(a - (b if alpha == 1 else alpha * b))


def rsub(a: Array, b: Array | float, *, alpha: float = 1) -> Array:
    """`b - alpha a`."""
    return np.asarray(b - (a if alpha == 1 else alpha * a))


def diff(x: Array, times: int = 1, axis: int = -1, prepend: Array | None = None, append: Array | None = None) -> Array:
    """Each element less the one before it along an axis, behind and before what is joined to it."""
    whole = np.concatenate([part for part in (prepend, x, append) if part is not None], axis)
    return np.diff(whole, times, axis)


def mul(a: Array, b: Array | float) -> Array:
    """`a b`; of bools whether both hold."""
    return np.asarray(np.multiply(a, b))


def div(a: Array, b: Array | float, *, rounding_mode: str | None = None) -> Array:
    """`a / b`, or rounded down ("floor") or towards 0 ("trunc")."""
    if rounding_mode == "floor":
        return np.asarray(np.floor_divide(a, b))
    quotient = np.asarray(np.true_divide(a, b))
    return quotient if rounding_mode is None else np.trunc(quotient)


def remainder(a: Array, b: Array | float) -> Array:
    """What is left of a division, with the sign of `b`."""
    return np.asarray(np.remainder(a, b))


def pow_(a: Array | float, b: Array | float) -> Array:
    """`a` to the power of `b`; a square is a product."""
    return np.asarray(a * a if isinstance(b, int | float) and b == 2 else np.power(a, b))


def sign(x: Array) -> Array:
    """1, 0 or -1, of NaN 0."""
    return np.asarray((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def rsqrt(x: Array) -> Array:
    """`1 / sqrt(x)`."""
    return np.asarray(1 / np.sqrt(x))


def reciprocal(x: Array) -> Array:
    """`1 / x`."""
    return np.asarray(1 / x)


def sigmoid(numbers: Numbers, x: Array) -> Array:
    """`1 / (1 + exp(-x))`, without overflow on either side."""
    small = numbers.rounded(np.exp(-np.abs(x)))
    below = numbers.rounded(1 + small)
    return np.asarray(np.where(x >= 0, 1 / below, small / below), x.dtype)


def silu(numbers: Numbers, x: Array) -> Array:
    """`x sigmoid(x)`."""
    return np.asarray(x * numbers.rounded(sigmoid(numbers, x)))


def relu(x: Array) -> Array:
    """`max(x, 0)`."""
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def gelu(numbers: Numbers, x: Array, *, approximate: str = "none") -> Array:
    """`x Φ(x)`, or its approximation by tanh. The sum with 1 cancels where x is far below 0."""
    if approximate == "tanh":
        inner = numbers.rounded(math.sqrt(2 / math.pi) * numbers.rounded(x + numbers.rounded(0.044715 * x * x * x)))
        curve = numbers.rounded(np.tanh(inner))
    else:
        curve = erf(numbers, x / math.sqrt(2))
    return np.asarray(0.5 * x * numbers.rounded(1 + curve), x.dtype)


def erf(numbers: Numbers, x: Array) -> Array:
    """The error function."""
    return numbers.approximated(_erf(x).astype(x.dtype, copy=False))


def _erf(x: Array) -> Array:
    """Of each element in float64: NumPy has none."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def erfinv(numbers: Numbers, x: Array) -> Array:
    """The inverse of the error function, within -1 and 1; infinite at both, and NaN beyond them."""
    y = np.abs(np.where(np.abs(x) < 1, x, 0)).astype(np.float64)
    result = -np.asarray(_QUANTILE((1 - y) / 2)) / math.sqrt(2)
    for _ in range(2):  # Newton's steps: near 0 the sum with 1 cancels
        result = result - (_erf(result) - y) * (math.sqrt(math.pi) / 2) * np.exp(result * result)
    result = np.where(np.abs(x) < 1, result, np.where(np.abs(x) == 1, np.inf, np.nan))
    return numbers.approximated(np.asarray(np.copysign(result, x), x.dtype))


def softplus(numbers: Numbers, x: Array, beta: float = 1, threshold: float = 20) -> Array:
    """`log(1 + exp(beta x)) / beta`, and `x` itself beyond the threshold."""
    scaled = x * beta
    powers = numbers.rounded(np.exp(np.minimum(scaled, threshold)))
    return np.asarray(np.where(scaled > threshold, x, np.log1p(powers) / beta), x.dtype)


def clamp(x: Array, low: Array | float | None = None, high: Array | float | None = None) -> Array:
    """`x` within bounds; NaN stays."""
    lifted = x if low is None else np.maximum(x, low)
    return np.asarray(lifted if high is None else np.minimum(lifted, high))


def polar(size: Array, angle: Array) -> Array:
    """Complex numbers of a size and an angle."""
    return np.asarray(size * np.cos(angle) + 1j * (size * np.sin(angle)), np.result_type(size.dtype, np.complex64))


def logical(ufunc: np.ufunc, bitwise: np.ufunc) -> Callable[[Array, Array | int], Array]:
    """An op on bits, of bools on truth."""

    def op(a: Array, b: Array | int) -> Array:
        return np.asarray((ufunc if np.asarray(a).dtype == bool else bitwise)(a, b))

    return op
