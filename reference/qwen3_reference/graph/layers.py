"""The layers of a graph, and an order of its nodes in which equal layers are equal stretches."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from qwen3_spec.aten import kernel_of
from qwen3_spec.aten.table import Kind
from qwen3_spec.graph import Graph, Node, Operand, Ref

_NUMBERED = re.compile(r"(?<![^.])\d+(?![^.])")


class Layer(NamedTuple):
    """A module path in one of several like it: `pattern` has "{layer}" for `number`; in none `number` is ""."""

    stack: str
    number: str
    pattern: str


Segment = tuple[str, Sequence[int]]
"""A stretch of nodes of one layer: its number ("" for those of none) and the nodes' places."""


def layers(modules: Iterable[str]) -> Mapping[str, Layer]:
    """The layer of each of these module paths: of the first list on the path that has two modules or more."""
    paths = list(dict.fromkeys(modules))
    members = defaultdict[str, set[str]](set)
    for path in paths:
        for match in _NUMBERED.finditer(path):
            members[path[: match.start()]].add(match.group())
    return {path: _layer(path, members) for path in paths}


def _layer(path: str, members: Mapping[str, set[str]]) -> Layer:
    for match in _NUMBERED.finditer(path):
        before, behind = path[: match.start()], path[match.end() :]
        if len(members[before]) > 1:
            return Layer(before, match.group(), f"{before}{{layer}}{behind}")
    return Layer("", "", path)


def in_layers(graph: Graph) -> tuple[Graph, list[Segment]]:
    """The same graph with its nodes in an order that lets equal layers be equal, and its stretches of one layer each.

    Sizes that follow from inputs alone stand first; what a layer makes of none of its parameters and another layer
    reads, as cos with an axis put in, stands before that layer. All others keep their order.
    """
    first = len(graph.leaves)
    known = layers(node.module for node in graph.nodes)
    layer = [known[node.module] for node in graph.nodes]
    early = _early(graph)
    ahead = _shared(graph, layer)
    segments: list[tuple[str, list[int]]] = [("", [place for place in range(len(graph.nodes)) if early[place]])]
    rest = (place for place in range(len(graph.nodes)) if not early[place])
    for (_, number), stretch in groupby(rest, lambda place: layer[place][:2]):
        places = list(stretch)
        _append(segments, "", [place for place in places if ahead[place] or not number])
        _append(segments, number, [place for place in places if number and not ahead[place]])
    order = [place for _, places in segments for place in places]
    moved = {first + place: first + new for new, place in enumerate(order)}
    nodes = tuple(_renumbered(graph.nodes[place], moved) for place in order)
    taps = {key: moved.get(value, value) for key, value in graph.taps.items()}
    return replace(graph, nodes=nodes, taps=taps), list(_cuts(segments))


def _cuts(segments: Sequence[tuple[str, Sequence[int]]]) -> Iterator[Segment]:
    start = 0
    for number, places in segments:
        if places:
            yield number, range(start, start + len(places))
            start += len(places)


def _append(segments: list[tuple[str, list[int]]], number: str, places: list[int]) -> None:
    if not number and segments and not segments[-1][0]:
        segments[-1][1].extend(places)
    elif places:
        segments.append((number, places))


def _early(graph: Graph) -> list[bool]:
    """Which nodes make sizes of nothing but inputs."""
    first, inputs, early = len(graph.leaves), len(graph.inputs), list[bool]()
    for node in graph.nodes:
        kernel = kernel_of(node.op)
        sizes = kernel is not None and kernel.kind is Kind.SIZE
        early.append(sizes and all(read < inputs or (read >= first and early[read - first]) for read in node.reads))
    return early


def _shared(graph: Graph, layer: Sequence[Layer]) -> list[bool]:
    """Which nodes of a layer another layer reads, though none of the layer's parameters is in them."""
    first, weights = len(graph.leaves), range(len(graph.inputs), len(graph.inputs) + len(graph.parameters))
    free = list[bool]()
    for place, node in enumerate(graph.nodes):
        sources = [read - first for read in node.reads if read >= first]
        bound = any(layer[read].number and not free[read] for read in sources)
        bound = bound or any(read in weights for read in node.reads)
        free.append(bool(layer[place].number) and not bound)
    shared = [False] * len(graph.nodes)
    for place, node in reversed(list(enumerate(graph.nodes))):
        for read in (read - first for read in node.reads if read >= first):
            elsewhere = layer[place].number and layer[place][:2] != layer[read][:2]
            shared[read] |= bool(free[read] and (shared[place] or elsewhere))
    return shared


def _renumbered(node: Node, numbers: Mapping[int, int]) -> Node:
    named = {name: _moved(operand, numbers) for name, operand in node.named.items()}
    return replace(node, operands=tuple(_moved(operand, numbers) for operand in node.operands), named=named)


def _moved(operand: Operand, numbers: Mapping[int, int]) -> Operand:
    if isinstance(operand, Ref):
        return Ref(numbers.get(operand.value, operand.value))
    return tuple(_moved(part, numbers) for part in operand) if isinstance(operand, tuple) else operand
