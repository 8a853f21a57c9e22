"""The judged cells of a wrong tap, ready for fitting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_SURE = math.log(1e5)
"""How much less likely than a hit by chance a guess must be."""
_EXACT = math.log(2.0**20)
"""What one cell of a copy tells that has the same bits."""
BY_CHANCE = 0.4
"""What a guess tells that reproduces no more numbers than it was fitted to."""


def floats(tap: WrongTap) -> tuple[Array, Array, Array] | None:
    """Actual values, truth (both float64) and the wrong cells; None for integers, and where nothing is finite."""
    if tap.truth.dtype.kind != "f" or tap.actual.dtype.kind != "f":
        return None
    cells = tap.wrong & np.isfinite(tap.actual) & np.isfinite(tap.truth)
    return (tap.actual, tap.truth, cells) if cells.any() else None


def explained(
    tap: WrongTap, guess: Array, scale: Array | float = 1.0, *, fitted: int = 0, among: Array | None = None
) -> float:
    """How much of the error a guess tells, 0 to 1; 1 when it reproduces the wrong cells within budget.

    `scale` is what the guess multiplies the truth by: the noise of the truth grows with it. `fitted` numbers were read
    off the tap: what reproduces no more than those is `BY_CHANCE`. The guess is one at the cells `among` alone.
    """
    usable = floats(tap)
    if usable is None:
        return 0.0
    actual, truth, cells = usable
    cells = cells if among is None else cells & among
    before, left = np.abs(actual - truth)[cells], np.abs(actual - guess)[cells]
    limits = (np.maximum(np.abs(scale), 1) * tap.limits)[cells]
    if before.size and (left <= limits).all():
        return 1.0 if _surprise(before, limits, fitted) >= _SURE else BY_CHANCE
    size, rms, rest = (
        float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0 for values in (actual[cells], before, left)
    )
    rms = min(rms, size)  # of next to nothing that it is nothing tells nothing
    return 0.0 if not math.isfinite(rest) or rms == 0 else max(0.0, min(0.99, 1 - rest / rms))


def _surprise(errors: Array, limits: Array, fitted: int) -> float:
    """How unlikely it is that numbers somewhere about the right ones hit the wrong ones: -log of it.

    A number that was fitted hits one of them anyway.
    """
    with np.errstate(all="ignore"):
        each = np.where(limits > 0, np.log(errors / limits), _EXACT)
    return float(np.sort(np.clip(each, 0, _EXACT))[: max(errors.size - fitted, 0)].sum())


def worth_saying(name: str, says: str, weight: float, least: float = 0.5) -> Finding | None:
    """A finding that tells enough of the error."""
    return Finding(name, says, weight) if weight >= least else None


def numbers(values: Sequence[float] | Array, most: int = 6) -> str:
    """Some numbers in words."""
    listed = ", ".join(f"{float(value):.4g}" for value in list(values)[:most])
    return listed + (" …" if len(values) > most else "")


def indices(values: Sequence[int] | Array, most: int = 8) -> str:
    """Some indices in words."""
    listed = ", ".join(str(int(value)) for value in list(values)[:most])
    return listed + (" …" if len(values) > most else "")
