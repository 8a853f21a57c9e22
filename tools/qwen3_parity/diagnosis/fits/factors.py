"""A constant factor, a factor or an offset for each channel, head, position or row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.cells import explained, floats, numbers, worth_saying
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.mistakes.factors import named
from qwen3_spec.site import Result


def factor(evidence: Evidence, result: Result) -> Finding | None:
    """The wrong cells are the right ones times one number."""
    found, ratio = floats(evidence, result), factor_of(evidence, result)
    if found is None or ratio is None:
        return None
    actual, truth, _ = found
    if ratio == 0:
        return None if actual[evidence.judged].any() else Finding("fit.factor", "it is all zero", 1.0)
    words = named(ratio, evidence.site.config)
    says = f"it is {ratio:.7g} × what it should be" + (f", that is {words}" if words else "")
    return worth_saying("fit.factor", says, explained(evidence, result, ratio * truth, ratio), 0.9)


def factor_of(evidence: Evidence, result: Result) -> float | None:
    """The number that brings the wrong cells closest to what was recorded, below 1e-9 none at all; None without one."""
    found = floats(evidence, result)
    if found is None:
        return None
    actual, truth, cells = found
    size = float(np.vdot(truth[cells], truth[cells]))
    ratio = float(np.vdot(truth[cells], actual[cells])) / size if size else 0.0
    return (ratio if abs(ratio) >= 1e-9 else 0.0) if size else None


def _means(values: Array, weights: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(values.sum(axis=axes, keepdims=True) / np.maximum(weights.sum(axis=axes, keepdims=True), 1e-300))


def _kept(evidence: Evidence, cells: Array) -> list[tuple[str, tuple[int, ...], int]]:
    """For each axis: its name, the axes to sum over, and how many cells tell one number of it."""
    found = []
    for axis, name in enumerate(evidence.site.place.axes[: cells.ndim]):
        across = tuple(other for other in range(cells.ndim) if other != axis)
        count = cells.sum(axis=across)
        some = count[count > 0]
        if cells.shape[axis] > 1 and len(some) > 1 and some.min() >= 3:
            found.append((name, across, axis))
    return found


def axis_factor(evidence: Evidence, result: Result) -> Finding | None:
    """One factor for each index of one axis (a channel's weight, a head's scale)."""
    found = floats(evidence, result)
    if found is None:
        return None
    actual, truth, cells = found
    best: Finding | None = None
    for name, across, axis in _kept(evidence, cells):
        t, a = np.where(cells, truth, 0), np.where(cells, actual, 0)
        ratio = _means(t * a, t * t, across)
        ratio = np.where(cells.any(axis=across, keepdims=True), ratio, 1)
        if np.ptp(ratio[cells.any(axis=across, keepdims=True)]) < 1e-6:
            continue  # one factor, or zeros
        weight = explained(evidence, result, ratio * truth, np.broadcast_to(ratio, truth.shape))
        kind = "channel" if axis == cells.ndim - 1 else name
        says = f"each index of {name} has a factor of its own: {numbers(ratio.ravel())}"
        if weight > (0.9 if best is None else best.weight):
            best = Finding(f"fit.{kind}_factor" if kind == "channel" else "fit.axis_factor", says, weight)
    return best


def axis_offset(evidence: Evidence, result: Result) -> Finding | None:
    """One number added for each index of one axis (a bias); one number added everywhere."""
    found = floats(evidence, result)
    if found is None:
        return None
    actual, truth, cells = found
    missing = np.where(cells, actual - truth, 0)
    best: Finding | None = None
    whole: Sequence[tuple[str, tuple[int, ...], int]] = [("", tuple(range(cells.ndim)), -1)] if cells.sum() > 4 else []
    for name, across, axis in (*whole, *_kept(evidence, cells)):
        offset = _means(missing, cells.astype(float), across)
        weight = explained(evidence, result, truth + offset)
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
