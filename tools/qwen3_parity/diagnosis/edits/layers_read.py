"""What layers read that no layer made: angles, masks; and what a layer of another type reads in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from qwen3_parity.diagnosis.edits.edit import numbers_of
from qwen3_spec.graph import Graph, Node, Ref

_Reader = tuple[str, int, str, int, int]
"""The line of an op that reads, the op, its operand, and how many times that came before in the layer."""


class Counterpart(NamedTuple):
    """The value that a layer of another type reads, and the numbers of a layer of either."""

    value: int
    layer: int
    its_layer: int


def counterparts(graph: Graph, last: int) -> Mapping[int, Counterpart]:
    """For each value that a layer reads from outside, another one that a layer elsewhere reads at the same place.

    Of every step until the `last`: what is cached was made in earlier ones.
    """
    every = dict[int, Counterpart]()
    for step in sorted({step for _, step in graph.taps if step <= last}):
        layers = _read(graph, step)
        for layer, reads in layers.items():
            for near in sorted(layers, key=lambda near: abs(near - layer)):
                for reader, value in reads.items():
                    across = layers[near].get(reader, value)
                    if across != value:
                        every.setdefault(value, Counterpart(across, layer, near))
    return every


def _read(graph: Graph, step: int) -> dict[int, dict[_Reader, int]]:
    """By layer what its ops read in a step that is made in no layer, by what reads it."""
    every, times = dict[int, dict[_Reader, int]](), Counter[tuple[int, str, int, str, int]]()
    for node in _of_step(graph, step):
        layer = numbers_of(node.module)[:1]
        for slot, operand in enumerate(node.operands) if layer and node.lines else ():
            maker = graph.node(operand.value) if isinstance(operand, Ref) else None
            if maker is None or numbers_of(maker.module) or not isinstance(operand, Ref):
                continue
            line = node.lines[-1]
            at = line.file, line.number, node.op, slot
            times[layer[0], *at] += 1
            every.setdefault(layer[0], {})[*at, times[layer[0], *at]] = operand.value
    return every


def _of_step(graph: Graph, step: int) -> Iterator[Node]:
    first = len(graph.leaves)
    ends = {at: max(value for (_, each), value in graph.taps.items() if each == at) for _, at in graph.taps}
    start = max((end + 1 for at, end in ends.items() if at < step), default=first)
    yield from graph.nodes[max(start, first) - first : ends.get(step, first - 1) + 1 - first]
