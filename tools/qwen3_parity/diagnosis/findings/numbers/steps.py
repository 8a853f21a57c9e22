"""Grids that tensors are rounded to with a scale: integers of 8 and 4 bits, floats of 8."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.numbers.groupings import Grouping

_MORE = 8
"""Numbers that must stand on a grid, beside those that its scales are read off."""
_ON = 1e-2, 1e-4
"""How far a number may be from the grid, in steps: of integers, of floats."""
_SMALLEST = 2.0**-100


@dataclass(frozen=True)
class Sample:
    """Some wrong numbers, `[number]` each: with the right ones, what each may be off, and the ends of its group.

    `group` counts the groups that they are of, from 0.
    """

    actual: Array
    truth: Array
    limits: Array
    low: Array
    high: Array
    group: Array

    @property
    def peak(self) -> Array:
        """The largest magnitude of each number's group."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def cut_off(self) -> Array:
        """Bool: a number that is the largest of its group, and should be larger; so are two of the group at least."""
        largest = np.abs(self.actual) >= self.peak * (1 - 2.0**-20)
        cut = largest & (np.abs(self.truth) > self.peak) & (np.sign(self.truth) == np.sign(self.actual))
        return np.asarray(cut & (np.bincount(self.group[cut], minlength=int(self.group.max()) + 1)[self.group] > 1))

    @property
    def within(self) -> Array:
        """The right numbers, those that were cut off at the largest of their group."""
        return np.where(self.cut_off, np.sign(self.truth) * self.peak, self.truth)

    def enough(self, cells: Array, ends: int) -> bool:
        """Whether `cells` are more than what they are read off: so many `ends` of each group."""
        return int(cells.sum()) >= _MORE + ends * len(np.unique(self.group[cells]))


@dataclass(frozen=True)
class Integers:
    """Whole multiples of a group's largest number divided by `levels`; `lowest`: counted from its smallest number."""

    words: str
    levels: int
    lowest: bool = False

    def rounded(self, grouping: Grouping, values: Array) -> Array:
        """A tensor by the grid of its own groups."""
        parts = grouping.of(values)
        low = parts.min(grouping.across, keepdims=True) if self.lowest else np.zeros(())
        return self._nearest(parts, low, self._step(np.abs(parts - low).max(grouping.across, keepdims=True)))

    def on(self, sample: Sample) -> Array | None:
        """The right numbers on the grid that the wrong ones stand on; None where they do not."""
        low = sample.low if self.lowest else np.zeros(())
        step = self._step(sample.high - low if self.lowest else sample.peak)
        if not (sample.cut_off | (np.abs(sample.actual - sample.truth) <= 1.25 * step)).all():
            return None
        counted = (sample.actual - low) / step
        whole, every = np.rint(counted), np.ones(counted.shape, bool)
        if np.mean(np.abs(counted - whole) < _ON[0]) <= 0.99 or np.mean(whole != 0) <= 0.5:
            return None
        return self._nearest(sample.truth, low, step) if sample.enough(every, 2 if self.lowest else 1) else None

    def _step(self, size: Array) -> Array:
        return np.asarray(np.where(size > 0, size / self.levels, 1))

    def _nearest(self, values: Array, low: Array, step: Array) -> Array:
        return np.asarray(low + np.clip(np.rint((values - low) / step), -self.levels, self.levels) * step)


@dataclass(frozen=True)
class Floats:
    """Floats of `bits` of mantissa times a group's scale; what is below `range_` of the largest may be anything."""

    words: str
    bits: int
    range_: float

    def rounded(self, grouping: Grouping, values: Array) -> Array:
        """A tensor by the scale that makes the largest number of a group 1.75 times a power of two."""
        parts = grouping.of(values)
        return self._nearest(parts, np.abs(parts).max(grouping.across, keepdims=True) / (1.75 * (1 << self.bits)))

    def on(self, sample: Sample) -> Array | None:
        """The right numbers on the grid that the wrong ones stand on; None where they do not."""
        size, truth = np.abs(sample.actual), np.abs(sample.truth)
        cells = size >= self.range_ * sample.peak
        if (
            not sample.enough(cells, 1)
            or not (sample.cut_off | (np.abs(size - truth) <= 2.0**-self.bits * truth))[cells].all()
        ):
            return None
        groups = int(sample.group.max()) + 1
        scale, done = np.zeros(groups), np.bincount(sample.group[cells], minlength=groups) == 0
        for mantissa in range(1 << self.bits, 2 << self.bits):  # that of the largest number
            x = size / sample.peak * mantissa
            x = x * np.exp2(self.bits - np.floor(np.log2(np.maximum(x, _SMALLEST))))
            off = cells & (np.abs(x - np.rint(x)) >= _ON[1])
            fits = (np.bincount(sample.group[off], minlength=groups) == 0) & ~done
            scale, done = np.where(fits, 1 / mantissa, scale), done | fits
        return self._nearest(sample.within, scale[sample.group] * sample.peak) if done.all() else None

    def _nearest(self, values: Array, scale: Array) -> Array:
        x = values / np.where(scale > 0, scale, 1)
        step = np.exp2(np.floor(np.log2(np.maximum(np.abs(x), _SMALLEST))) - self.bits)
        return np.asarray(np.rint(x / step) * step * scale)


def spacing(sample: Sample) -> tuple[float, int, Array] | None:
    """The step that all the wrong numbers are whole multiples of, the largest multiple, and the right ones so rounded.

    None where there is none of at most 8 bits, or it leaves them farther from the right ones than half of it.
    """
    size = np.unique(np.abs(sample.actual[sample.actual != 0]))
    gaps = np.diff(size, prepend=0.0)
    gaps = gaps[gaps > 2.0**-16 * size[-1]] if len(size) >= _MORE else size[:0]
    if not len(gaps):
        return None
    step = float(gaps.min())
    for _ in range(2):  # the smallest difference is the least exact
        counts = np.rint(size / step)
        step = float((counts * size).sum() / np.square(counts).sum())
    most = int(counts[-1])
    if most > 1 << 8 or (np.abs(size / step - counts) > _ON[0]).any() or len(size) < _MORE + math.log2(most + 1):
        return None
    nearest = np.clip(np.rint(sample.truth / step), -most, most) * step
    near = np.abs(sample.actual - sample.truth) <= 0.51 * step + sample.limits
    return (step, most, nearest) if (near | sample.cut_off).all() else None


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
"""From the coarsest of a kind; numbers of 4-bit integers are floats of few bits as well."""
