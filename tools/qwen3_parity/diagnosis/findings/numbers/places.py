"""The right numbers in other places: moved along an axis, axes exchanged, indices of an axis in another order."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats, indices
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_MOST = 512
"""The longest axis whose indices are matched one with another."""
_NEARLY = 0.98
"""What an order of axes must tell of the error."""
_DIFFERENT = 8
"""Different wrong numbers that an order of axes must bring: a block of zeros stands in any order."""
_INSIDE, _FEWEST = 0.5, 2
"""The part of the wrong cells that a move must bring back, and along how many indices at least."""


def shift(tap: WrongTap) -> Finding | None:
    """Everything stands some places further along one axis.

    Noise comes near to some move or other: the moved numbers must be the recorded ones within the op's headroom, in
    all judged cells, most of the wrong ones and two indices at least among them, and no zeros.
    """
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = usable
    for axis, name in enumerate(tap.axes[: truth.ndim]):
        length = truth.shape[axis]
        for by in sorted({d for d in (*range(-4, 5), length // 2) if d and abs(d) < length}, key=abs):
            inside = [slice(None)] * truth.ndim
            inside[axis] = slice(max(by, 0), length + min(by, 0))
            stays = np.zeros(cells.shape, bool)
            stays[tuple(inside)] = True
            moved, wrong = np.roll(truth, by, axis), cells & stays
            across = tuple(dimension for dimension in range(cells.ndim) if dimension != axis)
            if wrong.sum() < _INSIDE * cells.sum() or wrong.any(axis=across).sum() < _FEWEST:
                continue
            if np.mean(actual[wrong] != 0) < _INSIDE:
                continue
            whole = stays & tap.judged & np.isfinite(moved)
            if not tap.reproduced(moved)[whole].all() or explained(tap, moved, among=stays) < 1:
                continue
            edge = ~stays & tap.judged
            if by == length // 2 and edge.any() and not tap.wrong[edge].any():
                return Finding("fit.shift", f"the second half along {name} is a copy of the first", 1.0)
            way = "wrapping around" if explained(tap, moved) == 1 else "the edge aside"
            return Finding("fit.shift", f"it is moved by {by:+d} along {name}, {way}", 1.0)
    return None


def axis_order(tap: WrongTap) -> Finding | None:
    """Axes exchanged, by a transposition or by a reshape without one: nearly exactly, as numbers alike fit any."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = usable
    if len(np.unique(actual[cells])) < _DIFFERENT:
        return None
    axes = tap.axes
    best: Finding | None = None
    for order in list(permutations(range(truth.ndim)))[1:]:
        turned = truth.transpose(order)
        names = ", ".join(axes[i] for i in order)
        for guess, says in (
            (turned if turned.shape == truth.shape else None, f"its axes are exchanged: [{names}]"),
            (
                np.ascontiguousarray(turned).reshape(truth.shape),
                f"it is [{names}] in memory, read as [{', '.join(axes)}]",
            ),
        ):
            if guess is not None and (weight := explained(tap, guess)) > (_NEARLY if best is None else best.weight):
                best = Finding("fit.axis_order", says, weight)
    return best


def permuted(tap: WrongTap) -> Finding | None:
    """The indices of one axis in another order: batch rows, heads, channels, positions; some of them twice."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, _ = usable
    judged = tap.judged & np.isfinite(actual) & np.isfinite(truth)
    best: Finding | None = None
    for axis, name in enumerate(tap.axes[: truth.ndim]):
        if not 1 < truth.shape[axis] <= _MOST:
            continue
        order = _matched(actual, truth, judged, axis)
        if order is None or np.array_equal(order, np.arange(len(order))) or len(np.unique(order)) < _FEWEST:
            continue
        moved = int((order != np.arange(len(order))).sum())
        weight = explained(tap, truth.take(order, axis=axis), fitted=moved)
        if len(np.unique(order)) < len(order) and weight < 1:
            continue  # numbers that hardly differ are near to some other's
        if weight > (0.9 if best is None else best.weight):
            says = f"along {name}, what belongs at {indices(order)} stands at 0, 1, 2 …"
            best = Finding("fit.permuted", says, weight)
    return best


def _matched(actual: Array, truth: Array, judged: Array, axis: int) -> Array | None:
    """For each index of an axis of `actual` the index of `truth` that is nearest; None with too few numbers."""
    common = np.moveaxis(judged, axis, 0).reshape(judged.shape[axis], -1).all(axis=0)
    if common.sum() < 3:
        common = np.ones_like(common)
    a = np.moveaxis(actual, axis, 0).reshape(actual.shape[axis], -1)[:, common]
    t = np.moveaxis(truth, axis, 0).reshape(truth.shape[axis], -1)[:, common]
    if a.shape[1] < 2:
        return None
    a, t = a[:, :4096], t[:, :4096]
    far = (a * a).sum(1)[:, None] + (t * t).sum(1)[None] - 2 * a @ t.T
    return np.asarray(np.argmin(far, axis=1))
