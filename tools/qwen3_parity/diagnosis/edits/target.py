"""A wrong tap, and how near an edit comes to it."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.indices import ranges
from qwen3_parity.judge.tap_verdict import last_rows_of
from qwen3_parity.slices.axes import axes_of
from qwen3_parity.slices.judge import in_units, measure, share_of
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.scope import counted

_NEAR = 2e-3
"""The part of the error that an edit may leave for its own rounding units to be looked at."""
_WIDER = 30.0
"""How much wider an edit's units may be than the right ones', for numbers as large: what scatters more fits all."""
_NOTHING_BESIDE = 1e-4
"""The part of the error that its units may be, however wide: what comes so near is no chance."""
_NEARER, _NEAREST = 0.9, 6
"""The part of the error that is left by an edit which may be one of two mistakes, and how many such are kept."""
_SAME = 1e-9
"""How near numbers in float64 are that are made of the same ones in another order."""
_MOSTLY = 0.5
"""The part of an axis' indices that must be wrong for an edit to be one of them alone."""
_FEWEST = 8
"""Different wrong numbers that an edit of a part of a tap must give."""
_ON_EDGES, _STEP = 0.02, 2.1
"""The part of a tap's cells that may stand at the edge of a step, or one; a step, in times of the most that is lost."""


_ROUNDED = 0.04
"""The part of its size that a tap is off by few roundings, of narrow types, too."""


class Nearness(NamedTuple):
    """The `share` of its headroom that an edit leaves of a tap, infinite where it explains nothing.

    Of the `whole` tap, or of its wrong cells alone: then it spoils a part of the right ones, those that stand in the
    same `part` of the tap ("heads 3"), if it has one.
    """

    share: float
    whole: bool = True
    spoiled: float = 0.0
    part: str = ""

    @property
    def fits(self) -> bool:
        """Whether the candidate's numbers are the edit's."""
        return self.share <= 1


NOTHING = Nearness(math.inf)


@dataclass(frozen=True)
class Target:
    """A wrong or a passing tap: the candidate's floats or chosen indices, beside the region that computes them."""

    region: Region
    actual: Array
    counts: Array
    axes: tuple[str, ...]
    dtype: str
    rows: int = 0
    _left: list[tuple[float, int, Edit]] = field(default_factory=list)

    @property
    def nearest(self) -> list[Edit]:
        """Edits that leave a part of the error alone, of those that were tried and do not fit, the least first."""
        return [edit for _, _, edit in self._left]

    def _keep(self, edit: Edit, left: float) -> None:
        if left < _NEARER * self.error:
            insort(self._left, (left, len(self._left), edit), key=lambda each: each[:2])
            del self._left[_NEAREST:]

    @cached_property
    def truth(self) -> Array:
        """What the region gives without an edit, the recorded rows of it."""
        return self._rows(np.asarray(self.region.base[self.region.value]))

    @cached_property
    def unit(self) -> Array:
        """The rounding unit of each element."""
        slices, value = self.region.network.slices, self.region.value
        if self.actual.dtype.kind != "f":
            return np.ones(self.actual.shape)
        whole = np.asarray(self.region.base[value])
        counts = np.ones(whole.shape, bool) if self.rows else self.counts
        return self._rows(slices.unit(value, whole, counts, self.dtype))

    @cached_property
    def cells(self) -> Array:
        """Bool, True = judged and wrong: every cell of a tap whose cells are wrong only together."""
        errors = self._errors(self.truth, self.unit)
        wrong = np.asarray(errors > self._headroom)
        together = not wrong.any() and share_of(measure(errors, self.counts, self.axes), self.narrow) > 1
        return self.counts if together else wrong

    @cached_property
    def _part(self) -> tuple[str, Array]:
        """The indices of an axis that have all wrong cells and few right ones, in words; bool, True = a cell of theirs.

        No words where every axis is wrong as a whole, or here and there.
        """
        best, words, part = _MOSTLY, "", self.counts
        for axis, name in enumerate(self.axes[: self.cells.ndim]):
            across = tuple(place for place in range(self.cells.ndim) if place != axis)
            wrong = np.asarray(self.cells.any(across, keepdims=True))
            cells = np.asarray(self.counts & wrong)
            filled = float(self.cells.sum() / max(cells.sum(), 1))
            if filled > best and not wrong[np.asarray(self.counts.any(across, keepdims=True))].all():
                best, words, part = filled, f"{name} {ranges(np.flatnonzero(wrong).tolist())}", cells
        return words, part

    def rows_of(self, part: str) -> Array | None:
        """Bool `[batch, query]`, True = a row with judged cells, of a `part` alone; None of a tap without such rows."""
        if not {"batch", "query"} <= set(self.axes) or len(self.axes) != self.counts.ndim:
            return None
        batch, query = (self.axes.index(name) for name in ("batch", "query"))
        cells = np.moveaxis(self._part[1] if part else self.counts, (batch, query), (0, 1))
        return np.asarray(cells.any(tuple(range(2, cells.ndim))))

    @cached_property
    def error(self) -> float:
        """The root of the sum of the squares of what is wrong."""
        return _norm((self.actual - self.truth)[self.cells])

    @property
    def is_far_off(self) -> bool:
        """Whether what is wrong is so by a part of its size that few roundings come to."""
        return self.error > _ROUNDED * _norm(self.truth[self.cells])

    @property
    def narrow(self) -> bool:
        """Whether half precision is judged."""
        return self.region.network.narrow

    @property
    def _headroom(self) -> float:
        return headroom("slice", "narrow" if self.narrow else "").max

    def _rows(self, values: Array) -> Array:
        return values[:, -self.rows :] if self.rows else values

    def predicted(self, edit: Edit) -> Array | None:
        """What an edit makes of the tap; None where it is nowhere here, or changes nothing."""
        values = self.region.edited(edit)
        return None if values is None else self._rows(values)

    def spoiled_by(self, edit: Edit) -> bool:
        """Whether a right tap would be wrong with an edit."""
        predicted = self.predicted(edit)
        return predicted is not None and bool((self._errors(predicted, self.unit) > self._headroom).any())

    def off(self, predicted: Array) -> Array:
        """Bool, True = a judged cell that is not the one predicted; of larger numbers than the right ones as much."""
        limit = self._headroom * np.maximum(1, np.abs(predicted) / _norm_of_rows(self.truth))
        return np.asarray(self._errors(predicted, self.unit) > limit)

    def of(self, edit: Edit) -> Nearness:
        """How near an edit comes, in the right units and, where it leaves little, in its own."""
        predicted = self.predicted(edit)
        if predicted is None or not np.isfinite(predicted[self.counts]).all():
            return NOTHING
        near = self._nearness(predicted, self.unit)
        if near.part and edit.parts:
            return NOTHING
        if near.fits or self.actual.dtype.kind != "f":
            return near
        left = _norm(self.actual[self.cells] - predicted[self.cells])
        if left > _NEAR * self.error:
            self._keep(edit, left)
            return near
        unit = self._unit_of(edit, predicted)
        again = near if unit is None else self._nearness(predicted, unit)
        return NOTHING if again.part and edit.parts else again

    def is_on_other_steps(self, rounding: Edit) -> bool:
        """Whether a rounding gives next to all, and the rest is off by a step: an input stood at the edge of one."""
        predicted = self.predicted(rounding)
        if predicted is None or self.actual.dtype.kind != "f":
            return False
        off = self.off(predicted)
        lost, left = (np.abs(predicted - x)[cells] for x, cells in ((self.truth, self.counts), (self.actual, off)))
        return bool(
            off.sum() <= max(1, _ON_EDGES * self.counts.sum()) and left.max(initial=0) <= _STEP * lost.max(initial=0)
        )

    def is_one_of_two(self, edit: Edit) -> bool:
        """Whether one of two edits makes all that both make here, or nothing: the other one is all that is wrong."""
        both, alone = self.predicted(edit), [self.predicted(part) for part in edit.parts]
        return any(
            each is None
            or any(same is not None and np.allclose(each, same, _SAME, _SAME) for same in (both, self.truth))
            for each in alone
        )

    def _errors(self, predicted: Array, unit: Array) -> Array:
        """Errors in units, cell by cell; of indices, in whatever order, infinite where one was not chosen."""
        if self.actual.dtype.kind == "f":
            return in_units(self.actual, predicted, unit, self.counts)
        actual, predicted = (np.sort(x, -1) if x.ndim > 1 else x for x in (self.actual, predicted))
        return np.where(self.counts & (actual != predicted), np.inf, 0.0)

    def _nearness(self, predicted: Array, unit: Array) -> Nearness:
        errors = self._errors(predicted, unit)
        wrong = errors[self.cells]
        if not wrong.size or wrong.max() > self._headroom:
            return NOTHING
        share = share_of(measure(errors, self.counts, self.axes), self.narrow)
        if share <= 1:
            return Nearness(share)
        passing = self.counts & ~self.cells
        if not passing.any() or len(np.unique(self.actual[self.cells])) < _FEWEST:
            return NOTHING
        spoiled, share = float((errors[passing] > self._headroom).mean()), float(wrong.max()) / self._headroom
        part, cells = self._part
        if not part or not round(spoiled, 1):
            return Nearness(share, whole=False, spoiled=spoiled)
        beside = passing & cells
        spoiled = float((errors[beside] > self._headroom).mean()) if beside.any() else 0.0
        return Nearness(share, whole=False, spoiled=spoiled, part=part)

    def _unit_of(self, edit: Edit, predicted: Array) -> Array | None:
        """The rounding unit of each element of what an edit makes; None where it is far wider than the right one."""
        squares = np.zeros(predicted.shape)
        draws = self.region.network.slices.draws
        for noise in draws:
            again = self.region.edited(edit, noise)
            if again is None:
                return None
            with np.errstate(all="ignore"):
                squares += np.square(self._rows(again) - predicted)
        unit = np.sqrt(squares / len(draws))
        unit = np.where(self.counts & np.isfinite(unit), unit, 0)
        wide = np.hypot(unit, self.unit)
        larger = max(1.0, _norm(predicted[self.cells]) / max(_norm(self.truth[self.cells]), 1e-300))
        limit = max(_WIDER * larger * _norm(self.unit[self.cells]), _NOTHING_BESIDE * self.error)
        return None if _norm(wide[self.cells]) > limit else np.asarray(wide)


def _norm_of_rows(values: Array) -> Array:
    size = np.sqrt(np.mean(np.square(values), axis=-1, keepdims=True))
    return np.where(size > 0, size, np.inf)


def _norm(values: Array) -> float:
    with np.errstate(over="ignore"):  # then it is infinite
        return float(np.sqrt(np.sum(np.square(values, dtype=np.float64)))) if values.size else 0.0


def target(network: Network, name: str, step: int) -> Target | None:
    """A tap as what edits are held against; None for another shape and what is not finite."""
    expected, item = network.golden[name, step], network.candidate[name, step]
    value, actual, counts = network.value(expected), item.values(), counted(expected, network.golden)
    rows = last_rows_of(item, expected)
    if rows:
        counts = counts[:, -rows:]
    if actual.shape != counts.shape or actual.dtype.kind not in "fiu":
        return None
    if actual.dtype.kind == "f":
        actual = actual.astype(np.float64)
        counts = counts & np.isfinite(actual)
    dtype = network.dtype(expected)
    region = Region(network, value, (name, step))
    if region.node(value) is None:
        return None
    return Target(region, actual, counts, axes_of(expected), dtype, rows) if counts.any() else None
