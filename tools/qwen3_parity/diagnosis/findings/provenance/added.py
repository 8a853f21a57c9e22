"""Another tap's numbers that are added to what belongs here: an accumulator that was not cleared, a branch too many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.sources import layer_of
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

_MOST = 48
"""Taps that are looked at, the nearest first."""
_FEWEST = 8
"""Wrong numbers that tell it."""
_WHOLE = 1e-4
"""How near a factor is to the number that it is meant to be."""


def added(tap: WrongTap) -> Finding | None:
    """The error is another recorded tap, or that times one number."""
    if tap.truth.dtype.kind != "f" or tap.unit is None or tap.wrong.sum() < _FEWEST:
        return None
    judged = tap.judged & np.isfinite(tap.actual) & np.isfinite(tap.truth)
    error = np.where(judged, tap.actual - tap.truth, 0)
    for key, values in _near(tap):
        size = float(np.vdot(values[judged], values[judged]))
        if not size or not np.isfinite(size):
            continue
        by = float(np.vdot(error[judged], values[judged])) / size
        whole = round(by)
        by = float(whole) if whole and abs(by - whole) <= _WHOLE else by
        if abs(by) > _WHOLE and tap.reproduced(tap.truth + by * values)[judged].all():
            times = "" if abs(by) == 1 else f" × {abs(by):.6g}"
            says = f"it has {key[0]}{times} {'added' if by > 0 else 'subtracted'}"
            return Finding("from.added", says, 1.0)
    return None


def _near(tap: WrongTap) -> Iterator[tuple[Key, Array]]:
    """What the tap reads, then the taps of its layer and step before it, the nearest first, of its shape."""
    keys = list(tap.keys)
    before = keys[: keys.index(tap.key)] if tap.key in keys else []
    layer = [key for key in before if key[1] == tap.step and layer_of(key[0]) == layer_of(tap.name)]
    for key in list(dict.fromkeys([*tap.reads, *reversed(layer)]))[:_MOST]:
        values = None if key == tap.key else tap.recorded(*key)
        if values is not None and values.dtype.kind == "f" and values.shape == tap.truth.shape:
            yield key, values
