"""Wrong probabilities whose number the recorded ones tell: a temperature, a further term, a bias, dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.bias_tables import GROUPINGS, Labels, fitted_up_to_rows, spread_out
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.fitting import fitted as numbers
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import observe, recorded, visible_cells
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.softmax_forms import (
    MASK_FIX,
    SUM_FIX,
    Shaped,
    added,
    halves,
    parts,
    peak,
    soft,
    softmax_hypothesis,
    times,
    unit_of,
)
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_Build = Callable[..., Shaped]
_FAMILIES: tuple[tuple[str, str, str, _Build, tuple[tuple[float, ...], ...], Rank], ...] = (
    ("temperature", "multiplies the scores by {}", "the scores are scaled already",
     lambda k: times(lambda _: k), ((1.0,), (0.3,), (3.0,)), RARE),
    ("scaled", "multiplies the probabilities by {}", SUM_FIX,
     lambda k: lambda s, v, _: (k * soft(s, v), v), ((1.0,),), RARE),
    ("epsilon", "adds {} to the sum of exponentials", SUM_FIX,
     lambda k: lambda s, v, _: (soft(s, v, k), v), ((1e-3,),), RARE + 1),
    ("sink", "has a further key of score {}", SUM_FIX,
     lambda k: lambda s, v, _: (soft(s, v, np.exp(k - peak(s, v))), v), ((0.0,), (-3.0,)), RARE + 1),
    ("weak_mask", "adds {} to hidden scores", MASK_FIX,
     lambda k: added(0, k), ((-3.0,), (-12.0,), (-24.0,), (-36.0,), (-60.0,)), PLAIN + 1),
    ("two_halves", "has a softmax of its own for each half, times {} and {}", SUM_FIX,
     lambda a, b: halves(lambda x, y: (a * x, b * y)), ((0.5, 0.5),), RARE),
)  # fmt: skip
"""Softmaxes with free numbers: the end of the name, what is done, what is right, the softmax, first guesses, rank."""
_LARGE = 0.01
"""What nobody adds to a sum lest it be 0 is more."""


def fitted(site: Site) -> Iterator[Hypothesis]:
    """What the numbers tell: a temperature, an additive mask, a further term of the sum, a bias, dropout."""
    actual, cells, observed = recorded(site), visible_cells(site), observe(site)
    if actual is None or cells is None or not cells.any():
        return
    for name, says, fix, build, starts, rank in _FAMILIES:
        yield from numbers(site, observed, partial(_name, name), fix, partial(_says, says, site),
                           partial(_computed, build), *starts, rank=rank)  # fmt: skip
    yield from _fitted_bias(site)
    if (actual[cells] == 0).any():
        s, visible = parts(site)
        yield _dropout()
        yield from _fitted_threshold(s, actual.astype(np.float64), visible, cells)


def _name(name: str, *numbers: float) -> str:
    return "softmax.sink" if name == "epsilon" and abs(numbers[0]) > _LARGE else f"softmax.{name}"


def _says(says: str, site: Site, *numbers: float) -> str:
    return says.format(*(named(number, site.config) or f"{number:.7g}" for number in numbers))


def _computed(build: _Build, *arguments: Any) -> Array | None:
    *numbers, site = arguments
    result = build(*numbers)(*parts(site), site)
    return None if result is None else result[0]


def _fitted_bias(site: Site) -> Iterator[Hypothesis]:
    """Something was added to the scores on the way; how much is told by each site's own numbers."""
    for steps, (words, labels) in enumerate(GROUPINGS[1:]):

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
        yield Hypothesis("scores.extra_bias", f"adds {words} first", fix, compute, COMBINED + steps)


def _fitted_threshold(s: Array, actual: Array, visible: Array, cells: Array) -> Iterator[Hypothesis]:
    """Small probabilities are zero, the others as they are or with a sum of 1."""
    probs = soft(s, visible)
    lost, remaining = probs[cells & (actual == 0)], probs[cells & (actual > 0)]
    below = lost[lost > 1e-30]
    if not len(below) or not len(remaining) or below.max() >= remaining.min():
        return
    edge = float(np.sqrt(below.max() * remaining.min()))
    near = float(f"{edge:.0e}")
    edge = near if below.max() < near < remaining.min() else edge
    fix = "keep every probability, small ones too"

    def cut(s: Array, visible: Array, _: Site) -> tuple[Array, Array]:
        y = soft(s, visible)
        return np.where(y < edge, 0.0, y), visible

    yield softmax_hypothesis("softmax.small_dropped", f"sets probabilities below {edge:.3g} to zero", fix, cut, RARE)


def _dropout() -> Hypothesis:
    """Some probabilities are 0, the others are larger by one factor."""

    def compute(site: Site) -> Result | None:
        actual = recorded(site)
        y, unit = OPS["softmax"].truth(site)
        if actual is None or actual.shape != y.shape:
            return None
        remaining = (actual != 0) & (y > 1e-30)
        if not remaining.any():
            return None
        factor = float(np.median(actual[remaining] / y[remaining]))
        if factor < 1.001:
            return None
        return np.where(remaining, factor * y, 0.0), None if unit is None else factor * unit

    return Hypothesis("softmax.dropout", "drops some probabilities and raises the others: dropout is on",
                      "evaluate in eval mode: no dropout", compute, RARE + 1)  # fmt: skip
