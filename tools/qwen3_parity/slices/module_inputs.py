"""What goes into a module, by the graph: the tap that it reads."""

from __future__ import annotations

from qwen3_spec.graph import Graph, Ref

_IN_ORDER = frozenset({"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "clone", "contiguous", "alias"})
"""Ops that leave the numbers as they are, in their order."""


def tap_read_by(graph: Graph, module: str, step: int) -> str:
    """The tap whose numbers the module of a path reads in a step; "" where they are no tap's, or those of several."""
    taps = dict[int, str]()
    for (name, at), value in graph.taps.items():
        if at == step:
            taps.setdefault(value, name)
    sources = {_source(graph, value, taps) for value in _read_from_outside(graph, module, step)}
    return sources.pop() if len(sources) == 1 else ""


def _read_from_outside(graph: Graph, module: str, step: int) -> set[int]:
    """The values that the ops of a module read and others make, but for parameters, sizes and the like."""
    begun = [value for key, value in graph.taps.items() if key == (module, step)]
    inside, outside = set(begun), set[int]()
    while begun:
        node = graph.node(begun.pop())
        for value in node.reads if node is not None else ():
            source = graph.node(value)
            if source is None or value in inside:
                continue
            if f"{source.module}.".startswith(f"{module}."):
                inside.add(value)
                begun.append(value)
            elif source.dtype:
                outside.add(value)
    return outside


def _source(graph: Graph, value: int, taps: dict[int, str]) -> str:
    """The tap whose numbers a value has, in their order."""
    node = graph.node(value)
    while value not in taps and node is not None and node.op.partition(".")[0] in _IN_ORDER:
        value = next((operand.value for operand in node.operands if isinstance(operand, Ref)), -1)
        node = graph.node(value) if value >= 0 else None
    return taps.get(value, "")
