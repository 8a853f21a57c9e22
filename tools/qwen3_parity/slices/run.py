"""A graph on known values, with one sentence where it cannot be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from qwen3_golden import Array, ParityError
from qwen3_parity.slices.plain import AGAIN, shown
from qwen3_spec.graph import Graph

_NEXT = f"{AGAIN}; if it was captured just now, report the model"
_NAMED = 4


def leaf_values(graph: Graph, arrays: Mapping[str, Array], where: object) -> dict[int, Array]:
    """As `Graph.leaf_values`; raises `ParityError` for an input or parameter that is not there."""
    missing = [name for name in (*graph.inputs, *graph.parameters) if name not in arrays]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise ParityError(
            where,
            "the graph reads inputs or parameters that are not there",
            expected=", ".join(missing[:_NAMED]) + more,
            got=f"{len(arrays)} others",
            next_step="give the case's own checkpoint with --model",
        )
    return graph.leaf_values(arrays)


@contextmanager
def computing(where: object) -> Iterator[None]:
    """Inside, an op whose operands it does not take, or that makes too much, is a `ParityError`."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, ParityError):
            raise
        rule = "an op of the graph cannot be computed"
        raise ParityError(where, rule, expected="operands that it takes", got=shown(error), next_step=_NEXT) from None
