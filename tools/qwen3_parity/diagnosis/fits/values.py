"""What single numbers show: zeros with a scale (dropout), a coarser grid, NaN and infinities."""

from __future__ import annotations

import math

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.cells import explained, floats
from qwen3_parity.diagnosis.fits.concentration import block
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.site import Result


def not_finite(evidence: Evidence, result: Result) -> Finding | None:
    """NaN or infinity where the right op has none."""
    actual = evidence.actual
    if actual.dtype.kind != "f" or np.isfinite(actual).all():
        return None
    bad = ~np.isfinite(actual)
    kind = "NaN" if np.isnan(actual).any() else "infinite"
    says = f"{int(bad.sum())} of {bad.size} numbers are {kind}"
    if evidence.site.place.op == "softmax":
        return _softmax(evidence, bad, says)
    inputs = [one for one in evidence.site.inputs if one.dtype.kind == "f"]
    finite = all(np.isfinite(one).all() for one in inputs)
    large = [float(np.abs(one[np.isfinite(one)]).max()) for one in inputs if np.isfinite(one).any()]
    if large and max(large) > 255 and evidence.site.place.op.endswith("_norm"):
        says += f"; inputs reach {max(large):.3g}: a square overflows half precision from 256 on"
    elif large:
        says += (
            f"; inputs {'are finite and' if finite else 'are not all finite, those that are'} reach {max(large):.3g}"
        )
    return Finding("fit.not_finite", says, 1.0)


def _softmax(evidence: Evidence, bad: Array, says: str) -> Finding:
    """In a softmax: rows without a visible key, or scores too large for an exponential."""
    scores, mask = evidence.site.inputs
    rows: Array = np.logical_or.reduce(bad, axis=-1)
    seen = np.broadcast_to(np.logical_or.reduce(mask.astype(bool), axis=-1)[:, None], rows.shape)
    if not (rows & seen).any():
        where = "exactly the rows" if (rows == ~seen).all() else "rows"
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


def dropout(evidence: Evidence, result: Result) -> Finding | None:
    """A share of zeros, the rest larger by 1 / (1 - share)."""
    found = floats(evidence, result)
    if found is None:
        return None
    actual, truth, cells = found
    size = np.abs(truth) > 1e-6 * np.abs(truth[cells]).max()
    judged = evidence.judged & size
    zero = judged & (actual == 0)
    kept = judged & ~zero
    if not zero.any() or kept.sum() < 8:
        return None
    share = float(zero.sum() / judged.sum())
    scale = float(np.median(actual[kept] / truth[kept]))
    guess = np.where(actual == 0, 0.0, scale * truth)
    weight = explained(evidence, result, guess, scale)
    if weight < 0.9:
        return None
    likely = 1 - 1 / scale if scale > 1.0001 else 0.0
    if likely:
        says = f"{share:.0%} of it is zero and the rest {scale:.5g} × too large: dropout of {likely:.3g}"
        return Finding("fit.dropout", says, weight)
    where = block(evidence, zero)
    if where:
        return Finding("fit.concentrated", f"{where} of it is zero, the rest is right", weight)
    return Finding("fit.zeros", f"{share:.0%} of it is zero, the rest is right", weight)


def grid(evidence: Evidence, result: Result) -> Finding | None:
    """Every number is one of a narrower type's: stored or computed in it."""
    found = floats(evidence, result)
    if found is None or evidence.dtype not in (pb.F32, pb.F64):
        return None
    actual, truth, cells = found
    some = evidence.actual[cells]
    some = some[some != 0]
    if len(some) < 8:
        return None
    for what, rounded in ROUNDED:
        with np.errstate(all="ignore"):
            if np.mean(rounded(some) == some) < 0.999:
                continue
            near = explained(evidence, result, rounded(truth).astype(np.float64))
        says = f"its numbers are those of {what}"
        says += ", and right when rounded to it" if near == 1 else ", and differ from the right ones rounded to it"
        return Finding("fit.grid", says, max(near, 0.6))
    return _eight_bits(evidence, actual, truth, cells)


def _eight_bits(evidence: Evidence, actual: Array, truth: Array, cells: Array) -> Finding | None:
    """Multiples of a 127th of the largest number: of all, of each row of channels, of each channel, of each head."""
    axes = tuple(range(actual.ndim))
    groups = {"the whole": axes, "each row of channels": axes[-1:], "each channel": axes[:-1], "each head": axes[2:]}
    for where, across in groups.items():
        peak = np.abs(actual).max(axis=across, keepdims=True)
        steps = actual / np.where(peak > 0, peak / 127, 1)
        steps_there = np.mean(np.round(steps)[cells] != 0) > 0.5
        small = np.abs(actual - truth) <= np.where(peak > 0, peak, 1) / 100
        if np.mean((np.abs(steps - np.round(steps)) < 1e-2)[cells]) > 0.99 and steps_there and small[cells].all():
            name = "cache.quantised" if evidence.site.place.op.startswith("cache") else "fit.grid"
            return Finding(name, f"its numbers are multiples of 1 / 127 of the largest of {where}: 8-bit integers", 0.9)
    return None
