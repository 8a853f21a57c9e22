"""A candidate's chosen experts, and what stands beside them, in the golden's order: which is first means nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_spec.aten.table import Kind, kernel_of
from qwen3_spec.graph import Graph, Node
from qwen3_spec.slices import chooser

_KEEP = frozenset(
    {"view", "reshape", "_unsafe_view", "clone", "contiguous", "_to_copy", "to", "neg", "abs", "relu", "clamp"}
    | {"softmax", "_softmax", "gather", "getitem", "where", "masked_fill"}
    | {"ge", "gt", "le", "lt", "eq", "ne", "logical_not", "logical_and", "logical_or"}
    | {"type_as", "alias", "detach", "lift_fresh_copy", "clamp_min", "maximum", "minimum"}
)
"""Ops that leave the order of their operand's last axis, where the shape stays, beside those of single elements."""


def in_golden_order(graph: Graph, golden: Recording, candidate: Recording) -> Recording:
    """The candidate with chosen indices, and taps that have a number for each, as the golden orders them, row by row.

    Where the indices were not recorded, the largest number stands where the golden's largest does.
    """
    changed = dict[tuple[str, int], Tensor]()
    for maker, indices in _choices(graph):
        beside = [key for key in _beside(graph, maker, indices) if _alike(golden.get(*key), candidate.get(*key))]
        if not beside:
            continue
        chosen = [key for key in beside if graph.taps[key] == indices]
        chosen = chosen or [key for key in beside if golden[key].array.dtype.kind in "iu"]  # indices, marked where void
        first, width = (chosen or beside)[0], _node(graph, indices).shape[-1]
        order = (_by_index if chosen else _by_rank)(*(run[first].values()[..., :width] for run in (candidate, golden)))
        if not (order == np.arange(order.shape[-1])).all():
            for key in beside:
                array = np.asarray(candidate[key].array).copy()
                array[..., :width] = np.take_along_axis(array[..., :width], order, -1)
                changed[key] = replace(candidate[key], array=array)
    return replace(candidate, tensors=[changed.get(item.key, item) for item in candidate]) if changed else candidate


def follows_a_choice(graph: Graph, value: int) -> bool:
    """Whether a value's last axis begins in the order of a choice."""
    return any(value in _ordered(graph, maker, indices) for maker, indices in _choices(graph) if maker < value)


def _choices(graph: Graph) -> Iterator[tuple[int, int]]:
    """The number of each `topk` over a last axis, and of the indices that it chose."""
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if node.op != "getitem" or (maker := chooser(graph, value)) is None:
            continue
        choice = _node(graph, maker)
        axis = choice.operands[2] if len(choice.operands) > 2 else choice.named.get("dim", -1)
        if choice.op.partition(".")[0] == "topk" and axis in (-1, len(node.shape) - 1):
            yield maker, value


def _alike(expected: Tensor | None, actual: Tensor | None) -> bool:
    """Whether both have a tap, in one shape, and finite numbers in it."""
    if expected is None or actual is None or expected.array.shape != actual.array.shape:
        return False
    return bool(actual.array.ndim) and bool(np.isfinite(actual.values()).all())


def _beside(graph: Graph, maker: int, indices: int) -> list[tuple[str, int]]:
    """The taps whose last axis begins in the order of a choice: its indices, their numbers, what comes of these."""
    ordered = _ordered(graph, maker, indices)
    return [key for key, value in graph.taps.items() if value in ordered]


def _ordered(graph: Graph, maker: int, indices: int) -> set[int]:
    shape, first = _node(graph, indices).shape, len(graph.leaves)
    ordered = {indices}
    for value, node in enumerate(graph.nodes[maker - first :], maker):
        if node.shape[:-1] == shape[:-1] and _keeps(graph, node, ordered, maker, shape[-1]):
            ordered.add(value)
    return ordered


def _keeps(graph: Graph, node: Node, ordered: set[int], maker: int, width: int | None) -> bool:
    """Whether a node's result begins in the order of a choice: each operand of its shape does, and it moves nothing."""
    op = node.op.partition(".")[0]
    if op == "getitem" and maker in node.reads:
        return True
    if op in ("cat", "slice", "index"):
        return _joins(node, op, ordered, width)
    kernel = kernel_of(node.op)
    if kernel is None or (kernel.kind is not Kind.POINT and op not in _KEEP):
        return False
    alike = [read for read in node.reads if (source := graph.node(read)) is not None and source.shape == node.shape]
    alike = [read for read in alike if not _same_everywhere(graph, read)]
    return not ordered.isdisjoint(node.reads) and all(read in ordered for read in alike)


def _joins(node: Node, op: str, ordered: set[int], width: int | None) -> bool:
    """Whether a node puts more behind an order, takes the beginning of it, or what a table has for each expert."""
    last = len(node.shape) - 1
    if op == "cat":  # shared experts behind those that were chosen
        return node.reads[0] in ordered and node.operands[1:] in ((-1,), (last,))
    if op == "slice":
        return node.reads[0] in ordered and node.operands[1] in (-1, last) and node.operands[2:4] == (0, width)
    return len(node.operands[1]) == 1 and bool(node.reads) and node.reads[-1] in ordered


def _same_everywhere(graph: Graph, value: int) -> bool:
    """Whether a value is a number at all places, which stand in any order."""
    return _node(graph, value).op.partition(".")[0] in {"full", "full_like", "zeros_like", "ones_like"}


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
