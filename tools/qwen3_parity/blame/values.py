"""What a recording says of every place in the network: the tap itself, or what follows from the nearest taps before it.

A recording may hold only some of the taps (a backend that never materialises scores, a port that delivers layer
outputs). What lies between is then computed by the specification, and ops without a tap between them are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from qwen3_golden import Array, Network, Recording, pb
from qwen3_parity.blame.work import Work
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site
from qwen3_spec.sweep import CHOICES, Key, Plan, Sweep, made_once

__all__ = ["CHOICES", "Overrides", "Values", "made_once"]

Overrides = Mapping[str, Callable[[Site], Result]]
"""Another way to compute a place, by its pattern."""
_STORED: Mapping[int, int] = {pb.ARITHMETIC_BF16: pb.BF16, pb.ARITHMETIC_F16: pb.F16}
_EVERY = frozenset({"encoder", "decoder", "pre_norm", "post_norm", "gradient"})


@dataclass
class Values(Sweep):
    """The taps of `recording`, what they imply, and the parameters in `weights` (by canonical name).

    `golden` is the recording whose `input.*` count: what a case is given is never taken from a candidate's word.
    `dropped` are patterns to be treated as not recorded; `overrides` computes some places in another way;
    `given_tables` takes cos and sin from `golden`. `computed` has the taps that `value` had to compute since it was
    cleared, None for those that cannot be had; `readers` who asked for a tap on the way; `work` counts what this run
    evaluates, and those made of it. Beside `lock`, for all threads: `noises` has what a tap of a group is, and its
    noise, `perturbed` the runs that told it.
    """

    recording: Recording
    weights: Mapping[str, Array]
    golden: Recording | None = None
    dropped: frozenset[str] = frozenset()
    overrides: Overrides = field(default_factory=dict)
    given_tables: bool = False
    computed: dict[Key, Array | None] = field(default_factory=dict)
    readers: dict[Key, set[Key]] | None = field(default_factory=dict)
    units: bool = True
    work: Work = field(default_factory=Work)
    noises: dict[Key, tuple[Array, Array]] = field(default_factory=dict)
    perturbed: dict[tuple[int, int], Sweep] = field(default_factory=dict)
    lock: AbstractContextManager[Any] = field(default_factory=Lock)
    _plans: dict[Key, Plan | None] = field(default_factory=dict)
    _computing: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.case: pb.Case = (self.golden or self.recording).case
        self.config = spec_config(self.case.config)
        merged = self.case.mode == pb.ENCODER_DECODER
        self.network = Network(self.case.config, _EVERY if merged else _EVERY - {"encoder"})
        arithmetic = self.recording.run.arithmetic
        asked = self.golden is None or self.golden.run.arithmetic == arithmetic  # a candidate's word widens no noise
        self.dtype = _STORED.get(arithmetic, pb.F32) if asked else pb.F32

    def recorded(self, name: str, step: int) -> Array | None:
        """A tap as it was recorded (bfloat16 widened), or None."""
        is_given = name.startswith("input.")
        if self.given_tables and self.golden is not None and name.endswith(("cos", "sin")):
            table = self.golden.get(name, step) or self.golden.get(name, 0)
            return None if table is None else table.values()
        source = (self.golden or self.recording) if is_given else self.recording
        tap = source.get(name, 0 if is_given else step)
        if tap is None and made_once(name):
            tap = source.get(name, 0)
        if tap is None:
            return None
        if self.dropped and (place := self.place(name)) is not None and place.pattern in self.dropped:
            return None
        return tap.values()

    def is_choice(self, name: str, step: int) -> bool:
        """Whether a recorded tap holds integers: ids, positions, indices, which are right or wrong and never near."""
        tap = self.recording.get(name, step) or (self.recording.get(name, 0) if made_once(name) else None)
        return tap is not None and tap.info.dtype in (pb.I64, pb.I32, pb.U8)

    def another(self, **changes: Any) -> Values:
        """The same run with some of its fields changed, and nothing computed yet."""
        if not changes:  # the same taps are known: plans and noise stand
            return super().another(readers={}, _computing=[])
        return super().another(readers={}, _computing=[], _plans={}, noises={}, perturbed={}, **changes)

    def plan(self, name: str, step: int) -> Plan | None:
        """What a tap is computed from; worked out once."""
        key = name, step
        if key not in self._plans:
            self._plans[key] = super().plan(name, step)
        return self._plans[key]

    def value(self, name: str, step: int) -> Array | None:
        """A tap as it was recorded, or computed; None where neither is possible."""
        key = name, 0 if made_once(name) else step
        if self.readers is None:
            return self.computed[key] if key in self.computed else super().value(name, step)
        if self._computing:
            self.readers.setdefault(key, set()).add(self._computing[-1])
        if key in self.computed:
            return self.computed[key]
        self._computing.append(key)
        try:
            return super().value(name, step)
        finally:
            self._computing.pop()

    def evaluated(self, site: Site) -> Array:
        """What later places read of a site that was not recorded: nobody asks for its unit."""
        override = self.overrides.get(site.place.pattern)
        if self.readers is None:  # one of many runs that differ little: who asks for them has silenced NumPy
            y = OPS[site.place.op].at_site(site, FLOAT64) if override is None else override(site)[0]
        else:
            with np.errstate(all="ignore"):
                y = OPS[site.place.op].at_site(site, FLOAT64) if override is None else override(site)[0]
        self.work.evaluated(site, y)
        return y

    def overridden(self, overrides: Overrides) -> Values:
        """The same run with places computed in another way, by pattern; what does not follow from them is kept.

        Of a run that noted its readers; the new one does not, and has no rounding units.
        """
        follows = self.follows(overrides)
        computed = {key: value for key, value in self.computed.items() if key not in follows}
        return replace(self, computed=computed, readers=None, overrides=overrides, units=False, noises={}, perturbed={})

    def follows(self, patterns: Collection[str]) -> set[Key]:
        """What was computed at places of these patterns, and from those; of a run that noted its readers."""
        assert self.readers is not None, "harness bug: a run that was overridden already"
        changed = [key for key in self.computed if (place := self.place(key[0])) and place.pattern in patterns]
        keys = set(changed)
        while changed:
            new = self.readers.get(changed.pop(), set()) - keys
            keys |= new
            changed += new
        return keys

    def compute(self, site: Site) -> Result:
        """The op of a site on its inputs, by the specification or as an override has it."""
        with np.errstate(all="ignore"):
            result = self.overrides.get(site.place.pattern, OPS[site.place.op].truth)(site)
        self.work.evaluated(site, result[0])
        return result
