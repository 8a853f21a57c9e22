"""How far two arrays are apart: every metric in one pass over tiles that stay in the cache, two threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from qwen3_golden import Array
from qwen3_parity.judge.tiles import TILE, WIDE, Part, Tile, measure, tiles_of

POSITION_AXES = ("query", "key", "total", "new", "step")
"""What a row is: one index of the first of these axes that a tap has, in one batch row."""
HEAD_AXES = ("heads", "kv_heads")
"""What a head is: one index of this axis, over the whole batch."""

_THREADS = 2
_SMALL = 1 / 64
"""Of expected·expected: an error·error below it leaves nothing to cancel."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metrics:
    """`actual` against `expected`: `count` judged elements, of which `differing` have other bits.

    `rms`, `max` (at `index`) and the largest RMS of one row (`row`, at `row_index` = batch, position) and of one head
    are absolute errors, infinite where either side is not finite; row and head are 0 and their index empty where the
    axes are not there. `ulp` is the largest distance in the narrower float type, counted in representable numbers;
    `relative` the L2 error over the L2 norm of `expected`; `cosine` their angle. NaN and infinities are counted over
    all elements, judged or not: `nonfinite_actual` and `nonfinite_expected` on one side alone, `nonfinite_both`.
    """

    count: int
    differing: int = 0
    rms: float = 0.0
    max: float = 0.0
    index: tuple[int, ...] = ()
    ulp: int = 0
    relative: float = 0.0
    cosine: float = 1.0
    nonfinite_actual: int = 0
    nonfinite_expected: int = 0
    nonfinite_both: int = 0
    row: float = 0.0
    row_index: tuple[int, ...] = ()
    head: float = 0.0
    head_index: tuple[int, ...] = ()

    @property
    def nonfinite(self) -> int:
        """Elements that are NaN or infinite on either side or on both."""
        return self.nonfinite_actual + self.nonfinite_expected + self.nonfinite_both


def _layout(shape: tuple[int, ...], axes: Sequence[str]) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
    """The width of a line (what no row or head divides), the shape of the lines, and the names of its axes."""
    size = math.prod(shape)
    if not axes or not shape:
        return (WIDE, (size // WIDE,), ()) if size and size % WIDE == 0 else (max(size, 1), (min(size, 1),), ())
    if axes[-1] in ("batch", *POSITION_AXES, *HEAD_AXES):
        return 1, shape, tuple(axes)
    return shape[-1], shape[:-1], tuple(axes[:-1])


def _largest(squares: Array, counts: Array, names: Sequence[str], keep: Sequence[str]) -> tuple[float, tuple[int, ...]]:
    """The largest RMS among the groups that share an index of the axes `keep`, and that index."""
    rest = tuple(i for i, name in enumerate(names) if name not in keep)
    total, number = squares.sum(axis=rest), counts.sum(axis=rest)
    mean = np.where(number > 0, total / np.maximum(number, 1), 0)
    if not mean.size:
        return 0.0, ()
    at = np.unravel_index(int(mean.argmax()), mean.shape)
    return math.sqrt(float(mean[at])), tuple(int(i) for i in at)


def _groups(squares: Array, counts: Array, names: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    position = next((name for name in POSITION_AXES if name in names), None)
    if position is not None:
        out["row"], out["row_index"] = _largest(squares, counts, names, ("batch", position))
    head = next((name for name in HEAD_AXES if name in names), None)
    if head is not None:
        out["head"], out["head_index"] = _largest(squares, counts, names, (head,))
    return out


def compare(
    actual: Array,
    expected: Array,
    scope: Array | None = None,
    *,
    axes: Sequence[str] = (),
    bfloat16: bool = False,
) -> Metrics:
    """Every metric of two float arrays of one shape; the elements where `scope` (broadcast to it) is True, or all.

    `axes` names the dimensions, so that rows and heads can be told. `bfloat16`: the narrower side holds bfloat16 values
    widened to float32, and ULPs are counted in bfloat16. Raises `ValueError` for shapes or axes that do not fit.
    """
    if actual.shape != expected.shape or len(axes) not in (0, actual.ndim):
        raise ValueError(f"shapes {actual.shape} and {expected.shape}, axes {tuple(axes)} do not fit each other")
    narrow = "bf16" if bfloat16 else f"f{min(actual.itemsize, expected.itemsize)}"
    width, shape, names = _layout(actual.shape, axes)
    a, b = actual.reshape(-1, width), expected.reshape(-1, width)
    judged = None if scope is None else np.broadcast_to(scope, actual.shape).reshape(-1, width)
    plain = narrow == "f4" and actual.dtype == expected.dtype
    tiles = tiles_of(*a.shape)

    def work(share: list[Tile]) -> list[Part]:
        buffer = np.empty(min(TILE, a.size), np.float32) if plain else None
        # Overflow and NaN are findings here, reported as such.
        with np.errstate(all="ignore"):
            return [measure(a[t], b[t], None if judged is None else judged[t], narrow, buffer) for t in share]

    parts = _side_by_side(work, tiles)
    squares = np.zeros(len(a))
    for tile, part in zip(tiles, parts, strict=True):
        squares[tile.lines] += part.lines
    counts = np.full(len(a), width) if judged is None else np.count_nonzero(judged, axis=-1)
    count, total = int(counts.sum()), float(squares.sum())
    if not parts or not count:
        return replace(Metrics(count), **_sum_nonfinite(parts))
    norm, cross = math.fsum(p.norm for p in parts), math.fsum(p.cross for p in parts)
    worst = max(range(len(parts)), key=lambda i: parts[i].top)
    metrics = Metrics(
        count,
        differing=sum(p.differing for p in parts),
        rms=math.sqrt(total / count),
        max=parts[worst].top,
        index=_index(a, b, judged, tiles[worst], actual.shape),
        ulp=max(p.ulp for p in parts),
        relative=_ratio(math.sqrt(total), math.sqrt(norm)),
        cosine=1.0 if parts[worst].top == 0 else _cosine(norm, cross, total, lambda: _angle(a, b, judged, tiles)),
    )
    groups = _groups(squares.reshape(shape), counts.reshape(shape), names)
    return replace(metrics, **_sum_nonfinite(parts), **groups)


def _side_by_side(work: Callable[[list[Tile]], list[T]], tiles: list[Tile]) -> list[T]:
    if len(tiles) < 2 * _THREADS:
        return work(tiles)
    cuts = [len(tiles) * i // _THREADS for i in range(_THREADS + 1)]
    with ThreadPoolExecutor(_THREADS) as pool:
        shares = pool.map(work, [tiles[i:j] for i, j in pairwise(cuts)])
        return [part for share in shares for part in share]


def _sum_nonfinite(parts: Sequence[Part]) -> dict[str, Any]:
    actual, expected, both = (sum(p.nonfinite[i] for p in parts) for i in range(3))
    return {"nonfinite_actual": actual, "nonfinite_expected": expected, "nonfinite_both": both}


def _index(a: Array, b: Array, judged: Array | None, tile: Tile, shape: tuple[int, ...]) -> tuple[int, ...]:
    with np.errstate(all="ignore"):
        d = np.abs(a[tile].astype(np.float64) - b[tile])
    d[np.isnan(d)] = np.inf
    if judged is not None:
        d[~judged[tile]] = -1
    line, column = np.unravel_index(int(d.argmax()), d.shape)
    flat = (tile.lines.start + int(line)) * a.shape[1] + tile.columns.start + int(column)
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _ratio(error: float, norm: float) -> float:
    if error == 0:
        return 0.0
    return error / norm if norm > 0 else math.inf


def _cosine(norm: float, cross: float, total: float, angle: Callable[[], float]) -> float:
    """From expected·expected, expected·error and error·error while the error is small, which is exact to the last bits
    of a small angle; from the arrays themselves, `angle`, where the sums would cancel. NaN where it is not defined."""
    if not 0 < total < norm * _SMALL:
        return angle()
    return min(1.0, (norm + cross) / (math.sqrt(norm) * math.sqrt(norm + 2 * cross + total)))


def _angle(a: Array, b: Array, judged: Array | None, tiles: list[Tile]) -> float:
    """The cosine of two arrays by their own products in float64, a tile at a time; NaN where it is not defined."""

    def chosen(values: Array, tile: Tile, scale: float = 1.0) -> Array:
        wide = values[tile].astype(np.float64)
        if judged is not None:
            wide[~judged[tile]] = 0
        if scale != 1:
            wide /= scale
        return wide.reshape(-1)

    def largest(share: list[Tile]) -> list[tuple[float, float]]:
        return [(float(np.abs(chosen(a, t)).max()), float(np.abs(chosen(b, t)).max())) for t in share]

    scale_a = scale_b = 1.0
    if max(a.itemsize, b.itemsize) == 8:  # squares of the others neither overflow nor underflow
        scale_a, scale_b = (float(top) for top in np.max(_side_by_side(largest, tiles), axis=0))
        if not (0 < scale_a < math.inf and 0 < scale_b < math.inf):
            return math.nan

    def products(share: list[Tile]) -> list[tuple[float, float, float]]:
        sums = []
        with np.errstate(all="ignore"):
            for t in share:
                x, y = chosen(a, t, scale_a), chosen(b, t, scale_b)
                sums.append((float(np.vecdot(x, y)), float(np.vecdot(x, x)), float(np.vecdot(y, y))))
        return sums

    sums = _side_by_side(products, tiles)
    dot, actual_norm, expected_norm = (sum(part[i] for part in sums) for i in range(3))
    if not (0 < actual_norm < math.inf and 0 < expected_norm < math.inf):
        return math.nan
    return float(max(-1.0, min(1.0, dot / (math.sqrt(actual_norm) * math.sqrt(expected_norm)))))


def exact(actual: Array, expected: Array, scope: Array | None = None, *, axes: Sequence[str] = ()) -> Metrics:
    """As `compare`, for what must be copied bit for bit: `differing` counts elements whose bits differ.

    A wider type is read as the value it holds, widening being exact; so NaN equals NaN of the same bits alone, and
    -0.0 is not 0.0. Integers and bools are compared as integers; their errors are given as float64, and have no ULPs.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"shapes {actual.shape} and {expected.shape} do not fit each other")
    wide = np.promote_types(actual.dtype, expected.dtype)
    a, b = actual.astype(wide, copy=False), expected.astype(wide, copy=False)
    same = a.view(f"u{wide.itemsize}") == b.view(f"u{wide.itemsize}") if wide.kind == "f" else a == b
    if scope is not None:
        same = same | ~np.broadcast_to(scope, actual.shape)
    count = actual.size if scope is None else int(np.count_nonzero(np.broadcast_to(scope, actual.shape)))
    if wide.kind == "f" and not (np.isfinite(a).all() and np.isfinite(b).all() and same.all()):
        metrics = compare(actual, expected, scope, axes=axes)
    elif same.all():
        return Metrics(count)
    else:
        metrics = replace(compare(a.astype(np.float64), b.astype(np.float64), scope, axes=axes), ulp=0)
    first = np.unravel_index(int(same.argmin()), same.shape) if same.ndim else ()
    index = tuple(int(i) for i in first) if not same.all() else ()
    return replace(metrics, differing=int(same.size - np.count_nonzero(same)), index=index)
