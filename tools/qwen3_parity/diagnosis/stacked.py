"""Many mistakes tried at once: runs of one network side by side, stacked along the batch axis of every tap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.repeated import Repeated, by_batch, copies_at_a_time
from qwen3_parity.blame.values import Overrides, Values
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site, Taps
from qwen3_spec.sweep import Key, made_once

_MOST = 64
"""Runs in a stack."""
_REMEMBERED = 1 << 27
"""Bytes, about, of what mistakes make of right inputs that are kept."""
_THE_SAME = frozenset({"place", "recorded", "parameters", "recording", "given", "dtype"})
"""What every run answers alike."""


@dataclass(frozen=True)
class Memory:
    """What stacks on one base have in common.

    `results` is what a mistake makes of a tap at a step where all that it reads is right; `follows` what is computed
    from places of a pattern.
    """

    results: dict[tuple[str, int, Callable[[Site], Result]], Array] = field(default_factory=dict)
    follows: dict[str, frozenset[Key]] = field(default_factory=dict)


def runs_at_a_time(base: Values) -> int:
    """How many runs of a network stand side by side."""
    return copies_at_a_time(base, _MOST)


@dataclass
class Stacked(Repeated):
    """Runs of a network, the n-th with the n-th of `runs` as its overrides, each tap `[runs * batch, …]`.

    `base` is the right run, which noted its readers: what follows from no override is its own, repeated. `failed` are
    runs in which a mistake could not be made, `misfits` those that make something of another shape or type: they
    have to be run alone.
    """

    copies: int = field(init=False)
    runs: Sequence[Overrides]
    memory: Memory = field(default_factory=Memory)
    failed: set[int] = field(default_factory=set)
    misfits: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = len(self.runs)
        self.units = False
        self.overrides = {pattern: _never for overrides in self.runs for pattern in overrides}
        self.unchanged = self.base.overridden(self.overrides)
        for pattern in self.overrides.keys() - self.memory.follows.keys():
            self.memory.follows[pattern] = frozenset(self.base.follows([pattern]))
        self._alone: dict[int, Values] = {}

    def value(self, name: str, step: int) -> Array | None:
        """A tap of every run."""
        key = name, 0 if made_once(name) else step
        if key not in self.computed and key in self.unchanged.computed:
            value = self.unchanged.computed[key]
            self.computed[key] = None if value is None else self.repeated(name, value)
        return self.computed[key] if key in self.computed else super().value(name, step)

    def evaluated(self, site: Site) -> Array:
        """A tap of every run: the right op's, and the mistakes' where runs have one."""
        y = np.array(OPS[site.place.op].at_site(site, FLOAT64))
        self.base.work.evaluated(site, y)
        read = [(name, 0 if made_once(name) else site.step) for name in site.names]
        read += [(site.place.name, site.step - 1)] if site.before is not None else []
        for number, overrides in enumerate(self.runs):
            if site.place.pattern in overrides and number not in self.failed | self.misfits:
                first = all(self.memory.follows[pattern].isdisjoint(read) for pattern in overrides)
                self._make(number, site, y, first=first)
        return y

    def result(self, name: str, step: int) -> dict[int, Array | None]:
        """What each run makes of a tap `[batch, …]`, by its number; None of one that failed, none of the misfits."""
        site = self.site(name, step)
        y = None if site is None else self.evaluated(site)
        together = (number for number in range(len(self.runs)) if number not in self.misfits)
        return {n: None if y is None or n in self.failed else self.rows_of(n, y) for n in together}

    def _make(self, number: int, site: Site, y: Array, *, first: bool) -> None:
        """A run's mistake, written into `y`; the `first` on the way is the same in every stack."""
        override = self.runs[number][site.place.pattern]
        known = self.memory.results.get((site.place.name, site.step, override)) if first else None
        self.base.work.call()
        if known is None:
            run = _Run(self, number)
            try:
                known = override(self._site(number, site, run))[0]
            except (ValueError, IndexError, KeyError):
                self.failed.add(number)
                return
            if first and not run.asked and known.nbytes * len(self.memory.results) < _REMEMBERED:
                self.memory.results[site.place.name, site.step, override] = known
        cells = self.rows_of(number, y)
        if known.shape == cells.shape and np.can_cast(known.dtype, cells.dtype, "safe"):
            cells[...] = known
        else:
            self.misfits.add(number)

    def _site(self, number: int, site: Site, run: _Run) -> Site:
        """A site as it is in one of the runs."""
        inputs = (
            self.rows_of(number, value) if by_batch(self.place(name)) else value
            for name, value in zip(site.names, site.inputs, strict=True)
        )
        before = None if site.before is None else self.rows_of(number, site.before)
        return replace(site, inputs=tuple(inputs), before=before, values=cast(Taps, run))

    def alone(self, number: int) -> Values:
        """One of the runs, by itself, as far as it was computed."""
        if number not in self._alone:
            computed = dict(self.unchanged.computed)
            self._alone[number] = replace(self.unchanged, computed=computed, overrides=self.runs[number])
        alone = self._alone[number]
        for key, value in self.computed.items():
            if alone.computed.get(key) is None:  # what was on its way before may be there now
                alone.computed[key] = value
                if value is not None and by_batch(self.place(key[0])):
                    alone.computed[key] = self.rows_of(number, value)
        return alone


class _Run:
    """What a mistake may ask of the run that it is made in; `asked`: for what other mistakes may change."""

    units = False

    def __init__(self, stack: Stacked, number: int) -> None:
        self._stack, self._number, self.asked = stack, number, False

    def __getattr__(self, name: str) -> Any:
        if name in _THE_SAME:
            return getattr(self._stack.unchanged, name)
        self.asked = True
        return getattr(self._stack.alone(self._number), name)


def _never(site: Site) -> Result:
    raise AssertionError(f"harness bug: {site.place.name} of several runs at once")
