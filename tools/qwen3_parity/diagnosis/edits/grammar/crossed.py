"""Cross attention with other keys and values: the decoder's own, another layer's, or with an encoder's padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit
from qwen3_parity.diagnosis.edits.grammar.masks import HIDING
from qwen3_parity.diagnosis.edits.grammar.softmax import softmax
from qwen3_parity.diagnosis.edits.nearest import value_of
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import caller_line, is_parameter, line_of, named, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_parity.slices.network import Network
from qwen3_spec.graph import Graph, Node, Ref

_MOVING = frozenset({"view", "unsafe_view", "reshape", "transpose", "permute", "clone", "to_copy", "expand", "cat"})
_OF_SCORES = frozenset({"add", "sub", "mul", "div", "softmax", "unsqueeze", "slice", "where", "masked_fill"})
"""Ops between keys and a softmax, whose scores are the first operand."""
_HEADS = 4
"""Axes of keys by heads."""


class _Attention(NamedTuple):
    """The queries, keys and values of an attention, its mask or None, and what scales the scores.

    `reads`: what the projections of queries and of keys read.
    """

    module: str
    queries: int
    keys: int
    values: int
    mask: int | None
    scaling: float
    projections: tuple[int, ...]
    reads: tuple[int, int]

    @property
    def layer(self) -> str:
        """The module around it."""
        return self.module.rpartition(".")[0]


def crossed(region: Region) -> Iterator[Edit]:
    """Every attention whose keys are made elsewhere than its queries, or joined of several parts."""
    yield from _by_themselves(region)
    every = _attentions(region.network)
    graph = region.network.graph
    crosses = {value: each for value, each in every.items() if _is_cross(each, graph)}
    sites = {site: places for site, places in region.sites.items() if not crosses.keys().isdisjoint(places)}
    for site, places in sites.items():
        end = next(value for value in reversed(places) if value in crosses)
        name, line = _short(crosses[end].module), caller_line(region, end, crosses[end].module)
        says = f"does not hide the encoder's padding in {name}"
        yield Edit("edit.mask", says, PLAIN + 0.5, {site: _unmasked(crosses)}, line)
        for tokens, past in (("all tokens so far", True), ("the tokens of each step alone", False)):
            says = f"makes the keys and values of {name} of the decoder's states, as its queries, over {tokens}"
            yield Edit("edit.reads", says, PLAIN + 1, {site: _of_states(every, crosses, past=past)}, line)
        says = f"reads the keys and values of the self-attention before it in {name}"
        yield Edit("edit.reads", says, PLAIN + 1, {site: _selfs(every, crosses)}, line)
        for module in dict.fromkeys(each.module for each in crosses.values()):
            says = f"reads the keys and values of {module.removeprefix('model.')} in {name} of every layer"
            yield Edit("edit.reads", says, RARE, {site: _of_layer(crosses, module)}, line)


def _by_themselves(region: Region) -> Iterator[Edit]:
    """softmax of each part of the keys: of those that are joined, as the decoder's own and the encoder's."""
    graph = region.network.graph
    for site, places in region.sites.items():
        node = region.node(places[-1])
        for depth, joined in enumerate(
            _joined(graph, node) if node is not None and short(node.op) == "softmax" else ()
        ):
            names, line = [named(region, part) for part in joined], line_of(region, places[-1])
            sinks = [name for part, name in zip(joined, names, strict=True) if is_parameter(region, part)]
            if len(sinks) == 1 and len(joined) == 2:
                says = f"leaves {sinks[0]} out of the softmax"
                yield Edit("edit.left_out", says, PLAIN, {site: _of_parts(depth, mean=False)}, line)
                continue
            says = f"takes softmax of each part of the keys by itself: of {' and '.join(names)}"
            yield Edit("edit.sibling", says, PLAIN, {site: _of_parts(depth, mean=False)}, line)
            says = f"{says}, divided by {len(joined)}"
            yield Edit("edit.sibling", says, PLAIN, {site: _of_parts(depth, mean=True)}, line)


def _joined(graph: Graph, node: Node | None) -> list[tuple[int, ...]]:
    """The parts that the keys of a softmax are joined of, or its scores: the outermost first."""
    every, keys = list[tuple[int, ...]](), False
    while node is not None and node.operands:
        op, first = short(node.op), node.operands[0]
        if op == "cat":
            parts, axes = tuple(part.value for part in first), len(node.shape)
            axis = int((*node.operands[1:], node.named.get("dim", 0))[0]) % axes
            if axis == axes - (2 if keys else 1) and axes == _HEADS:
                every.append(parts)
            first = first[0]
        elif op in ("matmul", "bmm"):
            if keys:
                break
            keys, first = True, node.operands[1]
        elif op not in _MOVING | _OF_SCORES:
            break
        node = _node(graph, first)
    return every


def _of_parts(depth: int, *, mean: bool) -> Change:
    """What stands beside the keys, a sink, goes with the last part; a part that is hidden gives nothing."""

    def change(call: Call) -> Array:
        scores, every = np.asarray(call.operands[0]), _joined(call.region.network.graph, call.node)
        shapes = [np.shape(value_of(call, part)) for part in (every[depth] if depth < len(every) else ())]
        lengths = [shape[-1 if shape[:-1] == scores.shape[:-1] else -2] for shape in shapes]
        lengths = [length for length in lengths if length]
        if len(lengths) < 2 or not 0 <= scores.shape[-1] - sum(lengths) <= 1 or int(call.operands[1]) not in (-1, 3):
            return np.asarray(call.plain())
        parts = np.split(np.where(scores > HIDING, scores, -np.inf), np.cumsum(lengths)[:-1], -1)
        exps = [np.exp(part - np.maximum(part.max(-1, keepdims=True), HIDING)) for part in parts]
        sums = [np.where((total := x.sum(-1, keepdims=True)) > 0, total, 1) for x in exps]
        probs = np.concatenate([x / total for x, total in zip(exps, sums, strict=True)], -1)
        return probs / len(parts) if mean else probs

    return change


def _short(module: str) -> str:
    return module.rpartition(".")[2]


def _is_cross(attention: _Attention, graph: Graph) -> bool:
    """Whether keys are made of what comes from outside of the layer, and not of what makes queries."""
    queries, keys = attention.reads
    maker = graph.node(keys)
    return queries != keys and maker is not None and not f"{maker.module}.".startswith(f"{attention.layer}.")


def _attentions(network: Network) -> dict[int, _Attention]:
    """Every attention of a graph whose queries, keys and values are projected and only moved, by its result."""
    graph, every = network.graph, dict[int, _Attention]()
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if short(node.op) in ("matmul", "bmm") and (attention := _attention(graph, node)) is not None:
            every[value] = attention
    return every


def _attention(graph: Graph, node: Node) -> _Attention | None:
    probs = _node(graph, node.operands[0])
    while probs is not None and short(probs.op) in ("to_copy", "clone"):
        probs = _node(graph, probs.operands[0])
    if probs is None or short(probs.op) != "softmax":
        return None
    scores, mask, scaling = _scores(graph, probs)
    turned = None if scores is None else _node(graph, scores.operands[1])
    if scores is None or turned is None or short(turned.op) != "transpose":
        return None
    values = [_value(each) for each in (scores.operands[0], turned.operands[0], node.operands[1])]
    projected = [_projection(graph, value) for value in values if value is not None]
    reads = [_value(each.operands[0]) for _, each in projected if each is not None]
    known = [value for value in (*values, *reads) if value is not None]
    if len(reads) < len(values) or len(known) < len(values) + len(reads):
        return None
    ends = tuple(end for end, _ in projected)
    return _Attention(node.module, known[0], known[1], known[2], mask, scaling, ends, (known[3], known[4]))


def _scores(graph: Graph, probs: Node) -> tuple[Node | None, int | None, float]:
    """The product of queries and keys that a softmax is taken of, the mask that is added, and its factor."""
    scores, mask, scaling = _node(graph, probs.operands[0]), None, 1.0
    while scores is not None and short(scores.op) in ("to_copy", "add", "mul"):
        if short(scores.op) == "add":
            mask = _value(scores.operands[1])
        elif isinstance(scores.operands[1], float):
            scaling *= scores.operands[1]
        scores = _node(graph, scores.operands[0])
    return (scores if scores is not None and short(scores.op) in ("matmul", "bmm") else None), mask, scaling


def _projection(graph: Graph, value: int) -> tuple[int, Node | None]:
    """The projection whose result is moved to a value, the newest part of a cache's; None where something computes."""
    node = graph.node(value)
    while node is not None and (short(node.op) in _MOVING or _is_scaled(node)):
        first = node.operands[0]
        value = first[-1].value if short(node.op) == "cat" else first.value
        node = graph.node(value)
    return value, node if node is not None and short(node.op) in ("linear", "addmm") else None


def _is_scaled(node: Node) -> bool:
    return short(node.op) == "mul" and not isinstance(node.operands[1], Ref)


def _value(operand: Any) -> int | None:
    return operand.value if isinstance(operand, Ref) else None


def _node(graph: Graph, operand: Any) -> Node | None:
    return graph.node(operand.value) if isinstance(operand, Ref) else None


def _attend(call: Call, attention: _Attention, keys: Array, values: Array, mask: Array | None) -> Array:
    queries = value_of(call, attention.queries)
    keys, values = (np.repeat(x, queries.shape[1] // x.shape[1], 1) for x in (keys, values))
    scores = queries @ np.swapaxes(keys, -1, -2) * attention.scaling
    return np.asarray(softmax(scores if mask is None else scores + mask, -1) @ values)


def _changed(crosses: Mapping[int, _Attention], change: Any) -> Change:
    """A change of cross attention alone, wherever the line runs."""
    return lambda call: change(call, crosses[call.value]) if call.value in crosses else call.plain()


def _unmasked(crosses: Mapping[int, _Attention]) -> Change:
    def change(call: Call, attention: _Attention) -> Array:
        if attention.mask is None:
            raise ValueError("nothing is hidden")
        return _attend(call, attention, value_of(call, attention.keys), value_of(call, attention.values), None)

    return _changed(crosses, change)


def _before(every: Mapping[int, _Attention], value: int, attention: _Attention) -> _Attention:
    """The self-attention of the same layer and step. Raises `ValueError` without one."""
    near = [each for end, each in every.items()
            if end < value and each.layer == attention.layer and each.module != attention.module]  # fmt: skip
    if not near:
        raise ValueError("no attention stands before it")
    return near[-1]


def _of_states(every: Mapping[int, _Attention], crosses: Mapping[int, _Attention], *, past: bool) -> Change:
    def change(call: Call, attention: _Attention) -> Array:
        steps = [each for end, each in crosses.items() if end <= call.value and each.module == attention.module]
        parts = [value_of(call, each.reads[0]) for each in (steps if past else steps[-1:])]
        x = np.concatenate(parts, 1)
        mask = _before(every, call.value, attention).mask
        hidden = None if mask is None else value_of(call, mask)[..., -x.shape[1] :]
        keys, values = (_projected(call, attention, place, x) for place in (1, 2))
        return _attend(call, attention, keys, values, hidden)

    return _changed(crosses, change)


def _projected(call: Call, attention: _Attention, place: int, x: Array) -> Array:
    """Keys or values of other hidden states, by heads."""
    graph = call.region.network.graph
    node = graph.node(attention.projections[place])
    by_heads = np.shape(value_of(call, (attention.keys, attention.values)[place - 1]))
    if node is None or short(node.op) != "linear" or len(by_heads) != _HEADS:
        raise ValueError("nothing is projected by heads")
    weight, *bias = (value_of(call, operand.value) for operand in node.operands[1:] if isinstance(operand, Ref))
    flat = x @ weight.T + sum(bias)
    return np.swapaxes(flat.reshape(*flat.shape[:2], by_heads[1], by_heads[3]), 1, 2)


def _selfs(every: Mapping[int, _Attention], crosses: Mapping[int, _Attention]) -> Change:
    def change(call: Call, attention: _Attention) -> Array:
        before = _before(every, call.value, attention)
        hidden = None if before.mask is None else value_of(call, before.mask)
        return _attend(call, attention, value_of(call, before.keys), value_of(call, before.values), hidden)

    return _changed(crosses, change)


def _of_layer(crosses: Mapping[int, _Attention], module: str) -> Change:
    def change(call: Call, attention: _Attention) -> Array:
        if attention.module == module:
            return np.asarray(call.plain())
        there = next(each for each in crosses.values() if each.module == module)
        keys, values = value_of(call, there.keys), value_of(call, there.values)
        return _attend(
            call, attention, keys, values, None if attention.mask is None else value_of(call, attention.mask)
        )

    return _changed(crosses, change)
