"""What single numbers show: NaN and infinities, zeros with a scale (dropout)."""

from __future__ import annotations

import math

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.concentration import block
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap


def not_finite(tap: WrongTap) -> Finding | None:
    """NaN or infinity where the right op has none."""
    actual = tap.actual
    if actual.dtype.kind != "f" or np.isfinite(actual).all():
        return None
    bad = ~np.isfinite(actual)
    kind = "NaN" if np.isnan(actual).any() else "infinite"
    says = f"{int(bad.sum())} of {bad.size} numbers are {kind}"
    if "softmax" in tap.ops and (of_softmax := _softmax(tap, bad, says)) is not None:
        return of_softmax
    inputs = [values for values in _read(tap) if values.dtype.kind == "f"]
    finite = all(np.isfinite(values).all() for values in inputs)
    large = [float(np.abs(values[np.isfinite(values)]).max()) for values in inputs if np.isfinite(values).any()]
    if large and max(large) > 255 and any(op.endswith("_norm") or op == "rsqrt" for op in tap.ops):
        says += f"; inputs reach {max(large):.3g}: a square overflows half precision from 256 on"
    elif large:
        says += (
            f"; inputs {'are finite and' if finite else 'are not all finite, those that are'} reach {max(large):.3g}"
        )
    return Finding("fit.not_finite", says, 1.0)


def _read(tap: WrongTap) -> list[Array]:
    return [values for key in tap.reads if (values := tap.recorded(*key)) is not None]


def _softmax(tap: WrongTap, bad: Array, says: str) -> Finding | None:
    """In a softmax: rows without a visible key, or scores too large for an exponential; None without scores, mask."""
    scores = next((values for values in _read(tap) if values.shape == tap.actual.shape), None)
    mask = next((values for values in _read(tap) if values.dtype.kind == "b" and values.ndim == 3), None)
    if scores is None or mask is None:
        return None
    rows: Array = np.logical_or.reduce(bad, axis=-1)
    visible = np.broadcast_to(np.logical_or.reduce(mask, axis=-1)[:, None], rows.shape)
    if not (rows & visible).any():
        where = "exactly the rows" if (rows == ~visible).all() else "rows"
        says += (
            f", {where} without a visible key: hidden scores must stay finite (finfo.min, not -inf, not added twice)"
        )
        return Finding("softmax.not_finite", says, 1.0)
    peak = np.where(mask[:, None], scores, -math.inf).max(axis=-1)
    least = float(np.min(peak, where=rows, initial=math.inf))
    if least > 80:
        says += f", in rows whose scores reach {least:.3g} and more: the maximum is not subtracted"
        return Finding("softmax.no_max", says, 1.0)
    return Finding("softmax.not_finite", says + ", rows with visible keys among them", 1.0)


def dropout(tap: WrongTap) -> Finding | None:
    """A share of zeros, the rest larger by 1 / (1 - share)."""
    cells = floats(tap)
    if cells is None:
        return None
    actual, truth, wrong = cells
    size = np.abs(truth) > 1e-6 * np.abs(truth[wrong]).max()
    judged = tap.judged & size
    zero = judged & (actual == 0)
    rest = judged & ~zero
    if not zero.any() or rest.sum() < 8:
        return None
    share = float(zero.sum() / judged.sum())
    scale = float(np.median(actual[rest] / truth[rest]))
    guess = np.where(actual == 0, 0.0, scale * truth)
    weight = explained(tap, guess, scale)
    if weight < 0.9:
        return None
    likely = 1 - 1 / scale if scale > 1.0001 else 0.0
    if likely:
        says = f"{share:.0%} of it is zero and the rest {scale:.5g} × too large: dropout of {likely:.3g}"
        return Finding("fit.dropout", says, weight)
    where = block(tap, zero)
    if where:
        return Finding("fit.concentrated", f"{where} of it is zero, the rest is right", weight)
    return Finding("fit.zeros", f"{share:.0%} of it is zero, the rest is right", weight)
