"""A number that is added: everywhere, for each channel, head or position, or by the distance of query and key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats, numbers
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.positions import begin
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 3
"""Cells that tell a number."""


def _axes(tap: WrongTap, cells: Array) -> list[tuple[str, tuple[int, ...], int]]:
    """For each axis: its name, the axes to sum over, and which it is."""
    usable = []
    for axis, name in enumerate(tap.axes[: cells.ndim]):
        across = tuple(dimension for dimension in range(cells.ndim) if dimension != axis)
        count = cells.sum(axis=across)
        counts = count[count > 0]
        if cells.shape[axis] > 1 and len(counts) > 1 and counts.min() >= _FEWEST:
            usable.append((name, across, axis))
    return usable


def axis_offset(tap: WrongTap) -> Finding | None:
    """One number added for each index of one axis (a bias); one number added everywhere."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = usable
    missing = np.where(cells, actual - truth, 0)
    best: Finding | None = None
    whole: Sequence[tuple[str, tuple[int, ...], int]] = [("", tuple(range(cells.ndim)), -1)] if cells.sum() > 4 else []
    for name, across, axis in (*whole, *_axes(tap, cells)):
        counts = cells.sum(axis=across, keepdims=True)
        offset = missing.sum(axis=across, keepdims=True) / np.maximum(counts, 1)
        weight = explained(tap, truth + offset, fitted=int((counts > 0).sum()))
        kind = "channel_offset" if axis == cells.ndim - 1 else "axis_offset"
        if not name:
            kind, says = "offset", f"{float(offset.ravel()[0]):.6g} is added"
        else:
            says = f"each index of {name} has a number added: {numbers(offset.ravel())}"
            if kind == "channel_offset":
                says += " (a bias?)"
        if weight > (0.9 if best is None else best.weight):
            best = Finding(f"fit.{kind}", says, weight)
    return best


def key_bias(tap: WrongTap) -> Finding | None:
    """A bias that grows with the key, by head, is in the scores, as ALiBi's; seen in them or in their softmax."""
    usable = floats(tap)
    if usable is None or tap.truth.ndim != 4 or tuple(tap.axes[2:]) != ("query", "key"):
        return None
    actual, truth, wrong = usable
    rows = tap.truth.min(initial=0, where=tap.judged) >= 0 and "softmax" in tap.ops
    cells = tap.judged & np.isfinite(actual) & np.isfinite(truth)
    if rows:
        cells &= (truth > 0) & (actual > 0)
        missing = np.where(cells, np.log(np.where(cells, actual / truth, 1)), 0)
    else:
        missing = np.where(cells, actual - truth, 0)
    keys = np.broadcast_to(np.arange(truth.shape[3], dtype=np.float64), truth.shape)
    count = np.maximum(cells.sum(-1, keepdims=True), 1)
    near = np.where(cells, keys - np.where(cells, keys, 0).sum(-1, keepdims=True) / count, 0)
    level = missing.sum(-1, keepdims=True) / count
    squares = (near**2).sum((0, 2, 3), keepdims=True)
    if not cells[wrong].all() or not (squares > 0).all():
        return None
    slopes = (near * missing).sum((0, 2, 3), keepdims=True) / squares
    if rows:
        guess = np.where(cells, truth * np.exp(slopes * near), 0)
        guess, fitted = guess / guess.sum(-1, keepdims=True), slopes.size
    else:
        guess, fitted = truth + slopes * near + level, slopes.size + level.size
    if explained(tap, guess, fitted=fitted) < 1:
        return None
    return Finding("fit.key_bias", _says(tap, slopes, level, None if rows else cells), 1.0)


def _says(tap: WrongTap, slopes: Array, level: Array, cells: Array | None) -> str:
    """The slopes; and whether the bias is 0 at the query itself, which a softmax does not show."""
    text = f"each head's scores have a bias that grows by {numbers(slopes.ravel())} from key to key"
    first = begin(tap)
    if cells is None or first is None:
        return f"{text} (as in ALiBi)"
    keys = np.broadcast_to(np.arange(cells.shape[3], dtype=np.float64), cells.shape)
    centre = np.where(cells, keys, 0).sum(-1, keepdims=True) / np.maximum(cells.sum(-1, keepdims=True), 1)
    query = np.arange(first, first + cells.shape[2], dtype=np.float64)[None, None, :, None]
    at_query = np.where(cells.any(-1, keepdims=True), level + slopes * (query - centre), 0)
    near = np.abs(at_query).max() < 1e-4 * np.abs(slopes).max()
    return f"{text}{', 0 at the query itself' if near else ''} (as in ALiBi)"
