"""Norms of what is added to a residual: before what they stand behind, or in each other's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, numbers_of, opened
from qwen3_parity.diagnosis.edits.nearest import value_of
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import caller_line, short
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import Network
from qwen3_spec.graph import Node, Ref, computed

_ROOTS = frozenset({"rsqrt", "sqrt", "native_layer_norm", "layer_norm", "rms_norm"})
_FARTHEST = 16
"""Ops of a norm."""


class _Norm(NamedTuple):
    """A norm between what a part of a layer gives and the sum with the residual; `values` are its ops in order."""

    module: str
    residual: int
    begin: int
    end: int
    values: tuple[int, ...]
    added: int

    def of(self, call: Call, x: Array) -> Array:
        """What it gives on a value."""
        graph = call.region.network.graph
        env = {self.begin: x}
        for value in self.values:
            node = graph.node(value)
            assert node is not None
            env |= {read: value_of(call, read) for read in node.reads if read not in env}
            env[value] = np.asarray(computed(node, env, call.numbers.at(value)))
            call.region.work += x.size
        return env[self.end]


def post_norms(region: Region) -> Iterator[Edit]:
    """All norms of the network that stand so, before their parts; the two of each layer exchanged."""
    network = region.network
    norms = _norms(network)
    if not any(_is_here(region, norm) for norm in norms):
        return
    line = caller_line(region, norms[0].end, norms[0].module)
    names = list(dict.fromkeys(opened(norm.module).removeprefix("model.") for norm in norms))
    readers = {value: norm for norm in norms for value in _readers(network, norm)}
    if not any(_is_in_norm(network, value) for value in readers):
        says = f"runs {' and '.join(names)} before what they are to stand behind, on the residual"
        yield Edit("edit.moved", says, PLAIN + 1, _before(network, norms, readers), line)
    pairs = _pairs(norms)
    if pairs and len(names) == 2:
        says = f"runs {' and '.join(names)} in each other's place"
        yield Edit("edit.exchanged", says, PLAIN + 1, _exchanged(network, norms, pairs), line)


def _is_here(region: Region, norm: _Norm) -> bool:
    return region.key[0].startswith(f"{norm.module.rpartition('.')[0]}.") or region.node(norm.added) is not None


def _norms(network: Network) -> list[_Norm]:
    """Every norm whose result is added to a residual that stands before what the norm reads."""
    graph, norms = network.graph, list[_Norm]()
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if short(node.op) != "add" or len(node.operands) < 2:
            continue
        residual, end = node.operands[:2]
        if isinstance(residual, Ref) and isinstance(end, Ref):
            between = _ops(network, end.value)
            if between is not None and between[0] > residual.value:
                norms.append(_Norm(_module(network, end.value), residual.value, *between, value))
    return norms


def _module(network: Network, value: int) -> str:
    node = network.graph.node(value)
    return "" if node is None else node.module


def _ops(network: Network, end: int) -> tuple[int, int, tuple[int, ...]] | None:
    """What a norm reads, what it gives and its ops; None of another value."""
    graph, module = network.graph, _module(network, end)
    if not module or not network.is_smallest(module):
        return None
    values, needed = list[int](), {end}
    for value in range(end, max(end - _FARTHEST, len(graph.leaves)), -1):
        node = graph.node(value)
        if value in needed and node is not None and node.module == module:
            values.append(value)
            needed.update(node.reads)
    begins = {read for read in needed - {*values} if graph.node(read) is not None}
    nodes = [node for value in values if (node := graph.node(value)) is not None]
    if len(begins) != 1 or not any(short(node.op) in _ROOTS for node in nodes):
        return None
    return begins.pop(), end, tuple(reversed(values))


def _readers(network: Network, norm: _Norm) -> list[int]:
    """The ops between a residual and what the norm reads that read the residual."""
    users = network.users.get(norm.residual, {})
    return [value for value in users if norm.residual < value < norm.begin]


def _is_in_norm(network: Network, value: int) -> bool:
    return any(short(node.op) in _ROOTS for node in network.graph.nodes
               if node.module == _module(network, value))  # fmt: skip


def _pairs(norms: list[_Norm]) -> dict[int, _Norm]:
    """By a norm's result the other one of its layer and step: each two that follow one another."""
    layers = [numbers_of(f"{norm.module}.") for norm in norms]
    alike = len(norms) % 2 == 0 and layers[::2] == layers[1::2]
    pairs = [*zip(norms[::2], norms[1::2], strict=True)] if alike else []
    return {a.end: b for first, second in pairs for a, b in ((first, second), (second, first))}


def _before(network: Network, norms: list[_Norm], readers: Mapping[int, _Norm]) -> dict[Site, Change]:
    sums, ends = {norm.added: norm for norm in norms}, {norm.end: norm for norm in norms}

    def residual(call: Call, value: int) -> Array:
        """A sum that nobody recorded has no norm in it either."""
        before = sums.get(value)
        if before is None or value in call.env or value in network.slices.recorded:
            return value_of(call, value)
        return np.asarray(residual(call, before.residual) + value_of(call, before.begin))

    def of_residual(call: Call, norm: _Norm) -> Array:
        return norm.of(call, residual(call, norm.residual))

    def read(call: Call, norm: _Norm) -> Array:
        return _with(call, norm.residual, of_residual(call, norm))

    def added(call: Call, norm: _Norm) -> Array:
        return _with(call, norm.end, value_of(call, norm.begin))

    return {**_at(network, readers, read), **_at(network, ends, of_residual), **_at(network, sums, added)}


def _exchanged(network: Network, norms: list[_Norm], pairs: Mapping[int, _Norm]) -> dict[Site, Change]:
    def there(call: Call, norm: _Norm) -> Array:
        return norm.of(call, value_of(call, pairs[norm.end].begin))

    def added(call: Call, norm: _Norm) -> Array:
        return _with(call, norm.end, pairs[norm.end].of(call, value_of(call, norm.begin)))

    sums, ends = {norm.added: norm for norm in norms}, {norm.end: norm for norm in norms}
    return {**_at(network, ends, there), **_at(network, sums, added)}


def _at(network: Network, norms: Mapping[int, _Norm], change: Callable[[Call, _Norm], Array]) -> dict[Site, Change]:
    """A change at these values alone, wherever their lines run."""
    nodes = ((value, network.graph.node(value)) for value in norms)
    sites = {site_of(node, network.graph) for _, node in nodes if node is not None}
    return dict.fromkeys(sites, lambda call: change(call, norms[call.value]) if call.value in norms else call.plain())


def _with(call: Call, value: int, x: Array) -> Array:
    """An op with another operand in the place of a value."""
    node: Node | None = call.node
    assert node is not None
    operands = [
        x if isinstance(operand, Ref) and operand.value == value else call.operands[slot]
        for slot, operand in enumerate(node.operands)
    ]
    return np.asarray(call.plain(*operands))
