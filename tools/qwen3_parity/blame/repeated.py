"""A run that stands several times along the batch axis of every tap: what is done to it differs from copy to copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.values import Values
from qwen3_spec.sweep import Key, Plan, Sweep

_ELEMENTS = 1 << 18
"""Elements of the widest tap of all copies."""


def copies_at_a_time(base: Values, most: int) -> int:
    """How many copies of a run are made at once: fewer the larger its taps are, one where its rows are not apart.

    `base` has the taps that are computed again, computed.
    """
    if base.case.HasField("training"):
        return 1
    widest = max((value.size for value in base.computed.values() if value is not None), default=1)
    return max(1, min(most, _ELEMENTS // max(1, widest)))


def by_batch(place: Any) -> bool:
    """Whether a place has a row for each text: those of several copies can stand behind each other."""
    return place is not None and place.axes[:1] == ("batch",)


@dataclass
class Repeated(Sweep):
    """So many `copies` of the run `base`, each tap `[copies * batch, …]`."""

    base: Values
    copies: int
    computed: dict[Key, Array | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        base = self.base
        self.network, self.case, self.config, self.weights = base.network, base.case, base.config, base.weights
        self.recording, self.golden, self.dtype, self.overrides = (
            base.recording,
            base.golden,
            base.dtype,
            base.overrides,
        )

    def plan(self, name: str, step: int) -> Plan | None:
        """What a tap is computed from: the same in every copy."""
        return self.base.plan(name, step)

    def recorded(self, name: str, step: int) -> Array | None:
        """A tap as it was recorded, once for each copy."""
        value = self.base.recorded(name, step)
        return None if value is None else self.repeated(name, value)

    def repeated(self, name: str, value: Array) -> Array:
        """A value of the run, once for each copy where its place has rows of texts."""
        if self.copies == 1:
            return value
        return np.concatenate([value] * self.copies) if by_batch(self.place(name)) else value

    def rows_of(self, number: int, value: Array) -> Array:
        """The rows of one of the copies."""
        rows = len(value) // self.copies
        return value[number * rows : (number + 1) * rows]
