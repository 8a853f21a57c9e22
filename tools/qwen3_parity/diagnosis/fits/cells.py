"""The judged cells of a wrong tap, ready for fitting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence, as_stored
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.site import Result


def wrong_cells(evidence: Evidence, result: Result) -> Array | None:
    """Bool, True = judged and beyond the op's headroom; None for another shape."""
    errors = evidence.errors(result)
    return None if errors is None else np.asarray(errors > max(headroom("op", op).max for op in evidence.ops))


def floats(evidence: Evidence, result: Result) -> tuple[Array, Array, Array] | None:
    """Actual values, truth (both float64) and the wrong cells; None for integers, another shape, nothing finite."""
    truth, _ = result
    cells = wrong_cells(evidence, result)
    if cells is None or truth.dtype.kind != "f" or evidence.actual.dtype.kind != "f":
        return None
    cells = cells & np.isfinite(evidence.actual) & np.isfinite(truth)
    if not cells.any():
        return None
    return evidence.actual.astype(np.float64), truth.astype(np.float64), cells


def explained(evidence: Evidence, result: Result, guess: Array, scale: Array | float = 1.0) -> float:
    """How much of the error a guess tells, 0 to 1; 1 when it reproduces the tap (or its wrong cells) within budget.

    `scale` is what the guess multiplies the truth by: the noise of the truth grows with it.
    """
    truth, unit = result
    found = floats(evidence, result)
    if found is None:
        return 0.0
    actual, truth, cells = found
    before = float(np.sqrt(np.mean((actual - truth)[cells] ** 2)))
    after = float(np.sqrt(np.mean((actual - guess)[cells] ** 2)))
    if unit is None:
        within = bool((actual == guess)[cells].all())
    else:
        wide = np.maximum(np.abs(scale), 1) * unit
        if evidence.share((guess, wide)) <= 1:
            return 1.0
        room = max(headroom("op", op).max for op in evidence.ops)
        stored = as_stored(wide, guess, evidence.site.place.op, evidence.dtype)
        within = bool((np.abs(actual - guess)[cells] <= room * stored[cells]).all())
    if within:
        return 1.0
    return 0.0 if not math.isfinite(after) or before == 0 else max(0.0, min(0.99, 1 - after / before))


def worth_saying(name: str, says: str, weight: float, least: float = 0.5) -> Finding | None:
    """A finding that tells enough of the error."""
    return Finding(name, says, weight) if weight >= least else None


def numbers(values: Sequence[float] | Array, most: int = 6) -> str:
    """Some numbers in words."""
    some = ", ".join(f"{float(value):.4g}" for value in list(values)[:most])
    return some + (" …" if len(values) > most else "")


def indices(values: Sequence[int] | Array, most: int = 8) -> str:
    """Some indices in words."""
    some = ", ".join(str(int(value)) for value in list(values)[:most])
    return some + (" …" if len(values) > most else "")
