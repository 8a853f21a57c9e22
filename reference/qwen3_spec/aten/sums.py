"""Ops that add: products of matrices, sums and means, softmax, norms, running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from string import ascii_uppercase
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import Numbers


def _axes(x: Array, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    if dims is None or (not isinstance(dims, int) and not dims):
        return tuple(range(x.ndim))
    return (dims,) if isinstance(dims, int) else tuple(dims)


def linear(numbers: Numbers, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """`x weightᵀ + bias`, `[…, in]` and `[out, in]`."""
    y = numbers.matmul(x, weight.T)
    return y if bias is None else y + numbers.lifted(bias)


def matmul(numbers: Numbers, a: Array, b: Array) -> Array:
    """A product of matrices, batched and broadcast."""
    return numbers.matmul(a, b)


def addmm(numbers: Numbers, bias: Array, a: Array, b: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta bias + alpha a b`."""
    product = numbers.matmul(a, b)
    return (bias if beta == 1 else beta * bias) + (product if alpha == 1 else alpha * product)


def einsum(numbers: Numbers, equation: str, operands: Sequence[Array], *, path: object = None) -> Array:
    """A sum of products by its equation, one operand after the other; an axis goes when no later one has it."""
    names, output = spelled(equation, [operand.ndim for operand in operands])
    y, indices = np.ones((), operands[0].dtype), ""
    for number, (letters, operand) in enumerate(zip(names, operands, strict=True), 1):
        later = set(output).union(*names[number:])
        every = list(dict.fromkeys(indices + letters))
        every.sort(key=lambda name: name not in later)
        keep = sum(name in later for name in every)
        product = _named(y, indices, every) * _named(operand, letters, every)
        axes = tuple(range(keep, len(every)))
        y, indices = numbers.sum(product, axes) if axes else product, "".join(every[:keep])
    return np.transpose(y, [indices.index(name) for name in output])


def spelled(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The names of each operand's axes and of the result's; "..." is spelled out, from the right, in capitals."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    more = [rank - len(name.replace("...", "")) for name, rank in zip(names, ranks, strict=True)]
    letters = [letter for letter in ascii_uppercase if letter not in equation]
    letters = letters[: max((count for name, count in zip(names, more, strict=True) if "..." in name), default=0)]
    ends = ["".join(letters[len(letters) - count :]) if count else "" for count in more]
    spelled_out = [name.replace("...", end) for name, end in zip(names, ends, strict=True)]
    return spelled_out, output.replace("...", "".join(letters))


def _named(x: Array, letters: str, every: Sequence[str]) -> Array:
    """An operand with an axis for each of these names, of size 1 where it has none."""
    x = np.transpose(x, [letters.index(name) for name in every if name in letters])
    return np.expand_dims(x, tuple(place for place, name in enumerate(every) if name not in letters))


def total(
    numbers: Numbers,
    x: Array,
    dims: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """The sum over axes, all of them where none is named; integers and bools as int64."""
    x = x.astype(np.int64) if dtype is None and x.dtype.kind in "bi" else x
    return numbers.sum(_as(numbers, x, dtype), _axes(x, dims), keepdims=keepdim)


def mean(
    numbers: Numbers,
    x: Array,
    dims: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """The mean over axes, all of them where none is named."""
    x = _as(numbers, x, dtype)
    count = prod(x.shape[axis] for axis in _axes(x, dims))
    return np.asarray(numbers.sum(x, _axes(x, dims), keepdims=keepdim) / x.dtype.type(count))


def variance(
    numbers: Numbers,
    x: Array,
    dims: int | Sequence[int] | None = None,
    *,
    correction: float = 1,
    keepdim: bool = False,
) -> Array:
    """The mean square of the deviation over axes, divided by `count - correction`."""
    axes = _axes(x, dims)
    deviation = numbers.rounded(x - mean(numbers, x, axes, True))
    count = int(np.prod([x.shape[axis] for axis in axes])) - correction
    squares = numbers.rounded(deviation * deviation)
    return np.asarray(numbers.sum(squares, axes, keepdims=keepdim) / x.dtype.type(count))


def vector_norm(
    numbers: Numbers,
    x: Array,
    order: float = 2,
    dims: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """The root of the sum of squares over axes, all of them where none is named, or of order 1 the sum of magnitudes.

    Raises for a norm of another order.
    """
    if order not in (1, 2):
        raise ValueError("a vector's norm is of order 1 or 2 alone")
    x = _as(numbers, x, dtype)
    if order == 1:
        return numbers.sum(np.abs(x), _axes(x, dims), keepdims=keepdim)
    return np.asarray(np.sqrt(numbers.sum(numbers.rounded(x * x), _axes(x, dims), keepdims=keepdim)))


def _as(numbers: Numbers, x: Array, dtype: str | None) -> Array:
    return x if dtype is None else x.astype(numbers.dtype(dtype))


def softmax(numbers: Numbers, x: Array, axis: int, dtype: str | bool | None = None) -> Array:
    """Exponentials over their sum along an axis, the largest number taken away first."""
    if isinstance(dtype, str):
        x = x.astype(numbers.dtype(dtype))
    most = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
    powers = numbers.rounded(np.exp(numbers.rounded(x - most)))
    return np.asarray(powers / numbers.sum(powers, (axis,), keepdims=True))


def log_softmax(numbers: Numbers, x: Array, axis: int, dtype: str | bool | None = None) -> Array:
    """The logarithm of `softmax`."""
    if isinstance(dtype, str):
        x = x.astype(numbers.dtype(dtype))
    low = numbers.rounded(x - x.max(axis, keepdims=True))
    powers = numbers.rounded(np.exp(low))
    return np.asarray(low - numbers.rounded(np.log(numbers.sum(powers, (axis,), keepdims=True))))


def logsumexp(numbers: Numbers, x: Array, dims: int | Sequence[int], keepdim: bool = False) -> Array:
    """The logarithm of a sum of exponentials over axes."""
    axes = _axes(x, dims)
    most = x.max(axes, keepdims=True)
    powers = numbers.rounded(np.exp(numbers.rounded(x - most)))
    y = numbers.rounded(np.log(numbers.sum(powers, axes, keepdims=True))) + most
    return np.asarray(y if keepdim else np.squeeze(y, axes))


def cumsum(numbers: Numbers, x: Array, axis: int, *, dtype: str | None = None) -> Array:
    """Running sums along an axis, one element after the other; integers and bools as int64."""
    x = x.astype(np.int64) if dtype is None and x.dtype.kind in "bi" else _as(numbers, x, dtype)
    return numbers.running_sum(x, axis)


def layer_norm(
    numbers: Numbers,
    x: Array,
    shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Array:
    """Mean and variance taken out of the last axes, then weight and bias."""
    return _affine(numbers, _standard(numbers, x, tuple(range(-len(shape), 0)), eps), weight, bias)


def group_norm(
    numbers: Numbers,
    x: Array,
    groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Array:
    """Mean and variance taken out of each group of channels, `[batch, channel, …]`, then weight and bias."""
    grouped = x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])
    y = _standard(numbers, grouped, tuple(range(2, grouped.ndim)), eps)
    return _affine(numbers, y.reshape(x.shape), *_by_channel(x, weight, bias))


def batch_norm(
    numbers: Numbers,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    means: Array,
    variances: Array,
    _: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Each channel's stored mean and variance taken out, `[batch, channel, …]`, then weight and bias.

    Nothing behind it: the batch's own are for training.
    """
    weight, bias, means, variances = _by_channel(x, weight, bias, means, variances)
    deviation = numbers.rounded(x - means)
    y = numbers.rounded(deviation / numbers.rounded(np.sqrt(variances + x.dtype.type(eps))))
    nothing = np.empty(0, x.dtype)
    return numbers.rounded(_affine(numbers, y, weight, bias)), nothing, nothing


def _by_channel(x: Array, *values: Array | None) -> list[Any]:
    """Numbers of each channel of `[batch, channel, …]`, to be broadcast."""
    shape = x.shape[1], *[1] * (x.ndim - 2)
    return [None if value is None else value.reshape(shape) for value in values]


def _standard(numbers: Numbers, x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """A value without its mean over axes, over the root of its variance."""
    deviation = numbers.rounded(x - mean(numbers, x, axes, True))
    squares = mean(numbers, numbers.rounded(deviation * deviation), axes, True)
    return numbers.rounded(deviation / numbers.rounded(np.sqrt(squares + x.dtype.type(eps))))


def _affine(numbers: Numbers, y: Array, weight: Array | None, bias: Array | None) -> Array:
    y = y if weight is None else numbers.rounded(y * weight)
    return np.asarray(y if bias is None else y + bias)


def rms_norm(
    numbers: Numbers, x: Array, shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """The root of the mean square taken out of the last axes, then the weight."""
    axes = tuple(range(-len(shape), 0))
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    squares = mean(numbers, numbers.rounded(x * x), axes, True)
    y = numbers.rounded(x / numbers.rounded(np.sqrt(squares + x.dtype.type(eps))))
    return np.asarray(y if weight is None else y * weight)


def any_(_: Numbers, x: Array, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """Whether anything holds over axes."""
    return np.asarray(np.any(x, _axes(x, dims), keepdims=keepdim))


def all_(_: Numbers, x: Array, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """Whether everything holds over axes."""
    return np.asarray(np.all(x, _axes(x, dims), keepdims=keepdim))


def fft(numbers: Numbers, x: Array, dims: Sequence[int], normalization: int, forward: bool) -> Array:
    """Fourier sums of complex numbers over axes: as they are, or divided by √n (1) or n (2); forward: of `exp(-i…)`."""
    real, imaginary = x.real, x.imag
    for place, axis in enumerate(dims):
        count = x.shape[axis]
        turns = np.outer(np.arange(count), np.arange(count)) % count * (2 * np.pi / count)
        sine = np.sin(-turns if forward else turns).astype(real.dtype)
        matrix = np.concatenate((np.cos(turns).astype(real.dtype), sine))
        a, b = np.moveaxis(real, axis, -1), np.moveaxis(imaginary, axis, -1)
        pairs = np.concatenate((a, -b), -1), np.concatenate((b, a), -1)
        a, b = (numbers.piece(2 * place + part).matmul(pair, matrix) for part, pair in enumerate(pairs))
        real, imaginary = np.moveaxis(a, -1, axis), np.moveaxis(b, -1, axis)
    size = prod(x.shape[axis] for axis in dims)
    scale = (1, 1 / math.sqrt(size), 1 / size)[normalization]
    return np.asarray(scale * real + 1j * (scale * imaginary), x.dtype)
