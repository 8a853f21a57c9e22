"""A small module and the function that reads what it gives, in the other order: RoPE before the norm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import MODULE
from qwen3_parity.diagnosis.edits.edit import Block, Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import SMALL, Region
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.graph import Graph, Node, Ref

_FARTHEST = 40
"""Ops behind a module's result among which the function's result is looked for."""
_NO: tuple[Block | None, Block | None] = (None, None)


def order(region: Region) -> Iterator[Edit]:
    """Every small module whose result a function of the model changes without changing its shape."""
    graph, inside = region.network.graph, dict[str, dict[Site, Change]]()
    for site, blocks in region.blocks.items():
        last = blocks[-1]
        if site.file != MODULE or not 1 < len(last.values) <= SMALL:
            continue
        behind = _behind(graph, last)
        if behind is None:
            continue
        function, line = _function(graph, behind.end), caller_line(region, last.end, site.op)
        says = f"runs {function} before {site.op.removeprefix('model.')}, not behind it"
        if last.end == region.value:
            yield Edit("edit.moved", says, RARE, {site: _before}, line)
        elif (target := _site(region, behind.end)) is not None:
            inside.setdefault(function, {})[target] = _reordered(site)
            yield Edit("edit.moved", says, RARE, {target: inside[function][target]}, line)
    for function, changes in inside.items():
        if len(changes) > 1:
            last_value = max(region.at(target)[-1] for target in changes)
            says = f"runs {function} before the norms of what it reads, not behind them"
            yield Edit("edit.moved", says, RARE, changes, line_of(region, last_value))


def _function(graph: Graph, value: int) -> str:
    node = graph.node(value)
    return node.lines[-1].function if node is not None and node.lines else ""


def _behind(graph: Graph, block: Block) -> Block | None:
    """From a module's result to the first sum of another function that has its numbers and width."""
    first, node = len(graph.leaves), graph.node(block.end)
    reached, values = {block.end}, list[int]()
    for value in range(block.end + 1, min(block.end + _FARTHEST, first + len(graph.nodes))):
        here = graph.nodes[value - first]
        if reached.isdisjoint(here.reads):
            continue
        reached.add(value)
        values.append(value)
        function = _function(graph, value)
        if short(here.op) == "add" and function != "forward":
            return Block(block.end, value, tuple(values)) if node is not None and _alike(here, node) else None
    return None


def _alike(a: Node, b: Node) -> bool:
    """Whether two results have one shape but for the order of axes before the last."""
    same = sorted(map(str, a.shape)) == sorted(map(str, b.shape))
    return same and len(a.shape) > 2 and a.shape[-1] == b.shape[-1]


def _site(region: Region, value: int) -> Site | None:
    return next((site for site, values in region.sites.items() if value in values), None)


def _before(call: Call) -> Array:
    """The module on what the function makes of what it reads, axes in the module's order."""
    network, block = call.region.network, call.region.block_of(call.value, call.site)
    behind = _behind(network.graph, block)
    if behind is None:
        raise ValueError("no function reads it")
    source = Region(network, behind.end, call.region.key)
    x = np.asarray(call.env[block.begin])
    turned = source.of_block(behind, {**source.base, behind.begin: x}, call.numbers)
    for value in reversed(behind.values):
        node = network.graph.node(value)
        if node is not None and short(node.op) == "transpose" and isinstance(node.operands[0], Ref):
            turned = np.swapaxes(turned, int(node.operands[1]), int(node.operands[2]))
    return call.region.again(call, turned, block)


def _reordered(site: Site) -> Change:
    """The module of a site on what the function makes of what the module reads, at the function's result."""

    def change(call: Call) -> Array:
        chains = ((block, _behind(call.region.network.graph, block)) for block in call.region.blocks[site])
        block, behind = next((pair for pair in chains if pair[1] is not None and pair[1].end == call.value), _NO)
        if block is None or behind is None:
            raise ValueError("another function's result")
        x = np.asarray(call.env[block.begin])
        turned = call.region.of_block(behind, {**call.env, behind.begin: x}, call.numbers)
        return call.region.again(call, turned, block)

    return change
