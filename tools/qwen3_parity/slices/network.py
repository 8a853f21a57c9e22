"""A golden's graph on what a candidate recorded."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.judge.arithmetic import computed_in
from qwen3_parity.slices.run import leaf_values
from qwen3_parity.slices.source import call_of, called_beside
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.graph import Graph, Line, Node
from qwen3_spec.slices import Slices, chooser, chosen

DTYPES: dict[int, str] = {pb.F64: "float64", pb.F32: "float32", pb.BF16: "bfloat16", pb.F16: "float16"}
"""Float types of the schema by torch's names."""
_NARROW: dict[int, str] = {pb.ARITHMETIC_BF16: "bfloat16", pb.ARITHMETIC_F16: "float16"}


@dataclass(frozen=True)
class Network:
    """A golden's graph, and its slices on a candidate's values.

    `broken` are the recorded values that hold NaN or an infinity where the golden has another number: of a mask's equal
    infinities a slice can be computed. `twice` has the first numbers of a value that two taps hold, where these differ.
    """

    golden: Recording
    candidate: Recording
    graph: Graph
    slices: Slices
    broken: Collection[int]
    twice: Mapping[int, Array] = field(default_factory=dict)

    def value(self, item: Tensor) -> int:
        """The number of a tap's value."""
        return self.graph.taps[item.key]

    def dtype(self, item: Tensor) -> str:
        """The type whose rounding units a tap is judged by: its own in a narrow run; indices have none."""
        return DTYPES.get(item.info.dtype, "float32") if self.narrow else "float32"

    def parameters_of(self, values: Iterable[int]) -> list[str]:
        """The parameters that values read beside the nearest recorded ones, in the graph's order."""
        nodes = (self.graph.node(node) for value in values for node in self.slices.order(value))
        leaves = {read for node in nodes if node is not None for read in node.reads}
        return [name for name in self.graph.parameters if self.graph.leaves[name] in leaves]

    def parameter(self, name: str) -> Array:
        """The checkpoint's numbers of a parameter."""
        return np.asarray(self.slices.leaves[self.graph.leaves[name]])

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The model's config.json; empty where the golden has none that is one."""
        try:
            config = json.loads(self.golden.graph.config)
        except ValueError:
            return {}
        return config if isinstance(config, dict) else {}

    @cached_property
    def otherwise(self) -> Network | None:
        """The network on the first numbers of what is there twice; None where nothing is.

        A module that does nothing in the reference has a tap of its own, and does something in somebody's engine: what
        reads the value there may read either.
        """
        if not self.twice:
            return None
        return replace(self, slices=replace(self.slices, recorded={**self.slices.recorded, **self.twice}), twice={})

    @cached_property
    def _calls(self) -> dict[str, Line | None]:
        return {}

    @cached_property
    def lines(self) -> Mapping[str, Iterable[Line]]:
        """The lines of each module's own ops."""
        lines = dict[str, dict[Line, None]]()
        for node in self.graph.nodes:
            lines.setdefault(node.module, {}).update(dict.fromkeys(node.lines))
        return lines

    @cached_property
    def _around(self) -> frozenset[str]:
        """The paths that modules with ops stand in."""
        paths = (path.split(".") for path in self.lines)
        return frozenset(".".join(parts[:count]) for parts in paths for count in range(1, len(parts)))

    @cached_property
    def users(self) -> Mapping[int, Mapping[int, Node]]:
        """The ops that read each value, by the number of what they make."""
        users = dict[int, dict[int, Node]]()
        for value, node in enumerate(self.graph.nodes, len(self.graph.leaves)):
            for read in node.reads:
                users.setdefault(read, {})[value] = node
        return users

    def is_smallest(self, module: str) -> bool:
        """Whether no other module's ops are within a module: a norm, an activation."""
        return module in self.lines and module not in self._around

    def call_of(self, module: str) -> Line | None:
        """The line of source that calls a module in the one around it; None where the source is not there."""
        if module not in self._calls:
            around, _, name = module.rpartition(".")
            within = (lines for path, lines in self.lines.items() if path.startswith(f"{around}."))
            near = self.lines.get(around) or dict.fromkeys(line for lines in within for line in lines)
            self._calls[module] = call_of(name, near, self.golden) or self._called_beside(module)
        return self._calls[module]

    def _called_beside(self, module: str) -> Line | None:
        """The same of a module in one whose lines run nothing themselves: where the modules beside it are called."""
        around, _, name = module.rpartition(".")
        names = {
            path.removeprefix(f"{around}.").partition(".")[0] for path in self.lines if path.startswith(f"{around}.")
        }
        above = self.lines.get(around.rpartition(".")[0], ())
        return called_beside(name, names, {line.file for line in above}, self.golden)

    @property
    def narrow(self) -> bool:
        """Whether half precision is judged."""
        return self.slices.narrow

    @property
    def half(self) -> str:
        """The half precision that the candidate's run says it was in; empty where it says none."""
        return _NARROW.get(self.candidate.run.arithmetic, "")

    @property
    def is_of_half_precision(self) -> bool:
        """Whether the reference itself ran in half precision: what it has in float32 there is meant."""
        return self.golden.run.arithmetic in _NARROW


def network(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> Network:
    """The slices of a golden's graph on a candidate's taps, with the case's inputs and these weights by name.

    A tap of another shape than the golden's, and a choice out of range, is not among the recorded values. A run that
    says `golden_choices` has the golden's where it recorded none. Raises `ParityError` for a graph that cannot be read
    and for a weight that is not there.
    """
    graph = graph_of(golden.graph, golden.source)
    inputs = {
        item.info.name.removeprefix("input."): item.array for item in golden if item.info.name.startswith("input.")
    }
    leaves = leaf_values(graph, {**weights, **inputs}, golden.source)
    recorded, dtypes, broken, twice = dict[int, Array](), dict[int, str](), set[int](), dict[int, Array]()
    for item in candidate:
        value, expected = graph.taps.get(item.key), golden.get(*item.key)
        if value is None or expected is None or value < len(graph.leaves) or item.array.shape != expected.array.shape:
            continue
        if not _can_be_chosen(graph, value, item.values()):
            continue
        if value in recorded and not np.array_equal(recorded[value], item.values(), equal_nan=item.is_float):
            twice.setdefault(value, recorded[value])
        recorded[value] = item.values()
        if item.is_float:
            dtypes[value] = DTYPES[item.info.dtype]
            if not is_finite(item, expected):
                broken.add(value)
    narrow = _is_narrow(candidate, golden)
    asked = {graph.taps[item.key]: item.values() for item in golden if item.key in graph.taps}
    choices = (chosen(graph, asked) if candidate.run.golden_choices else {}) | chosen(graph, recorded)
    slices = Slices(graph, leaves, recorded, dtypes, choices, narrow)
    return Network(golden, candidate, graph, slices, broken, twice)


def is_finite(item: Tensor, expected: Tensor) -> bool:
    """Whether a tap has no NaN and no infinity but the golden's."""
    values = item.values()
    return bool((np.isfinite(values) | (values == expected.values())).all())


def _is_narrow(candidate: Recording, golden: Recording) -> bool:
    """Whether half precision is judged: a lossy engine computes in what the golden has or in what its taps are in."""
    lossy = candidate.run.arithmetic == pb.ARITHMETIC_OTHER
    return computed_in(golden, candidate) in _NARROW or (lossy and golden.run.arithmetic in _NARROW)


def _can_be_chosen(graph: Graph, value: int, indices: Array) -> bool:
    """Whether indices are some of what they choose from; of a value that is no choice, yes."""
    maker = chooser(graph, value)
    node = None if maker is None else graph.node(maker)
    if node is None or not indices.size:
        return True
    source = graph.node(node.reads[0])
    axis = int(node.operands[2]) if len(node.operands) > 2 else int(node.named.get("dim", -1))
    size = None if source is None else source.shape[axis]
    return bool(indices.min() >= 0 and (size is None or indices.max() < size))
