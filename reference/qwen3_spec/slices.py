"""A graph's values on what somebody else recorded: each from the nearest recorded ones, with its rounding unit.

The unit of an element is how far it scatters over a few draws of noise, see `qwen3_spec.aten.noise`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Array
from qwen3_spec.aten import TRUTH, Kind, Numbers, kernel_of
from qwen3_spec.aten.noise import ROUNDOFF, Noise, Truth, draws
from qwen3_spec.graph import Graph, Node, Ref

DRAWS = (2, 4, 8)
"""Draws of a unit: fewer scatter themselves, but may tell what is right, since all make it at least half as large."""
_NEIGHBOURS = 0.3
"""How much of its row's unit an element has at least: eight draws may all come out small."""
_SPREAD = 0.58
"""The RMS of a number between -1 and 1: that of one rounding, as a part of the largest."""
_SMALLEST = 2.0**-126
_ANGLES = 2 * 2.0**-23
"""Honest libraries' frequencies are up to two spacings of float32 apart."""
_HELD = 64 << 20
"""Bytes of units, and of what they are units of, that are held: a diagnosis asks for those of wrong taps thrice."""
_CHOOSES = frozenset({"topk", "sort", "max.dim", "min.dim"})
"""Ops that give values and the indices at which they stood."""
_AS_IT_IS = frozenset({"_to_copy", "clone", "contiguous", "alias", "detach"})
"""Ops that leave indices what they are."""


class _Unit(NamedTuple):
    """A `unit`, and what it is of."""

    truth: Array
    counts: Array
    dtype: str
    unit: Array

    def is_of(self, truth: Array, counts: Array, dtype: str) -> bool:
        """Whether it is the unit of these."""
        same = np.array_equal(self.truth, truth) and np.array_equal(self.counts, counts)
        return same and self.dtype == dtype

    @property
    def size(self) -> int:
        """In bytes."""
        return self.truth.nbytes + self.counts.nbytes + self.unit.nbytes


@dataclass(frozen=True)
class Slices:
    """A graph's `leaves` and `recorded` values by number; `dtypes` are those that recorded floats were stored in.

    `choices` are recorded indices by the number of the op that chose them. `narrow`: the graph's bfloat16 is one.
    """

    graph: Graph
    leaves: Mapping[int, Array]
    recorded: Mapping[int, Array]
    dtypes: Mapping[int, str] = field(default_factory=dict)
    choices: Mapping[int, Array] = field(default_factory=dict)
    narrow: bool = False

    @cached_property
    def draws(self) -> Sequence[Noise]:
        """The draws that units come from."""
        return draws(DRAWS[-1], narrow=self.narrow)

    @cached_property
    def _truth(self) -> Numbers:
        """float64, beside whose large products the draws compute theirs."""
        return Truth(FLOAT64, self.draws[0].roundings, self.draws[0].bases)

    @cached_property
    def _input_made(self) -> list[int]:
        """Values that inputs and constants alone decide, in order: masks, positions, angles. No recorded ones."""
        graph = self.graph
        weights = {graph.leaves[name] for name in graph.parameters}
        fixed = {value for value in graph.leaves.values() if value not in weights}
        values = []
        for value, node in enumerate(graph.nodes, len(graph.leaves)):
            if value not in self.recorded and all(read in fixed for read in node.reads):
                fixed.add(value)
                values.append(value)
        return values

    @cached_property
    def _of_inputs(self) -> dict[int, Mapping[int, Any]]:
        return {}

    def _fixed(self, noise: Noise | None) -> Mapping[int, Any]:
        """Leaves, and what inputs alone decide, in a draw or in truth; computed once each."""
        key = -1 if noise is None else noise.draw
        if key not in self._of_inputs:
            numbers: Numbers = TRUTH if noise is None else noise
            values = self.start(self.leaves, noise)
            self._of_inputs[key] = self.graph.run(values, self._input_made, numbers)
        return self._of_inputs[key]

    def start(
        self, values: Collection[int], noise: Noise | None = None, instead: Mapping[int, Array] | None = None
    ) -> dict[int, Any]:
        """Leaves and recorded values by number, some `instead`, as a slice begins; in a draw with their noise."""
        begun = dict[int, Any]()
        for value in values:
            if value in self.recorded:
                near = (instead or {}).get(value, self.recorded[value])
                stored = self.dtypes.get(value, "float32")
                begun[value] = near if noise is None else noise.at(value).stored(_wide(near), stored)
            elif noise is not None and value in self._frequencies:
                wide = _wide(self.leaves[value])
                begun[value] = noise.at(value).moved(wide, _ANGLES * np.abs(wide))
            else:
                begun[value] = self.leaves[value]
        return begun

    @cached_property
    def _frequencies(self) -> frozenset[int]:
        return frozenset(leaf for name, leaf in self.graph.leaves.items() if name.endswith("inv_freq"))

    @cached_property
    def _orders(self) -> dict[int, tuple[list[int], list[int]]]:
        return {}

    def order(self, value: int) -> list[int]:
        """The ops between a value and the nearest recorded ones, those of inputs alone left out."""
        return self._slice(value)[0]

    def computing(self, value: int) -> list[Node]:
        """The ops between a value and the nearest recorded ones that do more than move numbers, in order.

        Those of inputs alone – masks, angles – count where there are no others.
        """
        whole = self.graph.slice([value], self.recorded.keys() - {value})
        for order in (self.order(value), whole):
            nodes = [node for part in order if (node := self.graph.node(part)) is not None and _computes(node)]
            if nodes:
                return nodes
        return []

    def reads(self, value: int) -> list[int]:
        """The recorded values that a value is computed from."""
        return self._slice(value)[1]

    def _slice(self, value: int) -> tuple[list[int], list[int]]:
        if value not in self._orders:
            near = self.recorded.keys() - {value}
            order = self.graph.slice([value], near | set(self._input_made))
            nodes = [self.graph.node(part) for part in order]
            reads = {read for node in nodes if node is not None for read in node.reads}
            self._orders[value] = order, sorted(reads & near)
        return self._orders[value]

    def value(self, value: int, noise: Noise | None = None, instead: Mapping[int, Array] | None = None) -> Array:
        """A value from the nearest recorded ones, some of them `instead` as recorded: in float64, or in a draw."""
        values = {**self._fixed(noise), **self.start(self.reads(value), noise, instead)}
        numbers = noise or self._truth
        return np.asarray(self.graph.run(values, self.order(value), numbers, self.choices)[value])

    def every(self, targets: Collection[int], noise: Noise | None = None) -> dict[int, Array]:
        """Many values at once, as a whole run has them: nothing recorded is looked at."""
        values = dict(self._fixed(noise))
        order = self.graph.slice(targets, set(self._input_made))
        self.graph.run(values, order, TRUTH if noise is None else noise, self.choices)
        return {value: np.asarray(values[value]) for value in targets}

    @cached_property
    def _latest(self) -> dict[int, _Unit]:
        return {}

    def unit(self, value: int, truth: Array, counts: Array, dtype: str = "float32") -> Array:
        """The rounding unit of each element of a value, of the shape of `truth`; `counts` are the cells that count.

        Nobody may write to it: the latest are held.
        """
        held = self._latest.get(value)
        if held is None or not held.is_of(truth, counts, dtype):
            *_, unit = self.units(value, truth, counts, dtype)
            return unit
        return held.unit

    def units(self, value: int, truth: Array, counts: Array, dtype: str = "float32") -> Iterator[Array]:
        """The unit by a few draws, by more, and by all of them: for who stops as soon as an element is surely right."""
        squares = np.zeros(truth.shape)
        for number, noise in enumerate(self.draws, 1):
            with np.errstate(all="ignore"):
                squares += np.square(self.value(value, noise) - truth)
            if number not in DRAWS:
                continue
            with np.errstate(all="ignore"):
                unit = np.sqrt(squares / number)
                unit = np.hypot(unit, _SPREAD * ROUNDOFF[dtype] * np.abs(truth))
            unit = np.where(counts & np.isfinite(unit), unit, 0)
            if truth.ndim:
                among = np.maximum(counts.sum(-1, keepdims=True), 1)
                unit = np.hypot(unit, _NEIGHBOURS * np.sqrt(np.square(unit).sum(-1, keepdims=True) / among))
            unit = np.asarray(unit + _SMALLEST)
            yield unit
        self._latest.pop(value, None)
        self._latest[value] = _Unit(truth, counts, dtype, unit)
        while sum(held.size for held in self._latest.values()) > _HELD:
            del self._latest[next(iter(self._latest))]


def _wide(value: Array) -> Array:
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def _computes(node: Node) -> bool:
    kernel = kernel_of(node.op)
    return kernel is not None and kernel.kind not in (Kind.MOVE, Kind.SIZE, Kind.MADE)


def chooser(graph: Graph, value: int) -> int | None:
    """The number of the op that chose these indices, cast or not; None for a value that is no such choice."""
    node = graph.node(value)
    while node is not None and node.op.partition(".")[0] in _AS_IT_IS and node.reads:
        node = graph.node(node.reads[0])
    if node is None or node.op != "getitem" or node.operands[1:2] != (1,) or not isinstance(node.operands[0], Ref):
        return None
    maker = graph.node(node.operands[0].value)
    if maker is None or _CHOOSES.isdisjoint((maker.op, maker.op.partition(".")[0])):
        return None
    return node.operands[0].value


def chosen(graph: Graph, recorded: Mapping[int, Array]) -> dict[int, Array]:
    """Recorded indices by the number of the op that chose them."""
    makers = {value: chooser(graph, value) for value, array in recorded.items() if array.dtype.kind in "iu"}
    return {maker: recorded[value] for value, maker in makers.items() if maker is not None}
