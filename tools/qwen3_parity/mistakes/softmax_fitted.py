"""Wrong probabilities whose number the recorded ones tell: a temperature, a further term, a bias, dropout."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.bias_tables import GROUPINGS, Labels, fitted_up_to_rows, spread_out
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import recorded, visible_cells
from qwen3_parity.mistakes.softmax_forms import (
    MASK_FIX,
    SUM_FIX,
    added,
    halves,
    own_keys,
    parts,
    peak,
    soft,
    softmax_hypothesis,
    times,
    unit_of,
)
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


def fitted(site: Site) -> Iterator[Hypothesis]:
    """What the numbers tell: a temperature, an additive mask, a further term of the sum, a bias, dropout."""
    actual, cells = recorded(site), visible_cells(site)
    if actual is None or cells is None or not cells.any():
        return
    s, visible = parts(site)
    actual = actual.astype(np.float64)
    good = cells & (actual > 1e-30)
    with np.errstate(all="ignore"):
        logs = np.where(good, np.log(np.where(good, actual, 1)), 0.0)
    yield from _fitted_factor(s, logs, good, site)
    yield from _fitted_sum(s, actual, visible, good)
    yield from _fitted_constant(s, logs, good, actual, visible)
    yield from _fitted_halves(actual, good, site)
    yield from _fitted_bias(site)
    if (actual[cells] == 0).any():
        yield _dropout()
        yield from _fitted_threshold(s, actual, visible, cells)


def _fitted_factor(s: Array, logs: Array, good: Array, site: Site) -> Iterator[Hypothesis]:
    """The slope of log p over the scores within a row."""
    count = np.maximum(good.sum(-1, keepdims=True), 1)
    x = np.where(good, s - (s * good).sum(-1, keepdims=True) / count, 0)
    y = np.where(good, logs - logs.sum(-1, keepdims=True) / count, 0)
    slope = float((x * y).sum() / max((x * x).sum(), 1e-300))
    if np.isfinite(slope) and abs(slope - 1) > 1e-6:
        says = f"multiplies the scores by {named(slope, site.config) or f'{slope:.7g}'}"
        yield softmax_hypothesis(
            "softmax.temperature", says, "the scores are scaled already", times(lambda _: slope), 2
        )


def _fitted_sum(s: Array, actual: Array, visible: Array, good: Array) -> Iterator[Hypothesis]:
    """A constant in the denominator, after or before the maximum is subtracted; a constant factor."""
    right = soft(s, visible)
    rows = good.any(-1)
    sums = np.where(good, actual, 0).sum(-1)[rows] / np.maximum(np.where(good, right, 0).sum(-1)[rows], 1e-300)
    if not len(sums) or not (sums > 0).all():
        return
    factor = float(np.median(sums))
    yield softmax_hypothesis("softmax.scaled", f"multiplies the probabilities by {factor:.7g}", SUM_FIX,
                      lambda s, visible, _: (factor * soft(s, visible), visible), 2)  # fmt: skip
    weight = np.exp(np.where(visible, s, -np.inf) - peak(s, visible)).sum(-1)[rows]
    extra = weight * (1 / sums - 1)
    after, before = float(np.median(extra)), float(np.median(extra * np.exp(peak(s, visible)[..., 0][rows])))
    near = float(f"{after:.1e}")
    after = near if abs(near - after) < 0.05 * abs(after) and abs(after) < 0.01 else after
    name = "softmax.epsilon" if abs(after) < 0.01 else "softmax.sink"
    yield softmax_hypothesis(name, f"adds {after:.6g} to the sum of exponentials", SUM_FIX,
                      lambda s, visible, _: (soft(s, visible, after), visible), 3)  # fmt: skip
    if before > 0:
        says = f"has a further key of score {math.log(before):.6g}"
        shaped = lambda s, visible, _: (soft(s, visible, before * np.exp(-peak(s, visible))), visible)  # noqa: E731
        yield softmax_hypothesis("softmax.sink", says, SUM_FIX, shaped, 3)


def _fitted_constant(s: Array, logs: Array, good: Array, actual: Array, visible: Array) -> Iterator[Hypothesis]:
    """What is added to hidden scores: log p - score is that much less for a hidden key than for a visible one."""
    leaked = good.any(-1, keepdims=True) & ~visible & (actual > 1e-30)
    if not leaked.any():
        return
    with np.errstate(all="ignore"):
        hidden = np.log(np.where(leaked, actual, 1)) - s
    level = np.where(good, logs - s, 0).sum(-1, keepdims=True) / np.maximum(good.sum(-1, keepdims=True), 1)
    constant = float(np.median((hidden - level)[leaked]))
    near = round(constant, 3) if abs(constant - round(constant, 3)) < 1e-4 else constant
    yield softmax_hypothesis("softmax.weak_mask", f"adds {near:.6g} to hidden scores", MASK_FIX, added(0, near), 1)


def _fitted_bias(site: Site) -> Iterator[Hypothesis]:
    """Something was added to the scores on the way; how much is told by each site's own numbers."""
    for rank, (words, labels) in enumerate(GROUPINGS[1:]):

        def compute(site: Site, labels: Labels = labels) -> Result | None:
            actual, cells = recorded(site), visible_cells(site)
            if actual is None or cells is None:
                return None
            s, visible = parts(site)
            good = cells & (actual > 1e-30)
            with np.errstate(all="ignore"):
                added = np.where(good, np.log(np.where(good, actual, 1).astype(np.float64)) - s, 0.0)
            table = fitted_up_to_rows(added, labels(site, s.shape), good)
            if table is None:
                return None
            biased = s + spread_out(labels(site, s.shape), table)
            y = soft(biased, visible)
            return y, unit_of(y, biased, visible)

        fix = "Qwen3 adds nothing to its scores: positions are in RoPE"
        yield Hypothesis("scores.extra_bias", f"adds {words} first", fix, compute, 4 + rank)


def _fitted_halves(actual: Array, good: Array, site: Site) -> Iterator[Hypothesis]:
    """A softmax of each half, each times a number of its own."""
    own = own_keys(site, actual)
    if own >= actual.shape[-1]:
        return
    sums = [np.where(good, actual, 0)[..., part].sum(-1) for part in (slice(own), slice(own, None))]
    shares = [float(np.median(one[one > 0])) if (one > 0).any() else 0.0 for one in sums]
    says = f"has a softmax of its own for each half, times {shares[0]:.6g} and {shares[1]:.6g}"
    shaped = halves(lambda a, b: (shares[0] * a, shares[1] * b))
    yield softmax_hypothesis("softmax.two_halves", says, SUM_FIX, shaped, 2)


def _fitted_threshold(s: Array, actual: Array, visible: Array, cells: Array) -> Iterator[Hypothesis]:
    """Small probabilities are zero, the others as they are or with a sum of 1."""
    right = soft(s, visible)
    lost, kept = right[cells & (actual == 0)], right[cells & (actual > 0)]
    below = lost[lost > 1e-30]
    if not len(below) or not len(kept) or below.max() >= kept.min():
        return
    edge = float(np.sqrt(below.max() * kept.min()))
    near = float(f"{edge:.0e}")
    edge = near if below.max() < near < kept.min() else edge
    fix = "keep every probability, small ones too"

    def cut(s: Array, visible: Array, _: Site) -> tuple[Array, Array]:
        y = soft(s, visible)
        return np.where(y < edge, 0.0, y), visible

    yield softmax_hypothesis("softmax.small_dropped", f"sets probabilities below {edge:.3g} to zero", fix, cut, 2)


def _dropout() -> Hypothesis:
    """Some probabilities are 0, the others are larger by one factor."""

    def compute(site: Site) -> Result | None:
        actual = recorded(site)
        y, unit = OPS["softmax"].truth(site)
        if actual is None or actual.shape != y.shape:
            return None
        kept = (actual != 0) & (y > 1e-30)
        if not kept.any():
            return None
        factor = float(np.median(actual[kept] / y[kept]))
        if factor < 1.001:
            return None
        return np.where(kept, factor * y, 0.0), None if unit is None else factor * unit

    return Hypothesis("softmax.dropout", "drops some probabilities and raises the others: dropout is on",
                      "evaluate in eval mode: no dropout", compute, 3)  # fmt: skip
