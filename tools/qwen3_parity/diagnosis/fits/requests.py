"""What the request before left: the positions of a wrong tap that are, but for rounding, its golden's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.cells import wrong_cells
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.diagnosis.fits.slots import Slot, listed_by_row
from qwen3_parity.mistakes.requests import earlier
from qwen3_spec.site import Result, Site

_NEAR = 1e-3
"""How far numbers may be from the golden's, of their size: a candidate drifts from it by roundings."""
_FEWEST = 4
"""Numbers of a position that are the same by no chance."""
_MOST = 0.9
"""The share of the wrong positions that must be the request before's."""


def earlier_positions(site: Site) -> tuple[Array, Sequence[Slot]]:
    """The same tap in the golden of the request before: `[position, number]`, and which position each is."""
    before, axes = earlier(site), site.place.axes
    at = _sequence(axes)
    taps = [] if before is None or at is None else [one for one in before if one.info.name == site.place.name]
    cached = site.place.op.startswith("cache")
    rows, slots = list[Array](), list[Slot]()
    for tap in taps[-1:] if cached else taps:  # a cache has every slot in the end
        values = tap.values()
        if at is None or values.ndim != len(axes) or values.dtype.kind != "f":
            continue
        where = f"the request before's {site.place.name.rpartition('.')[2]} (step {tap.info.step})"
        found = by_position(values, at)
        rows += [found.reshape(-1, found.shape[2])]
        slots += [Slot(where, row, slot) for row in range(found.shape[0]) for slot in range(found.shape[1])]
    return (np.concatenate(rows) if rows else np.zeros((0, 0))), slots


def by_position(values: Array, at: int) -> Array:
    """`[batch, position, number]`; `at` is the axis of positions."""
    found = np.moveaxis(values, at, 1)
    return found.reshape(*found.shape[:2], -1)


def of_earlier(vector: Array, rows: Array, slots: Sequence[Slot]) -> Slot | None:
    """The position of the request before that holds a vector, if one does."""
    if rows.shape[0] == 0 or rows.shape[1] != len(vector) or len(vector) < _FEWEST:
        return None
    size = float(np.linalg.norm(vector))
    far = np.linalg.norm(rows - vector, axis=1)
    nearest = int(np.argmin(far))
    return slots[nearest] if far[nearest] <= _NEAR * size and np.isfinite(size) else None


def earlier_request(evidence: Evidence, result: Result) -> Finding | None:
    """The wrong positions of a tap are those of the request that ran before on the same object."""
    site, at = evidence.site, _sequence(evidence.site.place.axes)
    if at is None or evidence.actual.dtype.kind != "f" or site.place.op.startswith("cache"):
        return None
    rows, slots = earlier_positions(site)
    cells = wrong_cells(evidence, result) if slots else None
    if cells is None:
        return None
    wrong, actual = by_position(cells, at).any(axis=2), by_position(evidence.actual, at)
    found: dict[int, list[tuple[int, Slot]]] = {}
    for row, position in np.argwhere(wrong):
        source = of_earlier(actual[row, position], rows, slots)
        if source is not None:
            found.setdefault(int(row), []).append((int(position), source))
    count = sum(map(len, found.values()))
    if not count or count < _MOST * int(wrong.sum()):
        return None
    return Finding("fit.earlier_request", listed_by_row(found, "position"), 1.0)


def _sequence(axes: Sequence[str]) -> int | None:
    """The axis of positions; None where there is none, or two."""
    found = [i for i, name in enumerate(axes) if name in ("query", "key")]
    return found[0] if len(found) == 1 and axes[0] == "batch" else None
