"""A wrong tap, and what a mistake would make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence, worst_share
from qwen3_parity.blame.noise import DRAWS, group_noise
from qwen3_parity.blame.repeated import by_batch
from qwen3_parity.blame.tap_judge import expected
from qwen3_parity.blame.values import Values
from qwen3_parity.blame.work import Work
from qwen3_parity.diagnosis.stacked import Memory, Stacked, runs_at_a_time
from qwen3_parity.diagnosis.suspects import Suspect, every_suspect
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.site import Result, Site

_LARGE = 1 << 15
"""Elements from which on a tap is large: looking for every look-alike takes seconds."""
_NEARLY = 1e-3
"""The part of the error that a mistake may leave which makes numbers, and so their noise, larger than right ones."""
_BY_WHAT_WAS_RECORDED = frozenset({"cos", "sin", "inv_freq"})
"""Ops that are right in several ways."""
_TELLING = 3
"""Different numbers that a part of a tap must have to be explained by itself."""


@dataclass(frozen=True)
class Judged:
    """A tap with what it should have been, and which of its cells are wrong by themselves.

    Cells whose inputs are not finite are not judged.
    """

    evidence: Evidence
    truth: Result
    cells: Array = field(repr=False)
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
    _suspects: list[Suspect] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def headroom(self) -> float:
        """The rounding units that one cell may be off: of a group those of its most generous op."""
        return max(headroom("op", op).max for op in self.evidence.ops)

    @property
    def key(self) -> tuple[str, int]:
        """The tap's name and step."""
        return self.evidence.site.place.name, self.evidence.site.step

    @property
    def in_shape(self) -> bool:
        """Whether the tap has the shape that it should have."""
        return self.truth[0].shape == self.evidence.actual.shape

    @property
    def large(self) -> bool:
        """Whether each guess at the tap takes so long that not all are made."""
        return self.evidence.actual.size > _LARGE

    def in_units(self, values: Array) -> Array:
        """Values of the tap's shape in rounding units, at the cells that count and are finite: `[cell]`, float64.

        What has none, in a group that copies some of what it holds, has the smallest.
        """
        unit, cells = self.truth[1], self.evidence.judged & np.isfinite(self.evidence.actual)
        units = np.ones(1) if unit is None or not (unit > 0).any() else unit[unit > 0]
        scale = np.ones(values.shape) if unit is None else np.maximum(unit, units.min())
        scaled: Array = (np.asarray(values, np.float64) / scale)[cells]
        return scaled

    def every_suspect(self, failures: list[str]) -> Sequence[Suspect]:
        """The mistakes that can be made in the tap or its group; thought of once."""
        if not self._suspects:
            self._suspects.extend(every_suspect(self.evidence, failures))
        return self._suspects

    @cached_property
    def replayed(self) -> Values:
        """The run up to the tap, computed once: what a mistake does not touch is read from it."""
        site = self.evidence.site
        values = site.values.another()
        assert isinstance(values, Values)
        values.site(site.place.name, site.step)
        return values

    @cached_property
    def bare(self) -> Site:
        """The site where nobody asks for rounding units: a group has its own."""
        return replace(self.evidence.site, values=self.replayed.overridden({}))

    @property
    def work(self) -> Work:
        """What counts the evaluations of the tap's run."""
        values = self.evidence.site.values
        assert isinstance(values, Values)
        return values.work

    @cached_property
    def runs(self) -> int:
        """How many mistakes the group is run with at once."""
        group = bool(self.evidence.others) and self.evidence.site.place.op not in _BY_WHAT_WAS_RECORDED
        return runs_at_a_time(self.replayed) if group else 1


def judged(evidence: Evidence) -> Judged:
    """What a tap should have been, cell by cell."""
    truth = expected(evidence)
    if truth[0].dtype.kind == "f" and truth[0].shape == evidence.actual.shape:
        evidence = replace(evidence, judged=evidence.judged & np.isfinite(truth[0]))
    errors = evidence.errors(truth)
    if errors is None:
        return Judged(evidence, truth, np.zeros(evidence.actual.shape, bool))
    tap = Judged(evidence, truth, np.zeros(evidence.actual.shape, bool))
    return replace(tap, cells=errors > tap.headroom)


def predicted(suspect: Suspect, tap: Judged) -> Result | None:
    """What the tap would be with this mistake, and the noise of the group where it has one."""
    site, unit = tap.evidence.site, tap.truth[1]
    tap.work.call()
    try:
        with np.errstate(all="ignore"):
            hypothesis = suspect.at.get(site.place.pattern)
            if hypothesis is not None and len(suspect.at) == 1:
                result = hypothesis.compute(tap.bare if tap.evidence.others else site)
                if result is not None:
                    tap.work.evaluated(site, result[0])
                return result if result is None or not tap.evidence.others else (result[0], unit)
            values = tap.replayed.overridden(suspect.overrides())
            again = values.site(site.place.name, site.step)
            return None if again is None else (values.compute(again)[0], unit)
    except (ValueError, IndexError, KeyError):  # shapes that do not fit, a place that this network does not have
        return None


def predictions(suspects: Iterable[Suspect], tap: Judged) -> Iterator[tuple[Suspect, Result | None]]:
    """As `predicted`, of one suspect after the other; a small network is run with many of them at once."""
    remaining, count = iter(suspects), 1
    while batch := list(islice(remaining, count)):
        yield from zip(batch, _together(batch, tap), strict=True)
        count = min(2 * count, tap.runs)


def _together(suspects: Sequence[Suspect], tap: Judged) -> list[Result | None]:
    """What the tap would be with each of these mistakes."""
    site, unit = tap.evidence.site, tap.truth[1]
    beside = [number for number, suspect in enumerate(suspects) if _stands_beside(suspect, site)]
    runs = [suspects[number].overrides() for number in beside]
    results: dict[int, Result | None] = {}
    if len(runs) > 1:
        try:
            with np.errstate(all="ignore"):
                stacked = Stacked(tap.replayed, runs, tap.memory).result(site.place.name, site.step)
        except (ValueError, IndexError, KeyError):  # what one of them makes cannot be gone on with: each by itself
            stacked = {}
        results = {beside[number]: None if y is None else (y, unit) for number, y in stacked.items()}
    return [results[n] if n in results else predicted(suspect, tap) for n, suspect in enumerate(suspects)]


def _stands_beside(suspect: Suspect, site: Site) -> bool:
    """Whether a run with a mistake can stand in a stack: it is made at another place than the tap, row by row."""
    places = (site.values.place(pattern.format(layer=0)) for pattern in suspect.at)
    return suspect.at.keys() != {site.place.pattern} and all(map(by_batch, places))


def _nearly(result: Result, tap: Judged) -> bool:
    """Whether a mistake leaves a small part of the error, as differences and not in rounding units."""
    actual, cells = tap.evidence.actual, tap.cells if tap.cells.any() else tap.evidence.judged
    if actual.dtype.kind != "f" or not cells.any():
        return False
    truth = tap.truth[0] if tap.in_shape else np.zeros(actual.shape)
    with np.errstate(all="ignore"):
        left, error = (float(np.abs(actual - values)[cells].max()) for values in (result[0], truth))
    return left < _NEARLY * error


def _with_its_noise(suspect: Suspect, tap: Judged, result: Result) -> Result:
    """A group's tap with a mistake in it, and the noise of the wrong group where that is more than the right one's."""
    y, unit = result
    values = tap.evidence.site.values.another(overrides=suspect.overrides())
    before = tap.work.done
    site = values.site(tap.evidence.site.place.name, tap.evidence.site.step)
    if site is None:
        return result
    own_unit = values.compute(site)[1]  # of the wrong op: it may round what the right one copies
    tap.work.done += DRAWS * (tap.work.done - before)  # the same again, for each draw of the noise
    noise = np.sqrt(group_noise(site, y) + (0 if own_unit is None else np.square(own_unit)))
    return y, noise if unit is None or unit.shape != noise.shape else np.maximum(unit, noise)


class Fit(NamedTuple):
    """The `share` of a tap's budget that a mistake leaves, infinite where it explains nothing; of the `whole` tap, or
    of its wrong cells alone: then it spoils a part of the right ones."""

    share: float
    whole: bool
    spoiled: float = 0.0


_NONE = Fit(math.inf, whole=False)


def fit(suspect: Suspect, tap: Judged) -> Fit:
    """How a suspect fits a tap."""
    return fit_of(predicted(suspect, tap), suspect, tap)


def fit_of(result: Result | None, suspect: Suspect, tap: Judged) -> Fit:
    """As `fit`, of what a suspect is known to make of a tap."""
    if result is None or result[0].shape != tap.evidence.actual.shape:
        return _NONE
    group = bool(tap.evidence.others)
    if group and tap.cells.any() and np.isnan(tap.evidence.actual[tap.cells]).all():
        return _NONE  # NaN is what many mistakes make, and what whoever reads it makes of it
    if group and result[1] is not None and result[1].shape != result[0].shape:
        result = _with_its_noise(suspect, tap, result)
    errors = tap.evidence.errors(result)
    assert errors is not None
    wrong = float(errors[tap.cells].max(initial=0)) / tap.headroom
    if wrong > 1 and group and _nearly(result, tap):
        errors = tap.evidence.errors(_with_its_noise(suspect, tap, result))
        assert errors is not None
        wrong = float(errors[tap.cells].max(initial=0)) / tap.headroom
    if wrong > 1:
        return _NONE
    share = worst_share(tap.evidence.measure(errors), tap.evidence.ops)
    if share <= 1:
        return Fit(share, whole=True)
    if tap.evidence.actual.dtype.kind != "f" or len(np.unique(tap.evidence.actual[tap.cells])) < _TELLING:
        return _NONE  # a few bools, integers or zeros are right by chance
    passing = tap.evidence.judged & ~tap.cells
    return Fit(wrong, whole=False, spoiled=float((errors[passing] > tap.headroom).mean()) if passing.any() else 0.0)


def contradicts(suspect: Suspect, tap: Judged) -> bool:
    """Whether a tap that passes would be wrong with this mistake."""
    result = predicted(suspect, tap)
    return result is not None and not tap.evidence.share(result) <= 1
