"""A node of a graph computed again and again in float64, on tensors of the shapes and types that it read before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from qwen3_spec.aten import TRUTH, Kind
from qwen3_spec.graph import Node, Operand, Ref, settled

Again = Callable[[Mapping[int, Any]], Any]
"""What a node gives on the values of a graph, by number."""


def again(node: Node, values: Mapping[int, Any], before: Any) -> Again | None:
    """What computes a node that gave `before`, a tensor or several, on `values`, and counts and looks up nothing twice.

    None where each run must be looked at: a size is read or made, a float32 waits to be lifted, rows stay in their
    table. Whoever calls it ignores what NumPy warns of; it raises `ValueError` for a result of another shape than the
    node says, and what NumPy raises for operands that do not fit.
    """
    call, read = node.dispatch, [values[number] for number in node.reads]
    if call is None or call.kind is Kind.MADE or not (node.dtype or _are_tensors(before)):
        return None
    if not read or not all(_are_tensors(value) and (call.stays or _is_wide(value)) for value in read):
        return None
    if any(isinstance(operand, Ref | tuple) for operand in node.named.values()):
        return None
    compute = partial(call.compute, TRUTH) if call.takes_numbers else call.compute
    compute = partial(compute, **node.named) if node.named else compute
    take = _called(compute, node.operands)
    if not node.dtype:
        return take
    shape, dtype = before.shape, before.dtype

    def run(values: Mapping[int, Any]) -> Any:
        result = take(values)
        if type(result) is np.ndarray and result.shape == shape and result.dtype == dtype:
            return result
        return settled(node, call, result, TRUTH)

    return run


def _are_tensors(value: Any) -> bool:
    """Whether it is a tensor or several."""
    return all(type(part) is np.ndarray for part in (value if isinstance(value, list | tuple) else (value,)))


def _is_wide(value: Any) -> bool:
    parts = value if isinstance(value, list | tuple) else (value,)
    return all(part.dtype.kind != "f" or part.dtype == np.float64 for part in parts)


def _called(compute: Callable[..., Any], operands: tuple[Operand, ...]) -> Again:
    """What calls a function with its operands, of which values of the graph are looked up."""
    parts, refs = [_operand(operand) for operand in operands], [isinstance(operand, Ref) for operand in operands]
    if all(refs) and len(refs) > 1:
        several = itemgetter(*(operand.value for operand in operands))
        return lambda values: compute(*several(values))
    if refs[0] and not any(_refers(operand) for operand in operands[1:]):
        number, rest = operands[0].value, [part({}) for part in parts[1:]]
        return lambda values: compute(values[number], *rest)
    return lambda values: compute(*[part(values) for part in parts])


def _refers(operand: Operand) -> bool:
    """Whether a value of the graph is in an operand."""
    return isinstance(operand, Ref) or (isinstance(operand, tuple) and any(map(_refers, operand)))


def _operand(operand: Operand) -> Again:
    """What takes an operand, as a function takes it, out of values."""
    if isinstance(operand, Ref):
        return itemgetter(operand.value)
    if not isinstance(operand, tuple):
        return lambda _: operand
    parts = [_operand(part) for part in operand]
    return lambda values: [part(values) for part in parts]
