"""Every kind of op that a graph may name gives what torch gives: over shapes, axes and dtypes, empty, inf and NaN."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_spec.aten import FLOAT32, KERNELS, TRUTH, elements
from qwen3_spec.aten.table import Kind

aten = torch.ops.aten
SIZES = st.integers(0, 4)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
FULL = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
ODD = (0.0, -0.0, 1.0, -2.0, 0.5, float("inf"), -float("inf"), float("nan"), 1e-30, 20.5)
NUMBERS = st.sampled_from(ODD) | st.floats(-4, 4)
FINITE = st.floats(-4, 4)
DIVISORS = FINITE.filter(lambda x: not 0 < abs(x) < 1e-300)
"""torch divides first, and what overflows there has no remainder."""
FLOAT64, NOTHING = st.just(np.float64), st.just(())

Call = tuple[Sequence[Any], Mapping[str, Any]]


def filled(draw: Any, shape: tuple[int, ...], dtype: Any = np.float64, elements: Any = NUMBERS) -> np.ndarray[Any, Any]:
    """An array of this shape: floats, odd ones among them, small integers or bools."""
    kind = np.dtype(dtype).kind
    elements = st.integers(-3, 3) if kind == "i" else st.booleans() if kind == "b" else elements
    count = int(np.prod(shape))
    return np.array(draw(st.lists(elements, min_size=count, max_size=count)), dtype).reshape(shape)


@st.composite
def unary(draw: Any, shapes: Any = SHAPES, elements: Any = NUMBERS) -> Call:
    return [filled(draw, draw(shapes), elements=elements)], {}


@st.composite
def binary(draw: Any, elements: Any = NUMBERS, dtypes: Any = FLOAT64) -> Call:
    """Two operands that broadcast, or one and a number."""
    shape, dtype = draw(FULL), draw(dtypes)
    broadcast = tuple(draw(st.sampled_from((1, size))) for size in shape[draw(st.integers(0, len(shape))) :])
    return [filled(draw, shape, dtype, elements), filled(draw, broadcast, dtype, elements)], {}


@st.composite
def along(draw: Any, elements: Any = NUMBERS, more: Any = NOTHING, shapes: Any = FULL) -> Call:
    """An operand, an axis from either end, and what else is drawn."""
    x = filled(draw, draw(shapes), elements=elements)
    return [x, draw(st.integers(-x.ndim, x.ndim - 1)), *draw(more)], {}


@st.composite
def over(draw: Any, elements: Any = NUMBERS) -> Call:
    """An operand, some axes, keepdim."""
    x = filled(draw, draw(FULL), elements=elements)
    dims = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, max_size=x.ndim, unique=True))
    return [x, [axis - draw(st.sampled_from((0, x.ndim))) for axis in dims], draw(st.booleans())], {}


@st.composite
def reshaped(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    shape = list(draw(st.permutations([*x.shape, 1])))
    if draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return [x, shape], {}


@st.composite
def axes_pair(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    axis = st.integers(-x.ndim, x.ndim - 1)
    return [x, draw(axis), draw(axis)], {}


@st.composite
def permuted(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    return [x, draw(st.permutations(range(x.ndim)))], {}


@st.composite
def unsqueezed(draw: Any) -> Call:
    x = filled(draw, draw(SHAPES))
    return [x, draw(st.integers(-x.ndim - 1, x.ndim))], {}


@st.composite
def expanded(draw: Any) -> Call:
    sizes = draw(st.lists(st.sampled_from((1, 3)), min_size=1, max_size=3))
    front = draw(st.lists(st.integers(1, 3), max_size=2))
    shape = [draw(st.sampled_from((1, 2, 4, -1))) if size == 1 else draw(st.sampled_from((size, -1))) for size in sizes]
    return [filled(draw, tuple(sizes)), [*front, *shape]], {}


@st.composite
def tiled(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    return [x, draw(st.lists(st.integers(1, 3), min_size=x.ndim, max_size=x.ndim + 1))], {}


BOUND = st.none() | st.integers(-6, 6) | st.just((1 << 63) - 1)


@st.composite
def sliced(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    return [x, axis, draw(BOUND), draw(BOUND), draw(st.integers(1, 3))], {}


@st.composite
def selected(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    return [x, axis, draw(st.integers(-x.shape[axis], x.shape[axis] - 1))], {}


@st.composite
def select_scattered(draw: Any) -> Call:
    (x, axis, place), _ = draw(selected())
    return [x, filled(draw, np.take(x, 0, axis).shape), axis, place], {}


@st.composite
def slice_scattered(draw: Any) -> Call:
    (x, axis, start, stop, step), _ = draw(sliced())
    part = aten.slice(torch.from_numpy(x), axis, start, stop, step)
    return [x, filled(draw, tuple(part.shape)), axis, start, stop, step], {}


def indices(draw: Any, size: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    return np.array(draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count)), np.int64).reshape(shape)


@st.composite
def indexed(draw: Any) -> Call:
    """Indices or masks at some axes, others whole; apart, too."""
    x, shape = filled(draw, draw(FULL)), draw(FULL.map(lambda sizes: sizes[:2]))
    which = [indices(draw, size, shape) if draw(st.booleans()) else None for size in x.shape]
    which[-1] = indices(draw, x.shape[-1], shape)
    return [x, which], {}


@st.composite
def index_put(draw: Any) -> Call:
    (x, which), _ = draw(indexed())
    x = x[:, None] * np.ones((1, 3)) if x.ndim == 1 else x
    which = [np.unique(indices(draw, len(x), (3,)))]
    value = filled(draw, (len(which[0]), *x.shape[1:]))
    return [x, which, value, draw(st.booleans())], {}


@st.composite
def index_added(draw: Any) -> Call:
    x = filled(draw, draw(FULL), elements=FINITE)
    axis = draw(st.integers(0, x.ndim - 1))
    which = indices(draw, x.shape[axis], (3,))
    value = filled(draw, (*x.shape[:axis], 3, *x.shape[axis + 1 :]), elements=FINITE)
    return [x, axis, which, value], {}


@st.composite
def index_selected(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    return [x, axis, indices(draw, x.shape[axis], (3,))], {}


@st.composite
def gathered(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    shape = [draw(st.integers(1, size)) for size in x.shape]
    shape[axis] = draw(st.integers(1, 5))
    return [x, axis, indices(draw, x.shape[axis], tuple(shape))], {}


@st.composite
def scattered(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    order = np.argsort(filled(draw, x.shape, elements=FINITE), axis)[
        tuple(slice(0, draw(st.integers(1, size))) for size in x.shape)
    ]
    value = draw(NUMBERS) if draw(st.booleans()) else filled(draw, x.shape)
    return [x, axis, order, value], {}


@st.composite
def scatter_reduced(draw: Any) -> Call:
    shape, dtype = draw(FULL), draw(st.sampled_from((np.float64, np.int64)))
    x, value = (filled(draw, shape, dtype, FINITE) for _ in range(2))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    which = indices(draw, x.shape[axis], tuple(draw(st.integers(1, size)) for size in x.shape))
    how = draw(st.sampled_from(("sum", "prod", "mean", "amax", "amin")))
    return [x, axis, which, value, how], {"include_self": draw(st.booleans())}


@st.composite
def embedded(draw: Any) -> Call:
    weight = filled(draw, (draw(st.integers(1, 4)), draw(st.integers(1, 3))))
    return [weight, indices(draw, len(weight), draw(FULL)[:2])], {}


@st.composite
def joined(draw: Any) -> Call:
    shape = draw(FULL)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = list(shape)
        sizes[axis] = draw(SIZES)
        parts.append(filled(draw, tuple(sizes)))
    return [[*parts, np.zeros(0)] if draw(st.booleans()) else parts, axis], {}


@st.composite
def stacked(draw: Any) -> Call:
    shape = draw(FULL)
    parts = [filled(draw, shape) for _ in range(draw(st.integers(1, 3)))]
    return [parts, draw(st.integers(-len(shape) - 1, len(shape)))], {}


@st.composite
def split_evenly(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    return [x, draw(st.integers(1, 4)), axis], {}


@st.composite
def split_by_sizes(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    first = draw(st.integers(0, x.shape[axis]))
    return [x, [first, x.shape[axis] - first], axis], {}


@st.composite
def runs(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    return [x, axis, draw(st.integers(1, x.shape[axis])), draw(st.integers(1, 3))], {}


@st.composite
def flipped(draw: Any) -> Call:
    (x, dims, _), _ = draw(over())
    return [x, dims], {}


@st.composite
def rolled(draw: Any) -> Call:
    (x, dims, _), _ = draw(over())
    return [x, [draw(st.integers(-3, 3)) for _ in dims], dims], {}


@st.composite
def padded(draw: Any) -> Call:
    x = filled(draw, draw(st.lists(st.integers(3, 5), min_size=1, max_size=3).map(tuple)))
    widths = draw(st.lists(st.integers(-1, 2), min_size=1, max_size=x.ndim))
    return [x, [side for width in widths for side in (width, draw(st.integers(-1, 2)))], draw(NUMBERS)], {}


@st.composite
def copied(draw: Any) -> Call:
    (x, y), _ = draw(binary())
    return [x, y], {}


@st.composite
def chosen(draw: Any) -> Call:
    (x, y), _ = draw(binary())
    return [filled(draw, x.shape, bool), x, y if draw(st.booleans()) else draw(NUMBERS)], {}


@st.composite
def masked(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    return [x, filled(draw, x.shape[draw(st.integers(0, x.ndim - 1)) :], bool), draw(NUMBERS)], {}


@st.composite
def triangle(draw: Any) -> Call:
    return [
        filled(draw, (*draw(FULL)[:1], draw(st.integers(1, 4)), draw(st.integers(1, 4)))),
        draw(st.integers(-3, 3)),
    ], {}


@st.composite
def clamped(draw: Any) -> Call:
    low, high = draw(st.none() | FINITE), draw(st.none() | FINITE)
    return [filled(draw, draw(FULL)), low if low is not None or high is not None else 0.0, high], {}


@st.composite
def largest_few(draw: Any) -> Call:
    """Numbers that are all different: of equals torch takes any."""
    shape = draw(FULL)
    x = np.array(draw(st.permutations(range(int(np.prod(shape))))), np.float64).reshape(shape)
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    return [x, draw(st.integers(0, x.shape[axis])), axis, draw(st.booleans())], {}


@st.composite
def in_order(draw: Any) -> Call:
    (x, _, axis, _), _ = draw(largest_few())
    return [x, axis, draw(st.booleans())], {}


@st.composite
def extreme(draw: Any) -> Call:
    (x, _, axis, keep), _ = draw(largest_few())
    return [x, axis, keep], {}


@st.composite
def divided(draw: Any) -> Call:
    (a, b), _ = draw(binary(FINITE))
    return [a, b], {} if draw(st.booleans()) else {"rounding_mode": draw(st.sampled_from(("floor", "trunc")))}


@st.composite
def scaled(draw: Any) -> Call:
    (a, b), _ = draw(binary())
    return [a, b], {} if draw(st.booleans()) else {"alpha": draw(st.integers(-2, 3))}


@st.composite
def powers(draw: Any) -> Call:
    x = filled(draw, draw(FULL))
    return [x, draw(st.sampled_from((2, 3, 0.5, -1.0, 1.5)))], {}


@st.composite
def products(draw: Any) -> Call:
    rows, inner, columns = (draw(st.integers(1, 4)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    a = filled(draw, (*batch, rows, inner), elements=FINITE)
    b = filled(draw, (*[1 if draw(st.booleans()) else size for size in batch], inner, columns), elements=FINITE)
    return [a[..., 0, :] if draw(st.booleans()) and not batch else a, b], {}


@st.composite
def batched(draw: Any) -> Call:
    batch, rows, inner, columns = (draw(SIZES) for _ in range(4))
    return [
        filled(draw, (batch, rows, inner), elements=FINITE),
        filled(draw, (batch, inner, columns), elements=FINITE),
    ], {}


@st.composite
def linears(draw: Any) -> Call:
    inner, out = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    x = filled(draw, (*draw(FULL)[:2], inner), elements=FINITE)
    bias = [filled(draw, (out,), elements=FINITE)] if draw(st.booleans()) else []
    return [x, filled(draw, (out, inner), elements=FINITE), *bias], {}


@st.composite
def addmms(draw: Any) -> Call:
    (x, weight, *_), _ = draw(linears())
    x = x.reshape(-1, x.shape[-1])
    scales = {} if draw(st.booleans()) else {"beta": 2, "alpha": 3}
    return [filled(draw, (len(weight),), elements=FINITE), x, np.ascontiguousarray(weight.T)], scales


@st.composite
def transforms(draw: Any) -> Call:
    parts = [filled(draw, shape, elements=FINITE) for shape in [draw(FULL)] * 2]
    x = parts[0] + 1j * parts[1]
    dims = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, unique=True))
    return [x, dims, draw(st.integers(0, 2)), draw(st.booleans())], {}


EQUATIONS = ("bij,bjk->bik", "bhqd,bhkd->bhqk", "ij,j->i", "bi,bj->bij", "bij->bj", "ij,jk,kl->il")
EQUATIONS += ("...qd,...kd->...qk", "...ij,jk->...ik", "i...,...j->...ij", "...i->...")


@st.composite
def einsums(draw: Any) -> Call:
    equation = draw(st.sampled_from(EQUATIONS))
    sizes = {name: draw(st.integers(1, 3)) for name in "bhijkldq"}
    more = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    shapes = []
    for names in equation.partition("->")[0].split(","):
        before, dots, behind = names.partition("...")
        left_out = draw(st.integers(0, len(more)))
        broadcast = [size if draw(st.booleans()) else 1 for size in more[left_out:]] if dots else []
        shapes.append((*(sizes[name] for name in before), *broadcast, *(sizes[name] for name in behind)))
    return [equation, [filled(draw, shape, elements=FINITE) for shape in shapes]], {}


@st.composite
def variances(draw: Any) -> Call:
    x = filled(draw, draw(st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)), elements=FINITE)
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    return [x, [axis]], {"correction": draw(st.sampled_from((0, 1))), "keepdim": draw(st.booleans())}


@st.composite
def layer_norms(draw: Any) -> Call:
    x = filled(draw, (*draw(FULL)[:2], draw(st.integers(2, 5))), elements=FINITE)
    weight, bias = (filled(draw, x.shape[-1:], elements=FINITE) if draw(st.booleans()) else None for _ in range(2))
    return [x, [x.shape[-1]], weight, bias, draw(st.sampled_from((1e-5, 0.1)))], {}


@st.composite
def group_norms(draw: Any) -> Call:
    groups, each, batch, length = (draw(st.integers(1, 3)) for _ in range(4))
    x = filled(draw, (batch, groups * each, length + 1, *draw(st.sampled_from(((), (2,))))), elements=FINITE)
    weight, bias = (filled(draw, x.shape[1:2], elements=FINITE) if draw(st.booleans()) else None for _ in range(2))
    return [x, groups, weight, bias, draw(st.sampled_from((1e-5, 0.1)))], {}


@st.composite
def batch_norms(draw: Any) -> Call:
    (x, _, weight, bias, eps), _ = draw(group_norms())
    means, variances = (filled(draw, x.shape[1:2], elements=elements) for elements in (FINITE, DIVISORS))
    return [x, weight, bias, means, np.abs(variances), 0.1, eps], {}


@st.composite
def rms_norms(draw: Any) -> Call:
    (x, shape, weight, _, eps), _ = draw(layer_norms())
    return [x, shape, weight, eps], {}


def each(draw: Any, low: int, high: int, axes: int) -> list[int]:
    return draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))


@st.composite
def convolutions(draw: Any, axes: int) -> Call:
    groups, channels, per_group = (draw(st.integers(1, 3)) for _ in range(3))
    x = filled(draw, (draw(st.integers(1, 2)), groups * channels, *each(draw, 5, 8 - axes, axes)), elements=FINITE)
    weight = filled(draw, (groups * per_group, channels, *each(draw, 1, 3 if axes < 3 else 2, axes)), elements=FINITE)
    bias = filled(draw, (groups * per_group,), elements=FINITE) if draw(st.booleans()) else None
    word = draw(st.sampled_from(("same", "valid", "")))
    stride, padding = each(draw, 1, 1 if word == "same" else 2, axes), word or each(draw, 0, 3, axes)
    if groups == 1 and draw(st.booleans()):
        return [x, weight, bias], {}
    return [x, weight, bias, stride, padding, each(draw, 1, 2, axes), groups], {}


@st.composite
def pools(draw: Any, axes: int, *, means: bool) -> Call:
    batch = each(draw, 1, 2, draw(st.integers(1, 2)))
    taps = each(draw, 1, 3, axes)
    elements = FINITE if means else NUMBERS.filter(lambda x: x != -float("inf"))
    x = filled(draw, (*batch, *each(draw, 5, 8 - axes, axes)), elements=elements)
    stride, padding = (
        draw(st.sampled_from(([], each(draw, 1, 3, axes)))),
        [draw(st.integers(0, tap // 2)) for tap in taps],
    )
    ceil_mode = draw(st.booleans())
    if draw(st.booleans()):
        return [x, taps], {}
    if not means:
        return [x, taps, stride, padding, each(draw, 1, 2, axes), ceil_mode], {}
    divisor = [draw(st.none() | st.integers(1, 5))] if axes > 1 else []
    return [x, taps, stride, padding, ceil_mode, draw(st.booleans()), *divisor], {}


@st.composite
def differences(draw: Any) -> Call:
    (x, axis), _ = draw(along())
    first = filled(draw, x.shape) if draw(st.booleans()) else None
    return [x, draw(st.integers(1, 2)), axis, first, None], {}


@st.composite
def pairs(draw: Any) -> Call:
    return [filled(draw, (*draw(FULL), 2), elements=FINITE)], {}


@st.composite
def complexes(draw: Any) -> Call:
    ((x,), _) = draw(pairs())
    return [x[..., 0] + 1j * x[..., 1]], {}


def of(call: Any) -> Any:
    """A strategy that always draws this call."""
    return st.just(call)


ANY = binary(dtypes=st.sampled_from((np.float64, np.int64)))
BITS = binary(dtypes=st.sampled_from((bool, np.int64)))
POSITIVE = unary(elements=st.floats(1e-3, 50))
CASES: Mapping[str, tuple[Any, Callable[..., Any]]] = {
    "view _unsafe_view reshape": (reshaped(), aten.reshape),
    "transpose": (axes_pair(), aten.transpose),
    "permute": (permuted(), aten.permute),
    "t": (unary(FULL.map(lambda shape: shape[:2])), aten.t),
    "unsqueeze": (unsqueezed(), aten.unsqueeze),
    "squeeze": (along(), aten.squeeze),
    "expand": (expanded(), aten.expand),
    "repeat": (tiled(), aten.repeat),
    "repeat_interleave": (
        st.builds(lambda call, count: ([call[0][0], count, call[0][1]], {}), along(), st.integers(1, 3)),
        aten.repeat_interleave,
    ),
    "slice": (sliced(), aten.slice),
    "select": (selected(), aten.select),
    "select_scatter": (select_scattered(), aten.select_scatter),
    "slice_scatter": (slice_scattered(), aten.slice_scatter),
    "index": (indexed(), aten.index),
    "index_put": (index_put(), aten.index_put),
    "index_add": (index_added(), aten.index_add),
    "index_select": (index_selected(), aten.index_select),
    "gather": (gathered(), aten.gather),
    "scatter": (scattered(), aten.scatter),
    "scatter_add": (st.builds(lambda call: (call[0][:4], {}), scatter_reduced()), aten.scatter_add),
    "scatter_reduce": (scatter_reduced(), aten.scatter_reduce),
    "embedding": (embedded(), aten.embedding),
    "cat concat": (joined(), aten.cat),
    "stack": (stacked(), aten.stack),
    "split": (split_evenly(), aten.split),
    "split_with_sizes": (split_by_sizes(), aten.split_with_sizes),
    "unbind": (along(), aten.unbind),
    "getitem": (st.builds(lambda call: ([[call[0][0], 1.0], 0], {}), unary()), operator.getitem),
    "unfold": (runs(), aten.unfold),
    "flip": (flipped(), aten.flip),
    "roll": (rolled(), aten.roll),
    "constant_pad_nd": (padded(), aten.constant_pad_nd),
    "pad": (st.builds(lambda call: ([*call[0][:2], "constant", call[0][2]], {}), padded()), aten.pad),
    "copy": (copied(), aten.copy),
    "clone alias contiguous detach lift_fresh_copy _to_copy type_as": (unary(), aten.clone),
    "view_as_complex": (pairs(), aten.view_as_complex),
    "view_as_real": (complexes(), aten.view_as_real),
    "where": (chosen(), torch.where),
    "masked_fill": (masked(), aten.masked_fill),
    "triu": (triangle(), aten.triu),
    "tril": (triangle(), aten.tril),
    "diff": (differences(), aten.diff),
    "neg": (unary(), aten.neg),
    "abs": (unary(), aten.abs),
    "relu": (unary(), aten.relu),
    "clamp": (clamped(), aten.clamp),
    "clamp_min": (st.builds(lambda call, low: ([call[0][0], low], {}), unary(), FINITE), aten.clamp_min),
    "maximum max.other": (ANY, aten.maximum),
    "minimum min.other": (ANY, aten.minimum),
    "topk": (largest_few(), aten.topk),
    "sort": (in_order(), aten.sort),
    "argsort": (in_order(), aten.argsort),
    "argmax": (extreme(), aten.argmax),
    "argmin": (extreme(), aten.argmin),
    "cummax": (along(), aten.cummax),
    "max.dim": (extreme(), aten.max),
    "min.dim": (extreme(), aten.min),
    "max amax": (over(), aten.amax),
    "min amin": (over(), aten.amin),
    **{name: (ANY, getattr(aten, name)) for name in ("le", "lt", "ge", "gt", "eq", "ne", "logical_and", "logical_or")},
    **{name: (unary(), getattr(aten, name)) for name in ("isnan", "isfinite", "logical_not", "floor", "ceil", "round")},
    "bitwise_not": (st.builds(lambda call: ([call[0][0]], {}), BITS), aten.bitwise_not),
    "bitwise_and __and__": (BITS, aten.bitwise_and),
    "bitwise_or __or__": (BITS, aten.bitwise_or),
    "bitwise_xor __xor__": (BITS, aten.bitwise_xor),
    "sign": (unary(), aten.sign),
    "any": (over(), aten.any),
    "all": (along(), aten.all),
    "arange": (of(([1, 9, 2], {})) | of(([5], {})) | of(([0.5, 3.0], {"dtype": "float64"})), torch.arange),
    "full": (of(([[2, 3], 1.5], {"dtype": "float64"})) | of(([[2], 3], {})) | of(([[], True], {})), torch.full),
    "zeros": (of(([[2, 0, 3]], {"dtype": "int64"})), torch.zeros),
    "ones": (of(([[2, 3]], {"dtype": "bool"})), torch.ones),
    "eye": (of(([3], {"dtype": "float64"})) | of(([2, 4], {"dtype": "int64"})), torch.eye),
    "scalar_tensor": (of(([1.5], {"dtype": "float64"})), torch.scalar_tensor),
    "new_full": (st.builds(lambda call: ([*call[0], [2, 3], 1.5], {}), unary()), aten.new_full),
    "new_zeros new_empty": (st.builds(lambda call: ([*call[0], [2, 3]], {"dtype": "bool"}), unary()), aten.new_zeros),
    "new_ones": (st.builds(lambda call: ([*call[0], [2, 3]], {}), unary()), aten.new_ones),
    "full_like fill": (st.builds(lambda call: ([*call[0], 2.5], {}), unary()), aten.full_like),
    "zeros_like zero empty_like": (unary(), aten.zeros_like),
    "ones_like": (unary(), aten.ones_like),
    "add": (scaled(), aten.add),
    "sub": (scaled(), aten.sub),
    "rsub": (scaled(), aten.rsub),
    "mul": (ANY, aten.mul),
    "div": (divided(), aten.div),
    "floor_divide": (binary(FINITE), aten.floor_divide),
    "remainder": (binary(DIVISORS), aten.remainder),
    "pow": (powers(), aten.pow),
    **{
        name: (unary(), getattr(aten, name))
        for name in (
            *("square", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log1p", "cos", "sin", "tanh"),
            "acos",
            *("erf", "erfinv", "sigmoid", "silu", "softplus"),
        )
    },
    "gelu": (
        st.builds(lambda call, how: (call[0], {"approximate": how}), unary(), st.sampled_from(("none", "tanh"))),
        aten.gelu,
    ),
    "polar": (st.builds(lambda call: ([call[0][0], call[0][0] * 2], {}), unary(elements=FINITE)), aten.polar),
    "linear": (linears(), aten.linear),
    "matmul mm mv dot": (products(), aten.matmul),
    "bmm": (batched(), aten.bmm),
    "addmm baddbmm": (addmms(), aten.addmm),
    "einsum": (einsums(), torch.einsum),
    "_fft_c2c": (transforms(), aten._fft_c2c),
    "sum": (over(), aten.sum),
    "mean": (over(), aten.mean),
    "var": (variances(), aten.var),
    "linalg_vector_norm": (
        st.builds(lambda call, order: ([call[0][0], order, *call[0][1:]], {}), over(FINITE), st.sampled_from((1, 2))),
        aten.linalg_vector_norm,
    ),
    "softmax _softmax": (along(), torch.softmax),
    "log_softmax _log_softmax": (along(FINITE), torch.log_softmax),
    "logsumexp": (over(FINITE), aten.logsumexp),
    "cumsum": (along(), aten.cumsum),
    "layer_norm": (layer_norms(), torch.layer_norm),
    "group_norm": (group_norms(), torch.group_norm),
    "_native_batch_norm_legit_no_training": (batch_norms(), aten._native_batch_norm_legit_no_training),
    "rms_norm": (rms_norms(), aten.rms_norm),
    **{f"conv{axes}d": (convolutions(axes), getattr(aten, f"conv{axes}d")) for axes in (1, 2, 3)},
    **{f"max_pool{axes}d": (pools(axes, means=False), getattr(aten, f"max_pool{axes}d")) for axes in (1, 2, 3)},
    **{f"avg_pool{axes}d": (pools(axes, means=True), getattr(aten, f"avg_pool{axes}d")) for axes in (1, 2, 3)},
    "sym_size": (along(), lambda x, axis: x.shape[axis]),
    "size_neg": (st.integers(0, 9).map(lambda size: ([size], {})), operator.neg),
    **{
        f"size_{name}": (st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda pair: (list(pair), {})), op)
        for name, op in (
            *(("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)),
            *(("floordiv", operator.floordiv), ("mod", operator.mod)),
            *(("min", min), ("max", max)),
        )
    },
}
BY_OP = {name: case for names, case in CASES.items() for name in names.split()}


def to_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, list):
        return [to_torch(part) for part in value]
    return getattr(torch, value) if isinstance(value, str) and value in ("float64", "int64", "bool") else value


def compared(actual: Any, expected: Any) -> None:
    """Raise where they differ by more than float64 rounding, in shape or in kind of dtype."""
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            compared(mine, theirs)
        return
    if not isinstance(expected, torch.Tensor):
        np.testing.assert_equal(actual, expected)
        return
    values = expected.numpy()
    assert np.asarray(actual).shape == values.shape
    assert np.asarray(actual).dtype.kind == values.dtype.kind
    np.testing.assert_allclose(actual, values, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", sorted(KERNELS))
@settings(max_examples=12)
@given(data=st.data())
def test_an_op_gives_what_torch_gives(name: str, data: st.DataObject) -> None:
    calls, theirs = BY_OP[name]
    operands, named = data.draw(calls)
    kernel = KERNELS[name]
    expected = theirs(*map(to_torch, operands), **{key: to_torch(value) for key, value in named.items()})
    with np.errstate(all="ignore"):
        actual = kernel.compute(*([TRUTH] if kernel.takes_numbers else []), *operands, **named)
    compared(actual, expected)
    count = sum(np.size(part) for part in (actual if isinstance(actual, list | tuple) else [actual]))
    assert count <= elements(name, operands, named)


@pytest.mark.parametrize(
    ("op", "operands", "count"),
    [
        ("unfold.default", [0, 500, 1], 501 * 500),
        ("_fft_c2c.default", [[0], 0, True], 1000 * 1000),
        ("max_pool1d.default", [[500], [1]], 501 * 500),
        ("avg_pool1d.default", [[500], [1]], 501 * 500),
    ],
)
def test_ops_that_make_much_of_little_say_how_much(op: str, operands: list[Any], count: int) -> None:
    assert elements(op, [np.ones(1000, np.complex128), *operands], {}) >= count


def test_a_convolution_says_how_much_its_windows_and_their_padding_hold() -> None:
    image, weight = np.ones((2, 3, 30, 40)), np.ones((5, 3, 20, 10))
    assert elements("conv2d.default", [image, weight], {}) >= 2 * 3 * (11 * 31) * (20 * 10)
    assert elements("conv2d.default", [image, weight, None, [50, 50], [2000, 3000]], {}) >= 2 * 3 * 4030 * 6040


@pytest.mark.parametrize("operands", [[None, [-1]], [None, [0]], [None, [1], [0], [-1]], [None, [1], "reflect"]])
def test_windows_that_go_backwards_or_are_padded_by_a_word_nobody_knows_are_refused(operands: list[Any]) -> None:
    signal, weight = np.ones((1, 1, 9)), np.ones((1, 1, 2))
    with pytest.raises(ValueError, match=r"1 or more apart|no padding"):
        elements("conv1d.default", [signal, weight, *operands], {})


def test_every_op_has_a_case_and_every_case_an_op() -> None:
    assert BY_OP.keys() == KERNELS.keys()


@pytest.mark.parametrize("name", sorted(name for name, kernel in KERNELS.items() if kernel.kind is Kind.SUM))
@settings(max_examples=4)
@given(data=st.data())
def test_an_op_that_adds_adds_in_float32_where_it_is_asked_to(name: str, data: st.DataObject) -> None:
    operands, named = data.draw(BY_OP[name][0])
    kernel = KERNELS[name]
    if not kernel.takes_numbers:
        return
    narrow = [FLOAT32.lifted(operand) if isinstance(operand, np.ndarray) else operand for operand in operands]
    narrow = [
        [FLOAT32.lifted(part) for part in operand] if name == "einsum" and isinstance(operand, list) else operand
        for operand in narrow
    ]
    if name == "_fft_c2c":
        narrow[0] = operands[0].astype(np.complex64)
    with np.errstate(all="ignore"):
        results = kernel.compute(FLOAT32, *narrow, **named), kernel.compute(TRUTH, *operands, **named)
    actual, truth = (np.asarray(result[0] if isinstance(result, tuple) else result) for result in results)
    assert actual.dtype == (np.complex64 if name == "_fft_c2c" else np.float32)
    finite = np.isfinite(truth)
    np.testing.assert_allclose(actual[finite], truth[finite], rtol=1e-3, atol=1e-3)
