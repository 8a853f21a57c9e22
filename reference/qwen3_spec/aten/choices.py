"""Ops that choose: the largest, the k largest, an order. Of equals the one with the lowest index comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_spec.arithmetic import Array


def _largest_first(x: Array, axis: int) -> Array:
    """Indices of an axis, the largest first, NaN before all, of equals the lowest first."""
    turned = np.flip(x, axis)
    order = np.argsort(turned, axis, kind="stable")  # ascending, NaN last
    return np.asarray(x.shape[axis] - 1 - np.flip(order, axis))


def topk(x: Array, count: int, axis: int = -1, largest: bool = True, _sorted: bool = True) -> tuple[Array, Array]:
    """The k largest (smallest) along an axis and their indices."""
    order = _largest_first(x, axis) if largest else np.argsort(x, axis, kind="stable")
    indices = np.take(order, range(count), axis)
    return np.take_along_axis(x, indices, axis), indices


def taken(x: Array, indices: Array, axis: int = -1) -> tuple[Array, Array]:
    """What stands along an axis where another has chosen, and that choice."""
    return np.take_along_axis(x, indices, axis), indices


def sort(
    x: Array, axis: int = -1, descending: bool = False, *, stable: bool | None = None, dim: int | None = None
) -> tuple[Array, Array]:
    """An axis in order, and the indices that make it."""
    axis = axis if dim is None else dim
    order = _largest_first(x, axis) if descending else np.argsort(x, axis, kind="stable")
    return np.take_along_axis(x, order, axis), order


def argsort(x: Array, axis: int = -1, descending: bool = False, *, stable: bool | None = None) -> Array:
    """The indices that bring an axis into order."""
    return sort(x, axis, descending)[1]


def argmax(x: Array, axis: int | None = None, keepdim: bool = False) -> Array:
    """The index of the largest."""
    return np.asarray(np.argmax(x, axis, keepdims=keepdim))


def argmin(x: Array, axis: int | None = None, keepdim: bool = False) -> Array:
    """The index of the smallest."""
    return np.asarray(np.argmin(x, axis, keepdims=keepdim))


def max_along(x: Array, axis: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The largest along an axis and its index."""
    return _along(x, np.argmax(x, axis, keepdims=True), axis, keepdim)


def min_along(x: Array, axis: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The smallest along an axis and its index."""
    return _along(x, np.argmin(x, axis, keepdims=True), axis, keepdim)


def _along(x: Array, indices: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    values = np.take_along_axis(x, indices, axis)
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


def cummax(x: Array, axis: int) -> tuple[Array, Array]:
    """The largest so far along an axis, and where it last stood."""
    values = np.maximum.accumulate(x, axis)
    places = np.arange(x.shape[axis]).reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])
    new = (x == values) | np.isnan(x)
    return values, np.maximum.accumulate(np.where(new, places, 0), axis)


def largest(x: Array, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """The largest over axes."""
    return np.asarray(np.max(x, _axes(dims), keepdims=keepdim))


def smallest(x: Array, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Array:
    """The smallest over axes."""
    return np.asarray(np.min(x, _axes(dims), keepdims=keepdim))


def _axes(dims: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if dims is None or isinstance(dims, int):
        return None if dims is None else (dims,)
    return tuple(dims) or None
