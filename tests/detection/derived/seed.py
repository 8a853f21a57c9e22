"""A golden's case run again with a mistake in it, by the specification, from the table of the network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, Tensor, pattern_of, pb, place, read, table, tensor
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

Compute = Callable[[Site], Result | None]
"""A wrong op on a site's inputs; None at sites where the mistake cannot be made: the right op stands there."""
_PARAMETERS = ("weight_gradient", "bias_gradient", "norm_weight_gradient", "embedding_gradient")
_TABLES = ("inv_freq", "cos", "sin")
_COMPUTED = frozenset(row.pattern for row in table() if row.op in OPS)


@dataclass(frozen=True)
class Case:
    """A golden with its parameters."""

    name: str
    golden: Recording
    weights: Mapping[str, Array]

    @cached_property
    def right(self) -> Values:
        """Every place of the network by the specification, from what the case is given and Hugging Face's angles."""
        return self.values({})

    def values(self, wrong: Mapping[str, Compute]) -> Values:
        """As `right`, with other ways to compute some patterns."""
        golden = Values(self.golden, self.weights, self.golden)
        made = {pattern: _or_right(compute) for pattern, compute in (self._angles() | dict(wrong)).items()}
        return golden.another(dropped=_COMPUTED, overrides=made)

    def _angles(self) -> dict[str, Compute]:
        """Hugging Face's angles wherever what they are made from is right: float32 is the reference there."""
        return {row.pattern: self._angle for row in table() if row.op in _TABLES}

    def _angle(self, site: Site) -> Result:
        stored = tuple(x.astype(np.float32).astype(x.dtype) for x in site.inputs)  # an angle is float32 times float32
        y, unit = OPS[site.place.op].truth(replace(site, inputs=stored))
        found = self.golden.get(site.place.name, site.step) or self.golden.get(site.place.name, 0)
        if found is None or found.array.shape != y.shape or unit is None:
            return y, unit
        near = np.abs(found.values() - y) <= headroom("op", site.place.op).max * unit
        return (found.values().astype(np.float64), unit) if near.all() else (y, unit)

    def sites(self, pattern: str) -> Iterator[Site]:
        """The right run's sites of a pattern, in every layer and step: those of the second layer and step first."""
        layers = range(self.right.config.num_hidden_layers) if "{layer}" in pattern else range(1)
        steps = range(max(1, len(self.golden.case.steps)))
        keys = [(layer, step) for layer in layers for step in steps]
        back = self._has_way_back(pattern)
        for layer, step in sorted(keys, key=lambda key: (key[0] != 1, key[1] != 1, key)):
            name = pattern.replace("{layer}", str(layer))
            spot = place(name, self.right.config.num_hidden_layers)
            passes = back and (not spot or spot.op not in _PARAMETERS)  # gradients of parameters are all recorded
            if spot is None or not (passes or (name, step) in self.golden):
                continue
            site = self.right.site(name, step)
            if site is not None:
                yield site

    def _has_way_back(self, pattern: str) -> bool:
        """Whether a gradient is of this network: most of a way back is recorded nowhere, and is computed."""
        both = self.golden.case.mode == pb.ENCODER_DECODER
        own = pattern.startswith("gradient.decoder") and ".encoder_" not in pattern
        return pattern.startswith("gradient.") and self.golden.case.HasField("training") and (both or own)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the places that can be computed, in the table's order."""
        rows = (row.pattern for row in table() if row.op in OPS)
        return tuple(pattern for pattern in rows if next(self.sites(pattern), None) is not None)


@cache
def case_of(name: str) -> Case:
    """A committed golden and its checkpoint, read once."""
    golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
    return Case(name, golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"))


def seeded(case: Case, wrong: Mapping[str, Compute]) -> Recording:
    """The case as an implementation would record it that computes some patterns wrongly.

    Float64 between taps, stored as the golden stores them. What is given (inputs, parameters) is the golden's, and
    tokens that were chosen stay those that were fed. Raises `ParityError` for a tap that cannot be computed.
    """
    values = case.values(wrong)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong number may be too large for its type
        return replace(case.golden, tensors=[_again(item, values) for item in case.golden])


def _again(item: Tensor, values: Values) -> Tensor:
    spot = values.place(item.info.name)
    if spot is None or spot.op not in OPS or not values.computes(spot):
        if spot is None or spot.op in ("input", "argmax"):
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
        found = compute(site)
        return OPS[site.place.op].truth(site) if found is None else found

    return computed
