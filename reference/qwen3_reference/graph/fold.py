"""One value for what is equal: nodes that change nothing, and nodes that compute once more what is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

_SAME = frozenset(
    {
        "clone",
        "alias",
        "detach",
        "contiguous",
        "lift_fresh_copy",
        "_to_copy",
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
    }
)
"""Ops that give their operand back where dtype and shape stay."""


def folded(nodes: Sequence[fx.Node]) -> dict[fx.Node, fx.Node]:
    """For each node that gives the same as an earlier one, that earlier one; the first of equals stands for all."""
    same, first = dict[fx.Node, fx.Node](), dict[tuple[str, str, str], fx.Node]()
    for node in nodes:
        if node.op != "call_function":
            continue
        operand = _operand_given_back(node)
        if operand is not None:
            same[node] = same.get(operand, operand)
        elif not _draws(node):
            # Texts, since 1, 1.0 and True are equal to Python and not to torch.
            key = (str(node.target), repr(replaced(node.args, same)), repr(replaced(node.kwargs, same)))
            if first.setdefault(key, node) is not node:
                same[node] = first[key]
    return same


def replaced(value: Any, same: Mapping[fx.Node, fx.Node]) -> Any:
    """Operands with every node replaced by the one that stands for it."""
    return fx.node.map_arg(value, lambda node: same.get(node, node))


def _operand_given_back(node: fx.Node) -> fx.Node | None:
    name = str(node.target).removeprefix("aten.").partition(".")[0]
    operand = node.args[0] if node.args else None
    if not isinstance(operand, fx.Node):
        return None
    before, after = operand.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return None
    # Texts again: to compare free sizes would settle them.
    if before.dtype != after.dtype or str(tuple(before.shape)) != str(tuple(after.shape)):
        return None
    if name == "slice":
        return operand if len(node.args) < 5 or node.args[4] == 1 else None
    if name == "dropout":
        return operand if node.args[1] == 0 or not node.args[2] else None
    return operand if name in _SAME else None


def _draws(node: fx.Node) -> bool:
    """Whether an op gives another value each time."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
