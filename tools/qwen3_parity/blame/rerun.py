"""A golden's case run again by the specification, with some ops computed in another way: a candidate with a mistake."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qwen3_golden import Array, ParityError, Recording, Tensor, pattern_of, table, tensor
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

Compute = Callable[[Site], Result | None]
"""A wrong op on a site's inputs; None at sites where the mistake cannot be made: the right op stands there."""
_TABLES = ("inv_freq", "cos", "sin")
_COMPUTED = frozenset(row.pattern for row in table() if row.op in OPS)


@dataclass(frozen=True)
class Rerun:
    """A golden with its parameters."""

    name: str
    golden: Recording
    weights: Mapping[str, Array]

    @cached_property
    def reference(self) -> Values:
        """Every place of the network by the specification, from what the case is given and Hugging Face's angles."""
        return self.values({})

    def values(self, wrong: Mapping[str, Compute]) -> Values:
        """As `right`, with other ways to compute some patterns."""
        golden = Values(self.golden, self.weights, self.golden)
        overrides = {pattern: _or_right(compute) for pattern, compute in (self._angles() | dict(wrong)).items()}
        return golden.another(dropped=_COMPUTED, overrides=overrides)

    def _angles(self) -> dict[str, Compute]:
        """Hugging Face's angles wherever what they are made from is right: float32 is the reference there."""
        return {row.pattern: self._angle for row in table() if row.op in _TABLES}

    def _angle(self, site: Site) -> Result:
        stored = tuple(x.astype(np.float32).astype(x.dtype) for x in site.inputs)  # an angle is float32 times float32
        y, unit = OPS[site.place.op].truth(replace(site, inputs=stored))
        recorded = self.golden.get(site.place.name, site.step) or self.golden.get(site.place.name, 0)
        if recorded is None or recorded.array.shape != y.shape or unit is None:
            return y, unit
        near = np.abs(recorded.values() - y) <= headroom("op", site.place.op).max * unit
        return (recorded.values().astype(np.float64), unit) if near.all() else (y, unit)


def seeded(case: Rerun, wrong: Mapping[str, Compute]) -> Recording:
    """The case as an implementation would record it that computes some patterns wrongly.

    Float64 between taps, stored as the golden stores them. What is given is the golden's, and tokens that were chosen
    stay those that were fed; of parameters it has no digests, since a wrong one may be what is seeded. Raises
    `ParityError` for a tap that cannot be computed.
    """
    values = case.values(wrong)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong number may be too large for its type
        return replace(case.golden, tensors=[_again(item, values) for item in case.golden], parameters=[])


def _again(item: Tensor, values: Values) -> Tensor:
    place = values.place(item.info.name)
    if place is None or place.op not in OPS or not values.computes(place):
        if place is None or place.op in ("input", "argmax"):
            return item
        raise _not_computed(item, "no op of the specification")
    y = values.value(*item.key)
    if y is None:
        raise _not_computed(item, "an input that cannot be had")
    return tensor(
        item.info.name,
        np.asarray(y).astype(item.array.dtype, order="C"),
        step=item.info.step,
        axes=item.info.axes,
        op=item.info.op,
        inputs=item.info.inputs,
    )


def _not_computed(item: Tensor, got: str) -> ParityError:
    return ParityError(
        pattern_of(item.info.name),
        "the tap cannot be computed again, so the case seeds nothing",
        expected="every tap that is not given",
        got=got,
        next_step="seed on another case",
        fault="harness bug",
    )


def _or_right(compute: Compute) -> Callable[[Site], Result]:
    def computed(site: Site) -> Result:
        result = compute(site)
        return OPS[site.place.op].truth(site) if result is None else result

    return computed
