"""Errors that are as those of rounding: beside a factor for each row, or alone, as arithmetic in half precision has."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import floats, numbers
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.factors import factors_of
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 6
"""Numbers of a row that its factor is told from, on an average."""
_LEFT, _FINE = 0.12, 0.03
"""What factors may leave of the error, and of the numbers: 8 bits leave less than a hundredth of these."""
_FACTORS = 0.05, 20.0
_RESCALED, _SCATTERED = 0.93, 0.45
"""What each tells."""
_NUMBERS = 64
"""Numbers that show that errors scatter."""
_EVEN, _FLAT, _BIASED, _MOSTLY = 5.0, 12.0, 0.2, 0.5
"""The largest row's error by the smallest's, each of its size; the fourth power's mean by the square's (3 where errors
are normal, 9 where each is of its own number's size); how much of it a constant tells; how much factors leave."""
_OPS = 10
"""Kinds of ops of a slice, from which on any small error inside scatters."""
_WRONG = 0.6
"""The part of the numbers that are wrong."""
_SIZES = 2.0**-14, 2.0**-4
"""The size of errors for a row's, from float16's roundings to those of 4 bits."""


def rescaled_rows(tap: WrongTap) -> Finding | None:
    """Each row is the right one times a number of its own, up to what rounding leaves."""
    usable = floats(tap)
    if usable is None or tap.truth.ndim < 2 or tap.axes[-1] == "key":
        return None
    actual, truth, cells = usable
    factors = factors_of(tap, tap.truth.shape, (tap.truth.ndim - 1,))
    if factors is None or factors.alike:
        return None
    count, spare = int(cells.sum()), int(cells.sum()) - factors.count
    by = factors.values[factors.values != 1]
    if count < _FEWEST * factors.count or not ((by > _FACTORS[0]) & (by < _FACTORS[1])).all():
        return None
    rest = np.square((actual - factors.values * truth)[cells]).sum() / spare
    error, size = (np.square(values[cells]).mean() for values in (actual - truth, actual))
    if not rest <= min(_LEFT**2 * error, _FINE**2 * size):
        return None
    left = f"that leaves {np.sqrt(rest / error):.2g} of the error, as rounding would"
    says = f"each row of {tap.axes[-1]} has a factor of its own: {numbers(by)}; {left}: scales of other rows?"
    return Finding("fit.row_factor", says, _RESCALED)


def scattered(tap: WrongTap) -> Finding | None:
    """Errors of nearly all numbers, as large for each row's size, of no sign: roundings somewhere inside."""
    usable = floats(tap)
    if usable is None or not tap.wide or tap.truth.ndim < 2 or len(tap.ops) > _OPS:
        return None
    actual, truth, wrong = usable
    judged = tap.judged & np.isfinite(actual) & np.isfinite(truth)
    if judged.sum() < _NUMBERS or wrong.sum() < _WRONG * judged.sum():
        return None
    error = np.where(judged, actual - truth, 0)
    squares = np.where(judged, truth * truth, 0).sum(-1)
    by = np.where(judged, truth * error, 0).sum(-1) / np.where(squares > 0, squares, 1)
    rest = error - np.where(judged, by[..., None] * truth, 0)  # a statistic that is rounded is a factor of its row
    sizes, errors = (_of_rows(values, judged) for values in (truth, rest))
    rows = (sizes > 0) & (judged.sum(-1) > _FEWEST)
    if not rows.any() or np.square(rest).sum() < _MOSTLY**2 * np.square(error).sum():
        return None
    part = errors[rows] / sizes[rows]
    scaled = (rest / np.where(sizes > 0, sizes, 1)[..., None])[judged & rows[..., None]]
    square = np.square(scaled).mean()
    even = part.max() <= _EVEN * part.min() and (scaled**4).mean() <= _FLAT * square**2
    if not even or scaled.mean() ** 2 > _BIASED**2 * square or not _SIZES[0] <= np.sqrt(square) <= _SIZES[1]:
        return None
    says = f"its errors scatter as roundings do, {np.sqrt(square):.2g} of each row's size"
    types = "a step in bfloat16 makes 0.001 to 0.01, in float16 0.0001 to 0.001"
    return Finding("fit.scattered", f"{says} ({types})", _SCATTERED)


def _of_rows(values: Array, judged: Array) -> Array:
    """The RMS of each row's judged numbers."""
    counts = np.maximum(judged.sum(-1), 1)
    return np.asarray(np.sqrt(np.where(judged, values * values, 0).sum(-1) / counts))
