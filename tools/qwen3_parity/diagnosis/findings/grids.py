"""Numbers that stand on a coarser grid than their type's: a narrower type's, or whole steps of a scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.groupings import Grouping, groupings
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED

_FEWEST = 8
"""Wrong numbers that must stand on a grid, beside those that its scales are read off."""
_ON = 1e-2, 1e-4
"""How far a number may be from the grid, in steps: of integers, of floats."""
_LIKELY = 0.9
"""What a grid tells whose nearest numbers to the right ones are not those that were recorded, as by other roundings."""


def grid(tap: WrongTap) -> Finding | None:
    """Every wrong number is one of a narrower type's: stored or computed in it, maybe with a scale."""
    cells = floats(tap)
    if cells is None or not tap.wide:
        return None
    actual, truth, wrong = cells
    some = actual[wrong & (actual != 0)]
    if len(some) < _FEWEST:
        return None
    for what, rounded in (*ROUNDED, *EIGHT_BITS):
        if np.mean(rounded(some) == some) < 0.999:
            continue
        near = explained(tap, rounded(truth).astype(np.float64))
        says = f"its numbers are those of {what}"
        says += ", and right when rounded to it" if near == 1 else ", and differ from the right ones rounded to it"
        return Finding("fit.grid", says, max(near, 0.6))
    for steps in STEPS:
        for grouping in groupings(truth.shape, tap.axes):
            guess = steps.told(grouping, actual, truth, wrong, tap.judged & np.isfinite(actual))
            if guess is not None:
                says = f"its numbers are {steps.words.format(grouping.words)}"
                return Finding(_name(tap, steps), says, max(explained(tap, guess), _LIKELY))
    return None


def _name(tap: WrongTap, steps: Steps) -> str:
    if isinstance(steps, Integers) and steps.levels == 127:
        cached = any(op.startswith("cache") for op in tap.ops) or tap.name.startswith("cache.")
        return "cache.quantised" if cached else "fit.grid"
    return "invariant.grid"


@dataclass(frozen=True)
class Integers:
    """Whole multiples of a group's largest number divided by `levels`; `lowest`: counted from its smallest number."""

    words: str
    levels: int
    lowest: bool = False

    def rounded(self, grouping: Grouping, values: Array, scales: Array, cells: Array) -> Array:
        """The nearest numbers of the grid that has each group's largest of `scales`, of those `cells`, on its end."""
        low, step = self._ends(grouping, scales, cells)
        inside = np.clip(np.rint((grouping.of(values) - low) / step), -self.levels, self.levels)
        return np.asarray((low + inside * step).reshape(values.shape))

    def _ends(self, grouping: Grouping, values: Array, cells: Array) -> tuple[Array, Array]:
        parts, some = grouping.of(values), grouping.of(cells)
        low = np.zeros(())
        if self.lowest:
            low = parts.min(grouping.across, keepdims=True, where=some, initial=np.inf)
        peak = np.abs(parts - low).max(grouping.across, keepdims=True, where=some, initial=0)
        return low, np.where(peak > 0, peak / self.levels, 1)

    def told(self, grouping: Grouping, actual: Array, truth: Array, wrong: Array, judged: Array) -> Array | None:
        """The right numbers on the grid that the wrong ones stand on; None where they do not."""
        parts, cells = grouping.of(actual), grouping.of(wrong)
        low, step = self._ends(grouping, actual, judged)
        counted = (parts - low) / step
        whole, groups = np.rint(counted), int(cells.any(grouping.across).sum())
        if cells.sum() < _FEWEST + (2 if self.lowest else 1) * groups:
            return None
        near = np.abs(parts - grouping.of(truth)) <= 1.25 * step
        if np.mean((np.abs(counted - whole) < _ON[0])[cells]) <= 0.99 or not near[cells].all():
            return None
        return self.rounded(grouping, truth, actual, judged) if np.mean(whole[cells] != 0) > 0.5 else None


@dataclass(frozen=True)
class Floats:
    """Floats of `bits` of mantissa times a group's scale; what is below `range_` of the largest may be anything."""

    words: str
    bits: int
    range_: float

    def rounded(self, grouping: Grouping, values: Array, scales: Array, cells: Array) -> Array:
        """The nearest floats, by the scale that makes the largest number of a group, of those `cells`, 1.75."""
        peak = np.abs(grouping.of(scales)).max(grouping.across, keepdims=True, where=grouping.of(cells), initial=0)
        return self._nearest(grouping, values, peak / (1.75 * (1 << self.bits)))

    def _nearest(self, grouping: Grouping, values: Array, scale: Array) -> Array:
        x = grouping.of(values) / np.where(scale > 0, scale, 1)
        step = np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-100))) - self.bits)
        return np.asarray((np.rint(x / step) * step * scale).reshape(values.shape))

    def told(self, grouping: Grouping, actual: Array, truth: Array, wrong: Array, judged: Array) -> Array | None:
        """The right numbers on the grid that the wrong ones stand on; None where they do not."""
        parts, right = np.abs(grouping.of(actual)), np.abs(grouping.of(truth))
        peak = parts.max(grouping.across, keepdims=True, where=grouping.of(judged), initial=0)
        cells = grouping.of(wrong) & (parts >= self.range_ * peak)
        groups = int(cells.any(grouping.across).sum())
        if cells.sum() < _FEWEST + groups or not (np.abs(parts - right) <= 2.0**-self.bits * right)[cells].all():
            return None
        scale, done = np.zeros(peak.shape), ~cells.any(grouping.across, keepdims=True)
        for mantissa in range(1 << self.bits, 2 << self.bits):  # that of the largest number
            x = parts / peak * mantissa
            x = x * np.exp2(self.bits - np.floor(np.log2(np.maximum(x, 2.0**-100))))
            on = ((np.abs(x - np.rint(x)) < _ON[1]) | ~cells).all(grouping.across, keepdims=True)
            scale, done = np.where(on & ~done, peak / mantissa, scale), done | on
        return self._nearest(grouping, truth, scale) if done.all() else None


Steps = Integers | Floats

STEPS: tuple[Steps, ...] = (
    Integers("multiples of 1 / 127 of the largest of {}: 8-bit integers", 127),
    Integers("multiples of 1 / 128 of the largest of {}: 8-bit integers", 128),
    Integers("multiples of 1 / 7 of the largest of {}: 4-bit integers", 7),
    Integers("multiples of 1 / 8 of the largest of {}: 4-bit integers", 8),
    Integers("multiples of 1 / 255 of the range of {}, from its smallest: 8-bit integers with a minimum", 255, True),
    Integers("multiples of 1 / 15 of the range of {}, from its smallest: 4-bit integers with a minimum", 15, True),
    Floats("floats of 2 bits of mantissa (float8, e5m2) times a scale of {}: off by up to 2^-3 of each", 2, 2.0**-29),
    Floats("floats of 3 bits of mantissa (float8, e4m3) times a scale of {}: off by up to 2^-4 of each", 3, 2.0**-13),
)
