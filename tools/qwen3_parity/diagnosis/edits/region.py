"""The part of a graph between a wrong tap and the nearest recorded values, run again with an edit in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.beside import Held, changes_of, with_second
from qwen3_parity.diagnosis.edits.blocks import LINE, LINES, MODULE, blocks
from qwen3_parity.diagnosis.edits.edit import Block, Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.layers_read import Counterpart, counterparts
from qwen3_parity.diagnosis.edits.sites import TAP, of_alone, of_later, of_line, site_of
from qwen3_parity.diagnosis.edits.sources import sources
from qwen3_parity.slices.network import Network
from qwen3_spec.again import Again, again
from qwen3_spec.aten import TRUTH, Numbers
from qwen3_spec.aten.large import LARGE
from qwen3_spec.aten.noise import Noise
from qwen3_spec.graph import Node, computed, resolved
from qwen3_spec.slices import chooser

_LOOKING_UP = ("embedding.", "index.")
"""Ops that read a few rows of their first operand."""
_OF_A_CALL = 10_000
"""What a call of an op costs, in elements that it reads: as measured, 6 µs and 1.6 of them a nanosecond."""


@dataclass
class Region:
    """The ops that a value is computed by from what is recorded, masks and angles among them, with their values.

    `order` are the ops' values, those of values `beside` the region's among them; `base` has every value without an
    edit, in float64; `memory` is what edits look up once.
    """

    network: Network
    value: int
    key: tuple[str, int]
    work: int = 0
    beside: tuple[int, ...] = ()
    memory: dict[Any, Any] = field(default_factory=dict)
    _descendants: dict[frozenset[int], list[int]] = field(default_factory=dict)
    _costs: dict[int, int] = field(default_factory=dict)
    _between: dict[int, Array] = field(default_factory=dict)
    _first: Held = field(default_factory=list)

    @cached_property
    def order(self) -> list[int]:
        """The values of the region's ops, in order."""
        values = (self.value, *self.beside)
        return self.network.graph.slice(values, self.network.slices.recorded.keys() - set(values))

    @cached_property
    def base(self) -> dict[int, Any]:
        """Every value that the region reads or makes, without an edit."""
        with np.errstate(all="ignore"):
            return self._run({}, TRUTH, {value: wide(x) for value, x in self.network.slices.start(self.leaves).items()})

    @cached_property
    def leaves(self) -> list[int]:
        """Leaves and recorded values that the region reads, in order."""
        reads = {read for node in self._nodes.values() for read in node.reads}
        return sorted(reads - self._nodes.keys())

    @cached_property
    def sites(self) -> dict[Site, list[int]]:
        """The region's ops, and the parameters and inputs that it reads, by site."""
        sites = dict[Site, list[int]]()
        for value, node in self._nodes.items():
            sites.setdefault(site_of(node, self.network.graph), []).append(value)
        for value in self.leaves:
            name = self.names.get(value) or self.tap_names.get(value)
            if name is not None and np.ndim(self.base[value]):
                sites.setdefault(Site("", 0, opened(name)), []).append(value)
        return sites

    def at(self, site: Site) -> list[int]:
        """The values that a site is here: an op's, a parameter's, a module's result."""
        if (from_step := of_later(site)) is not None:
            before = max(value for (_, step), value in self.network.graph.taps.items() if step < from_step[1])
            return [value for value in self.at(from_step[0]) if value > before]
        if site.file in (MODULE, LINE, LINES):
            return [block.end for block in self.blocks.get(site, ())]
        if site.file == TAP:
            return self._taps.get(site.op, [])
        if (place := of_alone(site)) is not None:
            every, back = self.sites.get(place[0], []), place[1]
            return [every[-back]] if back <= len(every) else []
        return self.sites.get(site) or of_line(site, self.sites)

    @cached_property
    def _taps(self) -> dict[str, list[int]]:
        """The region's values that are taps, by name with its numbers open."""
        taps = dict[str, list[int]]()
        for value in self.order:
            if value in self.tap_names:
                taps.setdefault(opened(self.tap_names[value]), []).append(value)
        return taps

    @cached_property
    def blocks(self) -> dict[Site, list[Block]]:
        """Modules and lines that read one value and give another of its shape, by site."""
        return blocks(self)

    def block_of(self, value: int, site: Site) -> Block:
        """The block of a site that gives a value."""
        return next(block for block in self.blocks[site] if block.end == value)

    def of_block(self, block: Block, env: dict[int, Any], numbers: Numbers) -> Array:
        """What a block gives on what `env` has where it begins, of whatever length or order of axes."""
        same = np.shape(env[block.begin]) == np.shape(self.base[block.begin])
        for value in block.values:
            node = _node(self.network.graph.node(value))
            node = node if same else replace(node, shape=(None,) * len(node.shape))
            env[value] = computed(node, env, numbers, self.choices.get(value))
            self.work += self._cost(value, env)
        return np.asarray(env[block.end])

    def _cost(self, value: int, env: Mapping[int, Any]) -> int:
        """The work of an op, as it was when it was first computed."""
        if value not in self._costs:
            node = _node(self.network.graph.node(value))
            reads = node.reads[1:] if node.op.startswith(_LOOKING_UP) else node.reads
            arrays = (env[read] for read in reads)
            self._costs[value] = _OF_A_CALL + sum(array.size for array in arrays if isinstance(array, np.ndarray))
        return self._costs[value]

    def of(self, value: int, key: tuple[str, int]) -> Region:
        """The region of another value."""
        return Region(self.network, value, key)

    def again(self, call: Call, x: Array, block: Block | None = None) -> Array:
        """What a block, the call's or another, gives on `x` in the place of what it reads."""
        block = block or self.block_of(call.value, call.site)
        return self.of_block(block, {**call.env, block.begin: x}, call.numbers)

    @cached_property
    def parameters(self) -> frozenset[int]:
        """Leaves that are parameters."""
        graph = self.network.graph
        return frozenset(graph.leaves[name] for name in graph.parameters)

    def parameter(self, name: str) -> Array:
        """A parameter by its name. Raises `KeyError` where there is none."""
        return self.network.slices.leaves[self.network.graph.leaves[name]]

    def module_of(self, value: int) -> str:
        """The module that an op runs in."""
        node = self.network.graph.node(value)
        return "the model" if node is None or not node.module else node.module.removeprefix("model.")

    @cached_property
    def tap_names(self) -> dict[int, str]:
        """Names of taps by value."""
        return {value: name.removeprefix("model.") for (name, _), value in self.network.graph.taps.items()}

    @cached_property
    def _behind(self) -> set[int]:
        """The region's own value, and all that is computed from it."""
        behind, graph = {self.value}, self.network.graph
        first = len(graph.leaves)
        for value in range(max(self.value, first), first + len(graph.nodes)):
            if not behind.isdisjoint(graph.nodes[value - first].reads):
                behind.add(value)
        return behind

    @cached_property
    def sources(self) -> dict[str, int]:
        """What ops of the region could read instead, by name with its layer open; see `sources`."""
        return sources(self.network, self.key, self._behind, self._nodes.keys())

    @cached_property
    def later_sources(self) -> dict[str, int]:
        """Recorded values that follow from the region's own in the reference, by name with their layer open."""
        every = sources(self.network, self.key, self._behind, self._nodes.keys(), later=True)
        return {name: value for name, value in every.items() if value in self._behind and value != self.value}

    def source(self, name: str, numbers: Numbers = TRUTH, shape: tuple[int, ...] | None = None) -> Array:
        """A value by its name in `sources` or `later_sources`, also as a draw has it, brought into a shape if asked.

        Raises `KeyError` without one.
        """
        if shape is not None:
            return np.reshape(self.source(name, numbers), shape)
        return self.alone(self.sources[name] if name in self.sources else self.later_sources[name], numbers)

    def alone(self, value: int, numbers: Numbers = TRUTH) -> Array:
        """A value of the graph without an edit, also as a draw has it: as it was recorded, or computed from that."""
        slices = self.network.slices
        if value in slices.recorded:
            return slices.recorded[value]
        between = self.of(value, self.key)
        if isinstance(numbers, Noise):
            return np.asarray(between._run({}, numbers, slices.start(between.leaves, numbers))[value])
        if value not in self._between:
            self._between[value] = np.asarray(between.base[value])
            self.work += sum(between._cost(each, between.base) for each in between.order)
        return self._between[value]

    def sources_of(self, shape: tuple[int, ...]) -> list[str]:
        """The names in `sources` of values of a shape, or of one whose rows are flattened there or here."""
        nodes = ((name, self.network.graph.node(value)) for name, value in self.sources.items())
        fits = [name for name, node in nodes if node is None or _may_be(node.shape, shape)]
        return [name for name in fits if is_like(np.shape(self.source(name)), shape)]

    @cached_property
    def counterparts(self) -> Mapping[int, Counterpart]:
        """What layers of another type read in the place of values that layers read from outside."""
        return counterparts(self.network.graph, self.key[1])

    def counterpart(self, value: int) -> Array:
        """What a layer of another type reads. Raises `KeyError` where there is none."""
        region = Region(self.network, self.counterparts[value].value, self.key)
        self.work += region.work
        return np.asarray(region.base[region.value])

    @cached_property
    def choices(self) -> Mapping[int, Array]:
        """Recorded indices by the op that chose them; not those that this region makes itself."""
        maker = chooser(self.network.graph, self.value)
        return {op: taken for op, taken in self.network.slices.choices.items() if op != maker}

    @cached_property
    def names(self) -> dict[int, str]:
        """Names of leaves by number."""
        return {number: name for name, number in self.network.graph.leaves.items()}

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """Which ops of the region read a value."""
        users = dict[int, list[int]]()
        for value, node in self._nodes.items():
            for read in dict.fromkeys(node.reads):
                users.setdefault(read, []).append(value)
        return users

    def node(self, value: int) -> Node | None:
        """The op that makes a value inside of the region; None for what it reads."""
        return self._nodes.get(value)

    def edited(self, edit: Edit, noise: Noise | None = None) -> Array | None:
        """The region's value with an edit in it, in float64 or in a draw.

        None where the edit is nowhere here, changes nothing, or makes what does not fit.
        """
        env = self.values(edit, noise)
        result = None if env is None else np.asarray(env[self.value])
        return result if result is not None and result.shape == np.shape(self.base[self.value]) else None

    def values(self, edit: Edit, noise: Noise | None = None) -> dict[int, Any] | None:
        """Every value that the region reads or makes, as `edited` has its own."""
        changes = changes_of(self, edit)
        if not changes:
            return None
        try:
            env = dict(self.base) if noise is None else self.network.slices.start(self.leaves, noise)
            with np.errstate(all="ignore"):  # an edit may make anything
                if edit.parts and noise is None:
                    return with_second(self, edit.parts, self._first)
                return self._run(changes, TRUTH if noise is None else noise, env)
        except Exception:  # NumPy's words for shapes and axes that do not fit an edit are of many types
            return None

    def downstream(self, values: Iterable[int]) -> list[int]:
        """The ops of the region that these values reach, themselves among them, in order."""
        key = frozenset(values)
        if key not in self._descendants:
            reached = set(key)
            for value, node in self._nodes.items():
                if value not in reached and not reached.isdisjoint(node.reads):
                    reached.add(value)
            self._descendants[key] = [value for value in self.order if value in reached]
        return self._descendants[key]

    @cached_property
    def _again(self) -> Mapping[int, Again]:
        """The region's ops that need no look at what they read: tensors of the shapes that `base` has."""
        steps = {
            value: again(node, self.base, self.base[value])
            for value, node in self._nodes.items()
            if value not in self.choices
        }
        return {value: step for value, step in steps.items() if step is not None}

    @cached_property
    def _nodes(self) -> Mapping[int, Node]:
        return {value: _node(self.network.graph.node(value)) for value in self.order}

    def _run(self, changes: Mapping[int, tuple[Site, Change]], numbers: Numbers, env: dict[int, Any]) -> dict[int, Any]:
        """Compute into `env`; from the edited values on, where it has all of them without an edit.

        Raises `ValueError` where the edit changes nothing, and what NumPy raises for operands that do not fit.
        """
        whole = self.value not in env
        return self.compute(self.order if whole else self.downstream(changes), env, changes, numbers, whole=whole)

    def compute(
        self,
        order: Sequence[int],
        env: dict[int, Any],
        changes: Mapping[int, tuple[Site, Change]],
        numbers: Numbers,
        *,
        whole: bool = True,
    ) -> dict[int, Any]:
        """Compute values in order into `env`, edits among them; not the `whole` where it has them without an edit.

        Raises as `_run` does.
        """
        nodes, choices, costs = self._nodes, self.choices, self._costs
        steps = self._again if numbers is TRUTH and "base" in self.__dict__ else {}
        unchanged = bool(changes) and not whole
        original = {**self.base, **env} if changes else {}
        for value in sorted(changes.keys() - set(order)):
            before = numbers.lifted(np.asarray(env[value]))
            self.work += before.size
            site, change = changes[value]
            # As `base` has it: what runs again looks at no type.
            env[value] = wide(change(Call(self, env, value, None, (before,), {}, numbers, site, original)))
            unchanged = unchanged and _equal(env[value], before)
        last = max(changes, default=0)
        for value in order:
            if value in changes:
                node, at = nodes[value], numbers.at(value)
                operands = tuple(resolved(operand, env, at.lifted) for operand in node.operands)
                named = {name: resolved(operand, env, at.lifted) for name, operand in node.named.items()}
                site, change = changes[value]
                call = Call(self, env, value, node, operands, named, at, site, original)
                result = change(call)
                result = call.settled(result) if node.dtype else result
            elif step := steps.get(value):
                result = step(env)
            else:
                result = computed(nodes[value], env, numbers.at(value), choices.get(value))
            self.work += costs[value] if value in costs else self._cost(value, env)
            unchanged = unchanged and _equal(result, env[value])
            env[value] = result
            if unchanged and value >= last:
                raise ValueError("the edit changes nothing")
        return env


def wide(x: Any) -> Any:
    """Float64, where it is small enough to be so as long as the region lives."""
    return TRUTH.lifted(x) if isinstance(x, np.ndarray) and x.size < LARGE else x


def _node(node: Node | None) -> Node:
    assert node is not None
    return node


def _equal(result: Any, base: Any) -> bool:
    if not isinstance(result, np.ndarray) or not isinstance(base, np.ndarray):
        return bool(np.all(result == base)) if not isinstance(result, list | tuple) else False
    return result.shape == base.shape and bool(np.array_equal(result, base, equal_nan=result.dtype.kind == "f"))


def _may_be(sizes: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is one of a graph's, where inputs decide sizes that it leaves open."""
    if len(sizes) != len(shape):
        return bool(shape) and sizes[-1:] == shape[-1:]
    return all(size in (None, here) for size, here in zip(sizes, shape, strict=True))


def is_like(there: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is another one, or has the same rows in one axis which the other has in two."""
    flattened = len(there) != len(shape) and there[-1:] == shape[-1:] and math.prod(there) == math.prod(shape)
    return there == shape or (flattened and min(len(there), len(shape)) == 2)
