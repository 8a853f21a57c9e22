"""Ops that move values and change none of them: shapes, slices, gathers, copies, casts to bool and integers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Array

_END = (1 << 63) - 1


def view(x: Array, shape: Sequence[int]) -> Array:
    """The same elements in another shape, one size of which may be -1."""
    return x.reshape(shape)


def transpose(x: Array, first: int, second: int) -> Array:
    """Two axes exchanged."""
    return np.swapaxes(x, first, second) if x.ndim else x


def permute(x: Array, axes: Sequence[int]) -> Array:
    """The axes in another order."""
    return np.transpose(x, axes)


def t(x: Array) -> Array:
    """A matrix transposed; less than a matrix as it is."""
    return x.T


def unsqueeze(x: Array, axis: int) -> Array:
    """An axis of size 1 put in."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        return np.expand_dims(x, axis)  # which says what is wrong
    return x[(*(slice(None),) * (axis % (x.ndim + 1)), None)]


def squeeze(x: Array, axes: int | Sequence[int] | None = None) -> Array:
    """Axes of size 1 left out: all of them, or those named, where they are 1."""
    if axes is None:
        return np.squeeze(x)
    names = [axes] if isinstance(axes, int) else list(axes)
    return np.squeeze(x, tuple(axis for axis in names if x.ndim and x.shape[axis] == 1))


def expand(x: Array, shape: Sequence[int]) -> Array:
    """Axes of size 1 repeated without a copy, new ones in front; -1 keeps a size."""
    x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape)
    return np.broadcast_to(x, [length if size == -1 else size for size, length in zip(shape, x.shape, strict=True)])


def repeat(x: Array, counts: Sequence[int]) -> Array:
    """The whole repeated along each axis, new ones in front."""
    return np.tile(x, counts)


def repeat_interleave(x: Array, count: int, axis: int | None = None, output_size: int | None = None) -> Array:
    """Each element repeated beside itself."""
    return np.repeat(x, count, axis)


def _along(x: Array, axis: int, where: Any) -> tuple[Any, ...]:
    every: list[Any] = [slice(None)] * x.ndim
    every[axis] = where
    return tuple(every)


def _range(start: int | None, stop: int | None, step: int) -> slice:
    return slice(start, None if stop is None or stop >= _END else stop, step)


def slice_(x: Array, axis: int = 0, start: int | None = None, stop: int | None = None, step: int = 1) -> Array:
    """A range of an axis."""
    return np.asarray(x[_along(x, axis, _range(start, stop, step))])


def unfold(x: Array, axis: int, size: int, step: int) -> Array:
    """Every run of `size` neighbours of an axis, `step` apart, along a last axis of its own."""
    runs = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.ascontiguousarray(runs[_along(x, axis, slice(None, None, step))])


def select(x: Array, axis: int, index: int) -> Array:
    """One index of an axis, which goes."""
    return np.asarray(x[_along(x, axis, index)])


def _put(x: Array, where: Any, value: Array | float) -> Array:
    changed = x.copy()
    changed[where] = value
    return changed


def select_scatter(x: Array, value: Array, axis: int, index: int) -> Array:
    """A copy with other values at one index of an axis."""
    return _put(x, _along(x, axis, index), value)


def slice_scatter(
    x: Array, value: Array, axis: int = 0, start: int | None = None, stop: int | None = None, step: int = 1
) -> Array:
    """A copy with other values in a range of an axis."""
    return _put(x, _along(x, axis, _range(start, stop, step)), value)


def index(x: Array, indices: Sequence[Array | None]) -> Array:
    """Values at indices or masks, an axis each; None takes the whole axis."""
    return np.asarray(x[tuple(slice(None) if index is None else index for index in indices)])


def index_put(x: Array, indices: Sequence[Array | None], value: Array, accumulate: bool = False) -> Array:
    """A copy with other values at indices; with `accumulate` they are added, in order."""
    where = tuple(slice(None) if index is None else index for index in indices)
    if not accumulate:
        return _put(x, where, value)
    changed = x.copy()
    np.add.at(changed, where, value)  # type: ignore[arg-type]  # slices, too
    return changed


def index_add(x: Array, axis: int, indices: Array, value: Array) -> Array:
    """A copy with values added at indices of an axis, in order."""
    changed = x.copy()
    np.add.at(changed, _along(x, axis, indices), value)
    return changed


def index_select(x: Array, axis: int, indices: Array) -> Array:
    """Indices of an axis."""
    return np.take(x, indices, axis)


def gather(x: Array, axis: int, indices: Array, sparse_grad: bool = False) -> Array:
    """At each place the element that its index names along an axis."""
    within = tuple(slice(0, size) for size in indices.shape)
    cut = tuple(slice(None) if place == axis % x.ndim else part for place, part in enumerate(within))
    return np.take_along_axis(x[cut], indices, axis)


def scatter(x: Array, axis: int, indices: Array, value: Array | float) -> Array:
    """A copy with values put where indices name along an axis; the last of those at one place stays."""
    if isinstance(value, np.ndarray) and value.ndim:
        value = _at(value, indices)
    return _put(x, _named(x, axis, indices), value)


_REDUCES = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
_STARTS = {"sum": 0, "mean": 0, "prod": 1}


def scatter_reduce(
    x: Array, axis: int, indices: Array, value: Array, reduce: str, *, include_self: bool = True
) -> Array:
    """A copy with the sum, product, mean or extreme of what indices name along an axis, and of what stood there."""
    changed, places, value = x.copy(), _named(x, axis, indices), _at(value, indices)
    if not include_self:
        changed[places] = _STARTS.get(reduce, value)
    _REDUCES[reduce].at(changed, places, value)
    if reduce != "mean":
        return changed
    counts = np.full(x.shape, int(include_self))
    np.add.at(counts, places, 1)
    counts = np.maximum(counts, 1)
    return np.asarray(changed // counts if x.dtype.kind == "i" else changed / counts.astype(x.dtype))


def scatter_add(x: Array, axis: int, indices: Array, value: Array) -> Array:
    """A copy with values added where indices name along an axis, in order."""
    return scatter_reduce(x, axis, indices, value, "sum")


def _named(x: Array, axis: int, indices: Array) -> tuple[Array, ...]:
    """The places that indices name along an axis, and beside it their own."""
    places: list[Any] = list(np.indices(indices.shape, sparse=True))
    places[axis % x.ndim] = indices
    return tuple(places)


def _at(value: Array, indices: Array) -> Array:
    """Of a value as much as there are indices along each axis."""
    return np.asarray(value[tuple(slice(0, size) for size in indices.shape)])


def embedding(weight: Array, indices: Array, *_: Any) -> Array:
    """Rows of a table `[row, channel]` by indices."""
    return np.asarray(weight[indices])


def cat(parts: Sequence[Array], axis: int = 0) -> Array:
    """Parts one behind the other; an empty cache of shape `[0]` fits everywhere."""
    return np.concatenate([part for part in parts if part.shape != (0,)] or [parts[0]], axis)


def stack(parts: Sequence[Array], axis: int = 0) -> Array:
    """Parts along a new axis."""
    return np.stack(parts, axis)


def split(x: Array, sizes: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Parts of one size, the last may be smaller, or of these sizes."""
    length = x.shape[axis]
    each = [sizes] * max(1, -(-length // sizes)) if isinstance(sizes, int) else sizes
    ends = list(accumulate(each))
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(end - size, end))] for size, end in zip(each, ends, strict=True)]


def unbind(x: Array, axis: int = 0) -> list[Array]:
    """The indices of an axis, each by itself."""
    return [select(x, axis, number) for number in range(x.shape[axis])]


def getitem(parts: Sequence[Any], number: int) -> Any:
    """One of several results."""
    return parts[number]


def flip(x: Array, axes: Sequence[int]) -> Array:
    """Axes turned round."""
    return np.flip(x, tuple(axes))


def roll(x: Array, shifts: Sequence[int], axes: Sequence[int] = ()) -> Array:
    """Axes shifted in a circle; without axes the elements in their order."""
    return np.roll(x, tuple(shifts), tuple(axes)) if axes else np.roll(x, shifts[0])


def constant_pad(x: Array, widths: Sequence[int], value: float = 0) -> Array:
    """Numbers put before and behind the last axes, the last one first; negative ones cut."""
    sides = [(0, 0)] * x.ndim
    for place in range(len(widths) // 2):
        sides[-1 - place] = (widths[2 * place], widths[2 * place + 1])
    padded = np.pad(x, [(max(low, 0), max(high, 0)) for low, high in sides], constant_values=value)
    return padded[tuple(slice(max(-low, 0), high if high < 0 else None) for low, high in sides)]


def pad(x: Array, widths: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """As `constant_pad`; raises `ValueError` for a padding that repeats or mirrors numbers."""
    if mode != "constant":
        raise ValueError(f"padding by {mode}, which nothing here computes")
    return constant_pad(x, widths, value or 0)


def copy(x: Array, value: Array, *_: Any) -> Array:
    """Other values in the shape of the first operand."""
    return np.broadcast_to(value, x.shape)


def same(x: Array, *_: Any, **__: Any) -> Array:
    """The value itself: a copy, a view, a cast, whose dtype the node says."""
    return x


def view_as_complex(x: Array) -> Array:
    """Pairs of a last axis of 2, `[…, 2]`, as complex numbers `[…]`."""
    return np.asarray(x[..., 0] + 1j * x[..., 1], np.result_type(x.dtype, np.complex64))


def view_as_real(x: Array) -> Array:
    """Complex numbers `[…]` as pairs `[…, 2]`."""
    return np.stack((x.real, x.imag), -1)


def where(condition: Array, first: Array | float, second: Array | float) -> Array:
    """The first operand where a condition holds, else the second."""
    return np.where(condition, first, second)


def masked_fill(x: Array, mask: Array, value: Array | float) -> Array:
    """A number where a mask holds."""
    return np.where(mask, np.asarray(value, x.dtype), x)


def triu(x: Array, diagonal: int = 0) -> Array:
    """Zeros below a diagonal."""
    return np.triu(x, diagonal)


def tril(x: Array, diagonal: int = 0) -> Array:
    """Zeros above a diagonal."""
    return np.tril(x, diagonal)
