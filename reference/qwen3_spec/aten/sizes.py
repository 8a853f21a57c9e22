"""How many elements an op makes, from its operands and before it makes them: a graph from elsewhere may ask for any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.sums import spelled
from qwen3_spec.aten.table import Kind, kernel_of
from qwen3_spec.aten.windows import Windows, of_convolution, of_pool

_BROADCAST = frozenset({"where", "masked_fill", "maximum", "minimum", "max.other", "min.other", "clamp", "clamp_min"})
"""Ops that broadcast their operands, beside those that round each element by itself."""
_OVER_AXES = frozenset({"topk", "sort", "argsort", "argmax", "argmin", "max", "min", "amax", "amin", "any", "all"})
_FEW = 1 << 20  # elements that nobody needs to count exactly
_OBJECT = 16  # elements that a part of a tensor costs, whatever its size


def elements(op: str, operands: Sequence[Any], named: Mapping[str, Any]) -> int:
    """At most how many elements an op makes on its way, its operands resolved.

    Raises whatever comes of operands that the op does not take.
    """
    rule, count = _rule(op)
    if count is not None and (named or len(operands) != count):
        raise ValueError(f"it takes {count} operands without names")  # into one more NumPy would write
    return rule(*operands, **named)


@cache
def _rule(op: str) -> tuple[Callable[..., int], int | None]:
    """An op's rule, and how many operands it has where NumPy takes more."""
    kernel, name = kernel_of(op), op.partition(".")[0]
    kind = None if kernel is None else kernel.kind
    count = kernel.compute.nin if kernel is not None and isinstance(kernel.compute, np.ufunc) else None
    if (rule := _RULES.get(op) or _RULES.get(name)) is not None:
        return rule, count
    if kind is Kind.SIZE:
        return _sizes, count
    each = kind is Kind.POINT or (kind is Kind.CHOICE and name not in _OVER_AXES)
    each = each or not {op, name}.isdisjoint(_BROADCAST)
    return _broadcast if each else _as_many, count


def _as_many(*operands: Any, **named: Any) -> int:
    """As many as there are in the operands together."""
    return sum(map(_count, (*operands, *named.values())))


def _count(operand: Any) -> int:
    if isinstance(operand, np.ndarray):
        return operand.size
    return sum(map(_count, operand)) if isinstance(operand, list | tuple) else 1


def _broadcast(*operands: Any, **named: Any) -> int:
    shapes, most = list[tuple[int, ...]](), 1
    for operand in (*operands, *named.values()):
        if isinstance(operand, np.ndarray):
            shapes.append(operand.shape)
            most *= operand.size or 1
        elif isinstance(operand, list | tuple):
            raise ValueError("a list where a value is meant")
    return most if most <= _FEW else _together(*shapes)


def _together(*shapes: tuple[int, ...]) -> int:
    return prod(shapes[0] if len(set(shapes)) == 1 else np.broadcast_shapes(*shapes))


def _layer_norm(x: Array, shape: Sequence[int], *affine: Any, **named: Any) -> int:
    return _broadcast(x, *affine, **named)


def _sizes(*operands: Any) -> int:
    if not all(isinstance(operand, int) for operand in operands):
        raise ValueError("a size is made of sizes alone")
    return 1


def _sym_size(x: Array, axis: int) -> int:
    return x.ndim


def _getitem(parts: Sequence[Any], number: int) -> int:
    if not (isinstance(parts, list | tuple) and isinstance(number, int)):
        raise ValueError("one of several results is meant")
    return _count(parts[number])


def _shaped(shape: Sequence[int], *_: Any, **__: Any) -> int:
    return prod(shape)


def _shaped_as(x: Array, shape: Sequence[int], *_: Any, **__: Any) -> int:
    return prod(shape)


def _arange(*bounds: float, dtype: str | None = None) -> int:
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return int(max((stop - start) / step + 1, 0))


def _eye(rows: int, columns: int | None = None, **_: Any) -> int:
    return rows * (rows if columns is None else columns)


def _expand(x: Array, shape: Sequence[int], **_: Any) -> int:
    before = (1,) * (len(shape) - x.ndim) + x.shape
    return prod(old if size == -1 else size for size, old in zip(shape, before, strict=True))


def _unfold(x: Array, axis: int, size: int, step: int) -> int:
    if size < 1 or step < 1:
        raise ValueError("runs of neighbours have a length and a step")
    length = int(x.shape[axis])
    return x.size // max(length, 1) * max((length - size) // step + 1, 0) * size


def _repeat(x: Array, counts: Sequence[int]) -> int:
    return prod(counts) * x.size


def _repeat_interleave(x: Array, count: int, *_: Any, **__: Any) -> int:
    return count * x.size


def _twice(x: Array, *operands: Any, **named: Any) -> int:
    return 2 * _as_many(x, *operands, **named)


def _topk(x: Array, count: int, *_: Any) -> int:
    return 2 * (x.size + count)


def _round(x: Array, *, decimals: int = 0) -> int:
    return int(x.size)


def _pad(x: Array, widths: Sequence[int], *_: Any, **__: Any) -> int:
    sizes = list(x.shape)
    for place in range(len(widths) // 2):
        sizes[-1 - place] += max(widths[2 * place], 0) + max(widths[2 * place + 1], 0)
    return prod(sizes)


def _embedding(weight: Array, indices: Array, *_: Any) -> int:
    return indices.size * prod(weight.shape[1:])


def _index(x: Array, indices: Sequence[Array | None], *_: Any) -> int:
    shapes, rest, axis = list[tuple[int, ...]](), 1, 0
    for index in indices:
        if index is None:
            rest *= x.shape[axis]
            axis += 1
        elif not isinstance(index, np.ndarray):
            raise ValueError("an index is a value of the graph, or none")
        elif index.dtype == bool:
            shapes.append((int(np.count_nonzero(index)),))
            axis += index.ndim
        else:
            shapes.append(index.shape)
            axis += 1
    return max(_together(*shapes) * rest * prod(x.shape[axis:]), x.size)


def _index_select(x: Array, axis: int, indices: Array) -> int:
    rest = [size for place, size in enumerate(x.shape) if place != axis % x.ndim]
    return int(indices.size * prod(rest))


def _arrays(parts: Sequence[Array], *_: Any, **__: Any) -> int:
    return sum(part.size for part in parts)


def _parts(x: Array, sizes: int | Sequence[int] = 1, axis: int = 0) -> int:
    count = x.shape[axis] // sizes + 1 if isinstance(sizes, int) else len(sizes)
    return x.size + _OBJECT * max(count, 0)


def _unbind(x: Array, axis: int = 0) -> int:
    return _parts(x, 1, axis)


def _linear(x: Array, weight: Array, bias: Array | None = None) -> int:
    rows = (*x.shape[:-1], weight.shape[0])
    return prod(rows) if bias is None else _together(rows, bias.shape)


def _product(a: Array, b: Array) -> tuple[int, ...]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def _matmul(a: Array, b: Array) -> int:
    return prod(_product(a, b))


def _addmm(bias: Array, a: Array, b: Array, **_: float) -> int:
    return _together(bias.shape, _product(a, b))


def _einsum(equation: str, operands: Sequence[Array], **_: Any) -> int:
    names, output = spelled(equation, [operand.ndim for operand in operands])
    sizes, open_, most = dict[str, int](), set[str](), 1
    for number, (letters, operand) in enumerate(zip(names, operands, strict=True), 1):
        sizes |= {name: max(size, sizes.get(name, 1)) for name, size in zip(letters, operand.shape, strict=True)}
        open_ |= set(letters)
        most = max(most, prod(sizes[name] for name in open_))
        open_ &= set(output).union(*names[number:])
    return most


def _convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sequence[int] = (),
    padding: Sequence[int] | str = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> int:
    batch, channels, *sizes = x.shape
    out, _, *taps = weight.shape
    windows = of_convolution(taps, stride, padding, dilation)
    read = _windowed(batch * channels, sizes, windows)
    return int(max(read, batch * out * prod(windows.steps(sizes))))


def _max_pool(
    x: Array,
    taps: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    ceil_mode: bool = False,
) -> int:
    rest, sizes = x.shape[: -len(taps)], x.shape[-len(taps) :]
    return _windowed(max(prod(rest), 1), sizes, of_pool(sizes, taps, stride, padding, dilation, ceil_mode=ceil_mode))


def _mean_pool(
    x: Array,
    taps: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    ceil_mode: bool = False,
    *_: Any,
    **__: Any,
) -> int:
    return _max_pool(x, taps, stride, padding, (), ceil_mode)


def _windowed(count: int, sizes: Sequence[int], windows: Windows) -> int:
    """The elements of so many padded blocks of these sizes, or of all their windows."""
    return count * max(prod(windows.padded(sizes)), prod(windows.steps(sizes)) * prod(windows.taps))


def _fft(x: Array, dims: Sequence[int], *_: object) -> int:
    return max(2 * x.size, *(2 * int(x.shape[axis]) ** 2 for axis in dims), 0)


_RULES: Mapping[str, Callable[..., int]] = {
    "sym_size": _sym_size,
    "getitem": _getitem,
    "arange": _arange,
    "eye": _eye,
    **dict.fromkeys(("full", "zeros", "ones"), _shaped),
    **dict.fromkeys(("new_full", "new_zeros", "new_empty", "new_ones"), _shaped_as),
    "expand": _expand,
    "unfold": _unfold,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "topk": _topk,
    **dict.fromkeys(("sort", "max.dim", "min.dim", "cummax", "view_as_real", "scatter_reduce"), _twice),
    "round": _round,
    **dict.fromkeys(("constant_pad_nd", "pad"), _pad),
    "embedding": _embedding,
    **dict.fromkeys(("index", "index_put"), _index),
    "index_select": _index_select,
    **dict.fromkeys(("cat", "concat", "stack"), _arrays),
    "diff": _as_many,
    **dict.fromkeys(("split", "split_with_sizes"), _parts),
    "unbind": _unbind,
    "linear": _linear,
    **dict.fromkeys(("matmul", "bmm", "mm", "mv", "dot"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm"), _addmm),
    "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _max_pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _mean_pool),
    "_fft_c2c": _fft,
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
}
"""Ops whose results are larger than their operands, or other than broadcast."""
