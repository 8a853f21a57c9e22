"""A candidate's chosen experts, and what stands beside them, in the golden's order: which is first means nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_spec.aten.table import Kind, kernel_of
from qwen3_spec.graph import Graph, Node
from qwen3_spec.slices import chooser

_KEEP = frozenset(
    {"view", "reshape", "_unsafe_view", "clone", "contiguous", "_to_copy", "to", "neg", "abs", "relu", "clamp"}
    | {"softmax", "_softmax", "gather", "getitem", "where", "masked_fill"}
    | {"type_as", "alias", "detach", "lift_fresh_copy", "clamp_min", "maximum", "minimum"}
)
"""Ops that leave the order of their operand's last axis, where the shape stays, beside those of single elements."""


def in_golden_order(graph: Graph, golden: Recording, candidate: Recording) -> Recording:
    """The candidate with chosen indices, and taps that have a number for each, as the golden orders them, row by row.

    Where the indices were not recorded, the largest number stands where the golden's largest does.
    """
    makers = {maker: value for value in graph.taps.values() if (maker := _ordering(graph, value)) is not None}
    changed = dict[tuple[str, int], Tensor]()
    for maker, indices in makers.items():
        beside = [key for key in _beside(graph, maker, indices) if _alike(golden.get(*key), candidate.get(*key))]
        if not beside:
            continue
        chosen = [key for key in beside if graph.taps[key] == indices]
        first = (chosen or beside)[0]
        order = (_by_index if chosen else _by_rank)(candidate[first].values(), golden[first].values())
        if not (order == np.arange(order.shape[-1])).all():
            for key in beside:
                item = candidate[key]
                changed[key] = replace(item, array=np.take_along_axis(np.asarray(item.array), order, -1))
    return replace(candidate, tensors=[changed.get(item.key, item) for item in candidate]) if changed else candidate


def _ordering(graph: Graph, value: int) -> int | None:
    """The number of the `topk` over a last axis that chose these indices; None for any other value."""
    maker = chooser(graph, value)
    if maker is None or (node := _node(graph, maker)).op.partition(".")[0] != "topk":
        return None
    axis = node.operands[2] if len(node.operands) > 2 else node.named.get("dim", -1)
    return maker if axis in (-1, len(_node(graph, value).shape) - 1) else None


def _alike(expected: Tensor | None, actual: Tensor | None) -> bool:
    """Whether both have a tap, in one shape, and finite numbers in it."""
    if expected is None or actual is None or expected.array.shape != actual.array.shape:
        return False
    return bool(actual.array.ndim) and bool(np.isfinite(actual.values()).all())


def _beside(graph: Graph, maker: int, indices: int) -> list[tuple[str, int]]:
    """The taps in the order of a choice along the last axis: its indices, their numbers, what comes of these."""
    shape, first = _node(graph, indices).shape, len(graph.leaves)
    ordered = {indices}
    for value, node in enumerate(graph.nodes[maker - first :], maker):
        if node.shape == shape and _keeps(graph, node, ordered, maker):
            ordered.add(value)
    return [key for key, value in graph.taps.items() if value in ordered]


def _keeps(graph: Graph, node: Node, ordered: set[int], maker: int) -> bool:
    """Whether a node's result is in the order of a choice: each operand of its shape is, and it moves nothing."""
    if node.op == "getitem" and maker in node.reads:
        return True
    if node.op.startswith("index.") and len(node.operands[1]) == 1:  # of a table: what it has for each expert
        return bool(node.reads) and node.reads[-1] in ordered
    kernel = kernel_of(node.op)
    if kernel is None or (kernel.kind is not Kind.POINT and node.op.partition(".")[0] not in _KEEP):
        return False
    alike = [read for read in node.reads if (source := graph.node(read)) is not None and source.shape == node.shape]
    return not ordered.isdisjoint(node.reads) and all(read in ordered for read in alike)


def _node(graph: Graph, value: int) -> Node:
    node = graph.node(value)
    assert node is not None  # a choice is no leaf
    return node


def _by_index(actual: Array, expected: Array) -> Array:
    """Where in a candidate's rows the golden's indices stand; those that the golden does not have fill what is left."""
    size = actual.shape[-1]
    same = actual[..., None, :] == expected[..., :, None]  # [..., place in the golden, place in the candidate]
    same &= np.cumsum(same, -1) == 1  # an index twice is one place
    same &= np.cumsum(same, -2) == 1
    left = np.argsort(same.any(-2), -1, kind="stable")  # places that no index of the golden takes, first
    empty = np.argsort(same.any(-1), -1, kind="stable")
    order = np.empty(actual.shape, np.int64)
    np.put_along_axis(order, empty, left, -1)
    return np.where(same.any(-1), same.argmax(-1), order) if size else order


def _by_rank(actual: Array, expected: Array) -> Array:
    """Where in a candidate's rows the largest number stands, where the golden's largest does, and so on down."""
    order = np.empty(actual.shape, np.int64)
    np.put_along_axis(order, np.argsort(-expected, -1, kind="stable"), np.argsort(-actual, -1, kind="stable"), -1)
    return order
