"""A graph run on known values, with one sentence where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from qwen3_golden import Array, ParityError
from qwen3_parity.slices.plain import AGAIN, shown
from qwen3_spec.aten import TRUTH, Numbers
from qwen3_spec.graph import Graph

_NEXT = f"{AGAIN}; if it was captured just now, report the model"


def leaf_values(graph: Graph, arrays: Mapping[str, Array], where: object, numbers: Numbers = TRUTH) -> dict[int, Array]:
    """As `Graph.leaf_values`; raises `ParityError` for an input or parameter that is not there."""
    missing = [name for name in (*graph.inputs, *graph.parameters) if name not in arrays]
    if missing:
        rule = "the graph reads inputs or parameters that are not there"
        raise ParityError(where, rule, expected=", ".join(missing), got=f"{len(arrays)} others", next_step=_NEXT)
    return graph.leaf_values(arrays, numbers)


def run(
    graph: Graph,
    values: MutableMapping[int, Any],
    where: object,
    order: Sequence[int] | None = None,
    numbers: Numbers = TRUTH,
) -> MutableMapping[int, Any]:
    """As `Graph.run`; raises `ParityError` for an op whose operands it does not take, or that makes too much."""
    try:
        return graph.run(values, order, numbers)
    except ValueError as error:
        rule = "an op of the graph cannot be computed"
        raise ParityError(where, rule, expected="operands that it takes", got=shown(error), next_step=_NEXT) from None
