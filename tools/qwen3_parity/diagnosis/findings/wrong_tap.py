"""A wrong tap as whoever looks into its numbers sees it, by whichever judge it was judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from qwen3_golden import Array, Recording
from qwen3_parity.diagnosis.findings.attended import Attended
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.terms import Terms

Key = tuple[str, int]
"""A tap's name and step."""
_EPS = ("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon")


def in_float64(values: Array) -> Array:
    """A tap's values, floats of any type in float64."""
    return values.astype(np.float64) if values.dtype.kind == "f" else values


@dataclass(frozen=True)
class WrongTap:
    """A tap that is wrong on its own inputs, with what it should have been, cell by cell.

    `key` is its name and step, `axes` the names of its dimensions ("batch", "query", "heads", "head_dim", …), `ops`
    what makes it of the nearest recorded taps. `actual` and `truth` have the same shape, floats in float64; `unit` is
    the rounding unit of each cell, None where the op copies. `judged` are the cells that count, bool; `wrong` those of
    them that are off by more than `headroom` units. `recorded` gives the candidate's taps (floats in float64) by name
    and step, None where there is none, and `axes_of` their axes; `keys` are those that it has, in the order in which
    they are computed; `reads` those that this tap was computed from. `config` are the numbers of the model's
    config.json, `before` is the golden of the request that ran first on the same model.
    `attention` gives what a context is made of, `product` the matrix product that makes the tap, `terms` the terms of
    the sum that it is, None where it is none.
    `wide`: its floats are stored in float32 or float64. `again` is the truth once a tap that it reads, by its key, has
    other values; None where nobody can say. `golden` gives the golden's own taps, as `recorded` does the candidate's.
    """

    key: Key
    axes: tuple[str, ...]
    ops: frozenset[str]
    actual: Array
    truth: Array
    unit: Array | None
    judged: Array
    wrong: Array
    headroom: float
    recorded: Callable[[str, int], Array | None] = field(repr=False)
    keys: Sequence[Key] = ()
    reads: Sequence[Key] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    before: Recording | None = field(default=None, repr=False)
    axes_of: Callable[[str, int], Sequence[str]] = field(default=lambda name, step: (), repr=False)
    product: Callable[[], Product | None] = field(default=lambda: None, repr=False)
    attention: Callable[[], Attended | None] = field(default=lambda: None, repr=False)
    terms: Callable[[], Terms | None] = field(default=lambda: None, repr=False)
    wide: bool = True
    again: Callable[[Key, Array], Array | None] = field(default=lambda key, values: None, repr=False)
    golden: Callable[[str, int], Array | None] = field(default=lambda name, step: None, repr=False)

    @property
    def name(self) -> str:
        """The tap's name."""
        return self.key[0]

    @property
    def eps(self) -> float:
        """The eps of the model's norms, 0 where its config has none."""
        return next((self.config[name] for name in _EPS if isinstance(self.config.get(name), float)), 0.0)

    @property
    def step(self) -> int:
        """The step that it is of."""
        return self.key[1]

    @cached_property
    def limits(self) -> Array:
        """How far each cell may be from what it should be, float64; 0 where the op copies."""
        return np.broadcast_to(0.0 if self.unit is None else self.headroom * self.unit, self.truth.shape)

    def reproduced(self, guess: Array, cells: Array | None = None) -> Array:
        """Bool, True = the guess gives the candidate's number within the limits of a cell; judged `cells` alone."""
        cells = self.judged if cells is None else cells & self.judged
        if self.unit is None:
            return np.asarray(cells & (self.actual == guess))
        with np.errstate(all="ignore"):
            return np.asarray(cells & (np.abs(self.actual - guess) <= self.limits))
