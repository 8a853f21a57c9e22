"""Where a wrong tap's queries stand: slots, and positions as they were recorded."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap


def begin(tap: WrongTap) -> int | None:
    """The slot of the step's first query: so many queries had the same tap before; None where a step has none."""
    axis, first = tap.axes.index("query") if "query" in tap.axes else None, 0
    for step in range(tap.step):
        values = tap.recorded(tap.name, step)
        if axis is None or values is None or values.ndim != len(tap.axes):
            return None
        first += values.shape[axis]
    return first


def slots(tap: WrongTap) -> Array | None:
    """The slot of each token, float64, of the tap's shape with 1 where it does not depend on one; None without one."""
    axis = next((tap.axes.index(name) for name in ("query", "key") if name in tap.axes), None)
    first = begin(tap) if axis is not None and tap.axes[axis] == "query" else 0
    if axis is None or first is None:
        return None
    size = tap.truth.shape[axis]
    return np.arange(first, first + size, dtype=np.float64).reshape(
        [size if at == axis else 1 for at in range(tap.truth.ndim)]
    )


def positions(tap: WrongTap) -> Array | None:
    """The position of each token, as `slots`, where they were recorded for batch and query."""
    if "query" not in tap.axes or tap.axes[0] != "batch":
        return None
    axis, stack = tap.axes.index("query"), tap.name.partition(".")[0]
    names = [name for name, step in tap.keys if step == tap.step and name.endswith("position_ids")]
    for name in sorted(names, key=lambda name: not name.startswith(stack)):
        ids = tap.recorded(name, tap.step)
        if ids is not None and ids.shape == (tap.truth.shape[0], tap.truth.shape[axis]):
            form = [1] * tap.truth.ndim
            form[0], form[axis] = ids.shape
            return np.asarray(ids, np.float64).reshape(form)
    return None
