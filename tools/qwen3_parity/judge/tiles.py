"""The arithmetic of a comparison on one tile, a piece of two arrays that stays in the cache.

float32 takes a fast path: differences and their products in float32 over short runs, those added up in float64,
which is off by about 1e-6 of the sum. A tile where that could overflow, underflow or meet a NaN, and every other dtype,
is computed in float64 throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, to_bfloat16

TILE = 1 << 18
"""Elements. Two threads hand the interpreter lock to each other at every call: smaller tiles are slower."""
WIDE = 1 << 12
"""The columns of a tile, at most, where there is more than one line."""
_RUN = 1 << 9
"""Elements that are added up in float32, where they divide the width. NumPy's vecdot keeps the interpreter lock, and so
the other thread waiting, when it makes fewer than 500 sums: a full tile has more runs than that."""
_FAR = 1 << 23
"""float32 values of different signs have bits at least this far apart (as wrapped 32-bit integers)."""


class Part(NamedTuple):
    """What one tile adds to the metrics."""

    lines: Array  # squared errors of each line of the tile
    top: float
    ulp: int
    differing: int
    norm: float  # expected · expected
    cross: float  # expected · error
    nonfinite: tuple[int, int, int] = (0, 0, 0)


class Tile(NamedTuple):
    """A rectangle of the array of lines."""

    lines: slice
    columns: slice


def ordered(values: Array, narrow: str) -> Array:
    """The rank of each float among the floats of type `narrow` as int64: monotone, 1 apart for neighbours, ±0 equal.

    `narrow` is "f2", "f4", "f8" or "bf16"; wider values are rounded to it first.
    """
    bits = to_bfloat16(values.astype("f4")).view("i2") if narrow == "bf16" else values.astype(narrow)
    signed = bits.view(f"i{bits.itemsize}").astype(np.int64)
    lowest = np.int64(-(1 << (8 * bits.itemsize - 1)))
    return np.where(signed < 0, lowest - signed, signed)


def _distance(a: Array, b: Array, narrow: str) -> int:
    if not a.size:
        return 0
    x, y = ordered(a, narrow), ordered(b, narrow)
    # Unsigned, because float64 ranks of opposite signs are more than 2^63 apart.
    return int((np.maximum(x, y).view(np.uint64) - np.minimum(x, y).view(np.uint64)).max())


def _fast(a: Array, b: Array, buffer: Array) -> Part | None:
    """A tile of finite float32 values of ordinary size, or None when it is not one."""
    d = buffer[: a.size].reshape(a.shape)
    np.subtract(a, b, out=d)
    top = max(float(d.max()), -float(d.min()))
    runs = (len(a), -1, _RUN) if a.shape[1] % _RUN == 0 else a.shape
    flat = (-1, _RUN) if a.size % _RUN == 0 and b.flags.c_contiguous else runs
    d_flat, b_flat, d_runs = d.reshape(flat), b.reshape(flat), d.reshape(runs)
    norm = float(np.vecdot(b_flat, b_flat).sum(dtype=np.float64))
    if not (top == 0 or 1e-12 < top < 1e15) or not 1e-20 < norm < 1e30:
        return None
    cross = float(np.vecdot(b_flat, d_flat).sum(dtype=np.float64))
    lines = np.vecdot(d_runs, d_runs).reshape(len(a), -1).sum(axis=1, dtype=np.float64)
    x = np.subtract(a.view(np.int32), b.view(np.int32), out=d.view(np.int32))
    differing = int(np.count_nonzero(x))
    ulp = max(int(x.max()), -int(x.min()))
    if ulp >= _FAR:
        far = (x >= _FAR) | (x <= -_FAR)
        x[far] = 0
        ulp = max(int(x.max()), -int(x.min()), _distance(a[far], b[far], "f4"))
    return Part(lines, top, ulp, differing, norm, cross)


def _general(a: Array, b: Array, narrow: str) -> Part:
    """A tile of any floats, NaN and infinities included, in float64."""
    finite_a, finite_b = np.isfinite(a), np.isfinite(b)
    finite = finite_a & finite_b
    wide = np.promote_types(a.dtype, b.dtype)
    bits = f"i{wide.itemsize}"
    differing = np.count_nonzero(a.astype(wide).view(bits) != b.astype(wide).view(bits))
    ulp = _distance(a[finite], b[finite], narrow)
    y = np.where(finite, b, 0).astype(np.float64)
    d = np.where(finite, a, 0).astype(np.float64) - y
    norm, cross = float((y * y).sum()), float((y * d).sum())
    d[~finite] = np.inf
    nonfinite = (
        int(np.count_nonzero(finite_b & ~finite_a)),
        int(np.count_nonzero(finite_a & ~finite_b)),
        int(np.count_nonzero(~(finite_a | finite_b))),
    )
    top = float(np.abs(d).max(initial=0))
    return Part((d * d).sum(axis=-1), top, ulp, int(differing), norm, cross, nonfinite)


def measure(a: Array, b: Array, judged: Array | None, narrow: str, buffer: Array | None) -> Part:
    """One tile of `actual` and `expected`; `buffer` (float32, a tile long) when both are plain float32."""
    outside = (0, 0, 0)
    if judged is not None:
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            outside = _general(np.where(judged, 0, a), np.where(judged, 0, b), narrow).nonfinite
        a, b = np.where(judged, a, a.dtype.type(0)), np.where(judged, b, b.dtype.type(0))
    part = _fast(a, b, buffer) if buffer is not None else None
    part = part or _general(a, b, narrow)
    actual, expected, both = (inner + outer for inner, outer in zip(part.nonfinite, outside, strict=True))
    return part._replace(nonfinite=(actual, expected, both))


def tiles_of(lines: int, width: int) -> list[Tile]:
    """Tiles that cover an array of `lines` × `width` elements."""
    columns = min(width, TILE if lines == 1 else WIDE)
    rows = max(1, TILE // max(columns, 1))
    return [
        Tile(slice(top, min(top + rows, lines)), slice(left, min(left + columns, width)))
        for top in range(0, lines, rows)
        for left in range(0, width, columns)
    ]
