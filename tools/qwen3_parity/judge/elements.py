"""What the errors of one tap look like: where they are, how they are spread, the worst elements with both values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Tensor, pb
from qwen3_parity.judge.compare import HEAD_AXES, POSITION_AXES
from qwen3_parity.judge.tiles import ordered

_ROWS, _COLUMNS = 32, 64
"""Cells of a map, at most; each has the largest error of the elements that it stands for."""
_WORST = 8
_LEAST, _MOST = -4, 40
"""Powers of 2 between which errors are counted bin by bin."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element at `index`: both values, and their distance in representable numbers (None: not of floats)."""

    index: tuple[int, ...]
    actual: float | int | bool
    expected: float | int | bool
    ulps: int | None

    def __str__(self) -> str:
        distance = "" if self.ulps is None else f", {self.ulps} ULP apart"
        return f"{_text(self.actual)} for {_text(self.expected)} at {list(self.index)}{distance}"


def _text(value: float | int | bool) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Elements:
    """The errors of a tap, element by element.

    `heat` is `[row, column]`, float64: the largest |actual - expected| of the elements of each cell, over all other
    axes; `axes` names its two axes and `starts` has the index at which each row and each column begins. `bins` counts
    the judged elements by their error in `unit`: up to and including a bound, above the one before it; the first bound
    is 0, the last infinite. `worst` are the elements that are furthest off.
    """

    axes: tuple[str, str]
    starts: tuple[tuple[int, ...], tuple[int, ...]]
    heat: Array
    unit: str
    bins: tuple[tuple[float, int], ...]
    worst: tuple[Element, ...]


def elements(actual: Tensor, expected: Tensor, judged: Array | None, units: Array | None = None) -> Elements:
    """The errors of two tensors of one shape, where `judged` (broadcast to it) is True, or everywhere.

    `units` are errors in rounding units, of the same shape, infinite where nothing is allowed; without them errors are
    counted in ULPs. A NaN or infinity on either side is infinitely far.
    """
    a, b = actual.values(), expected.values()
    with np.errstate(all="ignore"):
        error = np.asarray(np.abs(a.astype(np.float64) - b.astype(np.float64)))  # a scalar's is no array
    error[~np.isfinite(error)] = np.inf
    error[a == b] = 0
    counts = np.ones(a.shape, bool) if judged is None else np.broadcast_to(judged, a.shape)
    error[~counts] = 0
    ulps = _ulps(actual, expected)
    spread = units if units is not None else error if ulps is None else ulps
    axes, starts, heat = _heat(error, tuple(expected.info.axes))
    unit = "rounding units" if units is not None else "ULPs" if ulps is not None else "absolute differences"
    return Elements(axes, starts, heat, unit, _bins(spread[counts]), tuple(_worst(a, b, error, ulps)))


def narrow_of(actual: Tensor, expected: Tensor) -> str:
    """The narrower of two float types, whose ULPs are counted: "bf16", or NumPy's "f2", "f4", "f8"."""
    half = pb.BF16 in (actual.info.dtype, expected.info.dtype)
    return "bf16" if half else f"f{min(actual.array.itemsize, expected.array.itemsize)}"


def _ulps(actual: Tensor, expected: Tensor) -> Array | None:
    """Distances in representable numbers of the narrower type, float64; infinite where a side is not finite."""
    if not (actual.is_float and expected.is_float):
        return None
    a, b = actual.values(), expected.values()
    narrow = narrow_of(actual, expected)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        ranks = (ordered(np.where(finite, side, 0), narrow).astype(np.float64) for side in (a, b))
        distance = np.abs(np.subtract(*ranks))
    return np.where(finite | (a == b), distance, np.inf)


def _bins(errors: Array) -> tuple[tuple[float, int], ...]:
    bounds = [0.0, *(2.0**power for power in range(_LEAST, _MOST + 1)), np.inf]
    places = np.searchsorted(bounds, errors, side="left")
    counts = np.bincount(places, minlength=len(bounds))
    last = max(np.flatnonzero(counts), default=0)
    shown = range(len(bounds) if last == len(bounds) - 1 else int(last) + 1)
    return tuple((bounds[i], int(counts[i])) for i in shown)


def _worst(a: Array, b: Array, error: Array, ulps: Array | None) -> list[Element]:
    flat = error.reshape(-1)
    number = min(_WORST, int(np.count_nonzero(flat)))
    if not number:
        return []
    top = np.argpartition(flat, -number)[-number:]
    worst = []
    for at in top[np.argsort(-flat[top], kind="stable")]:
        index = tuple(int(i) for i in np.unravel_index(int(at), error.shape))
        far = None if ulps is None or not np.isfinite(ulps[index]) else int(ulps[index])
        worst.append(Element(index, float(a[index]), float(b[index]), far))
    return worst


def _heat(error: Array, axes: Sequence[str]) -> tuple[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]], Array]:
    """The two axes of the map, where its rows and columns begin, and its cells."""
    names = tuple(axes) if len(axes) == error.ndim else tuple(f"axis {i}" for i in range(error.ndim))
    if not names:
        return ("", ""), ((0,), (0,)), error.reshape(1, 1)
    across = names[-1]
    rest = names[:-1]
    preferred = (*HEAD_AXES, *POSITION_AXES) if across == "key" else (*POSITION_AXES, *HEAD_AXES)
    down = next((name for name in preferred if name in rest), rest[-1] if rest else "")
    down_axis = [names.index(down)] if down else []
    others = tuple(i for i in range(error.ndim - 1) if i not in down_axis)
    flat = error.max(axis=others, initial=0) if others else error
    flat = flat.reshape(-1, flat.shape[-1])
    rows, columns = (_starts(size, most) for size, most in zip(flat.shape, (_ROWS, _COLUMNS), strict=True))
    if not flat.size:
        return (down, across), ((), ()), np.zeros((0, 0))
    pooled = np.maximum.reduceat(np.maximum.reduceat(flat, rows, axis=0), columns, axis=1)
    return (down, across), (tuple(rows), tuple(columns)), pooled


def _starts(size: int, most: int) -> list[int]:
    cells = min(size, most)
    return [size * i // cells for i in range(cells)]
