"""A network run by its table: every place from the places that it reads, as they are known or as they follow.

The table says which op stands at a place and what it reads; `ops` say what an op gives. So any network runs here, in
float64 or in plain float32, from its inputs or from whatever somebody recorded on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.config import SpecConfig
from qwen3_spec.ops import OPS
from qwen3_spec.site import Place, Result, Site

CHOICES = frozenset({"next_token_probs", "argmax"})
"""Ops that are computed only where the case says how tokens are chosen."""
_LARGEST = 1e18
Key = tuple[str, int]
"""A tap's name and its step."""


class Network(Protocol):
    """The table of a network with its layers filled in, see `qwen3_golden.taps.Network`."""

    def place(self, name: str) -> Any: ...
    def inputs(self, place: Any, has_input: Callable[[str], bool]) -> tuple[str, ...]: ...
    def blocks(self) -> Iterable[tuple[str, tuple[str, ...]]]: ...
    def rows_kept(self, name: str) -> bool: ...


@cache
def made_once(name: str) -> bool:
    """Whether a tap exists at step 0 alone and later steps read it there."""
    if name.startswith(("input.", "encoder.", "pre_norm.", "post_norm.", "gradient.encoder.")):
        return True
    # A cache is recorded at every step.
    return name.endswith(".inv_freq") or ".encoder_" in name


class Plan(NamedTuple):
    """What a place reads at a step, and how long it is there: the same whatever is computed."""

    place: Any
    names: tuple[str, ...]
    length: int


class Sweep:
    """The places of a run, each as it is known (`recorded`) or computed from those that it reads (`value`).

    `overrides` has other ways to compute some places, by pattern. `computed` has what was computed and not forgotten;
    None for what cannot be had. `units`: whether anybody asks for rounding units; without, those of `Op.truth` are 0.
    """

    network: Network
    case: Any
    config: SpecConfig
    weights: Mapping[str, Array]
    overrides: Mapping[str, Callable[[Site], Result]]
    computed: dict[Key, Array | None]
    recording: Any
    golden: Any
    dtype: int
    units: bool = True

    def recorded(self, name: str, step: int) -> Array | None:
        """A tap as it is known, or None."""
        raise NotImplementedError

    def compute(self, site: Site) -> Result:
        """The op of a site on its inputs."""
        raise NotImplementedError

    def handed_on(self, site: Site, result: Result) -> Array:
        """What later places read of a result."""
        return result[0]

    def another(self, **changes: Any) -> Self:
        """The same run with some of its fields changed, and nothing computed yet."""
        return replace(self, computed={}, **changes)  # type: ignore[type-var]

    def place(self, name: str) -> Any:
        """The place of a tap name in this network, None for a name of another one."""
        return self.network.place(name)

    def value(self, name: str, step: int) -> Array | None:
        """A tap as it is known, or computed; None where neither is possible."""
        known = self.recorded(name, step)
        if known is not None:
            return known
        key = name, 0 if made_once(name) else step
        if key not in self.computed:
            self.computed[key] = None  # what cannot be had stands as None, so that nobody asks again
            site = self.site(*key)
            if site is None:
                return None
            self.computed[key] = self.evaluated(site)
        return self.computed[key]

    def evaluated(self, site: Site) -> Array:
        """What later places read of a site that nobody knows."""
        return self.handed_on(site, self.compute(site))

    def plan(self, name: str, step: int) -> Plan | None:
        """What a tap is computed from at a step; None for what is not computed."""
        place = self.place(name)
        if place is None or not self.computes(place):
            return None
        names = self.reads(place)
        if place.op == "cache_once" and step > 0:
            names = ()
        return Plan(place, names, self._length(place, step))

    def site(self, name: str, step: int) -> Site | None:
        """The op that makes a tap, with its inputs; None when one of them is not to be had, or it is not computed."""
        plan = self.plan(name, step)
        if plan is None:
            return None
        place, names = plan.place, plan.names
        cached = place.op.startswith("cache") and step > 0
        values = [self.value(tap, step) for tap in names]
        before = self.value(place.name, step - 1) if cached else None
        inputs = tuple(_in_range(value) for value in values if value is not None)
        if len(inputs) < len(names) or (cached and before is None):
            return None
        return Site(
            place=place,
            step=step,
            names=names,
            inputs=inputs,
            parameters=self.parameters(place),
            config=self.config,
            case=self.case,
            values=self,
            checkpoint=self.weights,
            length=plan.length,
            before=before,
        )

    def reads(self, place: Place) -> tuple[str, ...]:
        """The taps that a place is computed from, in its op's order."""
        return self.network.inputs(place, lambda name: self.recorded(name, 0) is not None)

    def computes(self, place: Place) -> bool:
        """Whether a place's op is computed: what is chosen, only where the case says how."""
        return place.op in OPS and (place.op not in CHOICES or self.case.HasField("generation"))

    def parameters(self, place: Place) -> dict[str, Array]:
        """The weight and bias of a place, as loaded; raises `KeyError` for an op whose weight is not there."""
        parameters = {name.rpartition(".")[2]: self.weights[name] for name in place.parameters if name in self.weights}
        if place.parameters and "weight" not in parameters:
            raise KeyError(f"{place.name}: no weight among the parameters")
        return parameters

    def _length(self, place: Place, step: int) -> int:
        if not {"query", "key"} & set(place.axes):
            return 0
        if place.stack == "encoder" or "encoder_" in place.name.rpartition(".")[2]:
            mask = self.recorded("input.encoder_attention_mask", 0)
            length = 0 if mask is None else mask.shape[1]
        else:
            length = self.case.steps[step] if step < len(self.case.steps) else 0
        rows = self.case.rows
        return min(rows, length) if rows and "query" in place.axes and self.network.rows_kept(place.name) else length


def _in_range(values: Array) -> Array:
    """Numbers whose squares float32 cannot hold as NaN: what an honest op makes of them says nothing of the op."""
    if values.dtype.kind != "f" or values.dtype.itemsize < 4 or not values.size:
        return values
    if float(np.vdot(values, values)) < _LARGEST**2:  # one product, of which no number can be larger: the usual case
        return values
    if -_LARGEST < float(values.min()) <= float(values.max()) < _LARGEST:
        return values
    with np.errstate(all="ignore"):
        return np.where(np.abs(values) < _LARGEST, values, np.nan)


Layer = Callable[[str, int, Callable[[], None]], None]
"""`layer(name, step, walk)` goes through a layer at a step, by `walk()` or by what an earlier run left of it."""


def walked(_name: str, _step: int, walk: Callable[[], None]) -> None:
    """The ordinary `Layer`: every place of it is computed."""
    walk()


@dataclass
class Specification(Sweep):
    """The run of a case in an arithmetic, from what is `known`: its inputs, and the reference's cos and sin."""

    network: Network
    case: Any
    config: SpecConfig
    weights: Mapping[str, Array]
    known: Mapping[Key, Array]
    arithmetic: Arithmetic = FLOAT64
    overrides: Mapping[str, Callable[[Site], Result]] = field(default_factory=dict)
    computed: dict[Key, Array | None] = field(default_factory=dict)
    recording: Any = field(default=None, init=False)
    golden: Any = field(default=None, init=False)
    dtype: int = field(default=0, init=False)

    def recorded(self, name: str, step: int) -> Array | None:
        """What is known of a tap."""
        value = self.known.get((name, step))
        return self.known.get((name, 0)) if value is None and made_once(name) else value

    def compute(self, site: Site) -> Result:
        """The op of a site, in the run's arithmetic; no rounding unit."""
        override = self.overrides.get(site.place.pattern)
        return (OPS[site.place.op].at_site(site, self.arithmetic), None) if override is None else override(site)

    def walk(self, tap: Callable[[int, str, Array], None], layer: Layer = walked) -> None:
        """Every place in the order of the network, step by step, to `tap(step, name, value)`.

        What no later place reads is forgotten behind each block.
        """
        steps = range(max(1, len(self.case.steps)))
        blocks = list(self.network.blocks())
        ends = [(name, 0) for _, names in blocks for name in names if self._reads_every_step(name)]
        places = [(number, self.place(name)) for number, (_, names) in enumerate(blocks) for name in names]
        last = {name: number for number, place in places for name in (place.name, *self.reads(place))}
        for step in steps:
            for number, (prefix, names) in enumerate(blocks):
                here = [name for name in names if not (step and made_once(name)) and (name, 0) not in ends]
                if not here:
                    continue
                if prefix:
                    layer(prefix, step, lambda here=here, step=step: self.through(here, step, tap))  # type: ignore[misc]
                else:
                    self.through(here, step, tap)
                self._forget({name for name, _ in self.computed if last.get(name, 0) <= number}, step, steps[-1])
        for name, step in ends:
            self.through([name], step, tap)

    def _reads_every_step(self, name: str) -> bool:
        place = self.place(name)
        return place is not None and place.op == "argmax"

    def through(self, names: Iterable[str], step: int, tap: Callable[[int, str, Array], None]) -> None:
        """Each of these places at a step, where it can be had, to `tap`."""
        for name in names:
            value = self.value(name, step)
            if value is not None and (name, step) not in self.known:
                tap(step, name, value)

    def _forget(self, unread: set[str], step: int, last: int) -> None:
        """What is not read any more in this step, but for the logits, which choices are made by in the end.

        The next step goes on from caches, and from what stands once for all steps.
        """
        for name, of in list(self.computed):
            goes_on = of == step and ".cache_" in name
            once = made_once(name) and ".layers." not in name
            if name in unread and name != "logits" and not (step < last and (goes_on or once)):
                del self.computed[name, of]
