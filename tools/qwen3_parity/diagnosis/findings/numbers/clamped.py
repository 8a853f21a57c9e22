"""Numbers that are held within bounds: of all, of each channel, of each row."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import floats, numbers
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.groupings import groupings
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_EQUAL = 2.0**-21
"""How far numbers that stand at a bound may be apart, of its size."""
_FEWEST = 2
"""Numbers at a bound beside the first one at each: it is read off that one."""


def clamped(tap: WrongTap) -> Finding | None:
    """The wrong numbers stand at the largest magnitude of their group, the right ones would be beyond it."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, wrong = usable
    judged = tap.judged & np.isfinite(actual)
    for grouping in groupings(truth.shape, tap.axes):
        parts, expected, cells, counted = (grouping.of(values) for values in (actual, truth, wrong, judged))
        for low, high in _bounds(parts, counted, grouping.across, alone=grouping.words == "the whole"):
            at = _at(parts, low, high)
            groups = (cells & at).any(grouping.across, keepdims=True)
            others = int((counted & at & groups).sum()) - int(groups.sum())
            if not at[cells].all() or others < _FEWEST or not (_beyond(expected, low, high) | ~cells).all():
                continue
            bounds = np.broadcast_to(high, groups.shape)[groups] if np.isfinite(high).any() else np.ravel(low)
            return Finding("invariant.clamped", _says(low, high, bounds, grouping.words, int(cells.sum())), 1.0)
    return None


def _bounds(parts: Array, counted: Array, across: tuple[int, ...], *, alone: bool) -> list[tuple[Array, Array]]:
    """Symmetric bounds of each group; of everything also an upper or a lower one alone."""
    high = np.abs(parts).max(across, keepdims=True, where=counted, initial=0)
    pairs = [(-high, high)]
    if alone:
        top = parts.max(across, keepdims=True, where=counted, initial=-np.inf)
        bottom = parts.min(across, keepdims=True, where=counted, initial=np.inf)
        pairs += [(np.full(top.shape, -np.inf), top), (bottom, np.full(top.shape, np.inf))]
    return pairs


def _at(values: Array, low: Array, high: Array) -> Array:
    near: Array = np.zeros(values.shape, bool)
    for bound in (low, high):
        near |= (
            np.isfinite(bound) & ((low != high) | np.isinf(low)) & (np.abs(values - bound) <= _EQUAL * np.abs(bound))
        )
    return near


def _beyond(truth: Array, low: Array, high: Array) -> Array:
    return np.asarray((truth < low) | (truth > high))


def _says(low: Array, high: Array, bounds: Array, words: str, count: int) -> str:
    if not np.isfinite(high).any():
        return f"no number is below {float(low.ravel()[0]):.6g}: {count} that should be are clamped there"
    if not np.isfinite(low).any():
        return f"no number is above {float(high.ravel()[0]):.6g}: {count} that should be are clamped there"
    of = f"±{float(bounds[0]):.6g}" if words == "the whole" else f"a bound of {words}: ±{numbers(bounds)}"
    return f"no number is beyond {of}; {count} that should be are clamped there"
