"""Parameters that a candidate holds in a form of its own, and computes the same with.

A loader may add the 1 of `1 + weight`, fold a scale in, or order the rows of queries otherwise. Where every tap is
right, nothing that was computed comes of other weights; but of a table only the rows that were asked for are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

from qwen3_golden import Array, Recording, pb
from qwen3_parity.judge.match import PARAMETER, digest, other_bytes
from qwen3_reference.checkpoints.parameters_of_run import ParametersOfRun
from qwen3_spec.aten.table import Kind, kernel_of
from qwen3_spec.graph import Graph

_ROWS = frozenset({"embedding", "index", "index_select", "gather"})
"""Ops that read some rows of a table."""


def in_another_form(
    graph: Graph, golden: Recording, candidate: Recording, weights: Mapping[str, Array], *, narrow: bool = False
) -> list[str]:
    """The parameters with other bytes that right taps excuse: all but tables, and tables times the embeddings' scale.

    Of the other tables nobody knows the rows that the case does not read. In half precision (`narrow`), which hides
    small changes, those alone whose recorded numbers are the golden's plus 1, as norms with an offset are folded.
    """
    ours, excused = {item.name: item.sha256 for item in candidate.parameters}, list[str]()
    tables = _tables(graph)
    for name in other_bytes(candidate, golden):
        read = _read_as(graph, golden, name)
        if narrow and not (read and _is_one_more(candidate, name, weights[read])):
            continue
        if read and (read not in tables or ours[name] == _scaled(golden, weights[read])):
            excused.append(name)
    return excused


def before_rounding(golden: Recording, candidate: Recording, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters, by the golden's names, that a candidate holds as the checkpoint has them, in float32.

    Those that the golden's run rounded to half precision; a candidate in float32 may be right on the others.
    """
    if not isinstance(weights, ParametersOfRun):
        return {}
    ours, unrounded = {item.name: item for item in candidate.parameters}, dict[str, Array]()
    read = {item.sha256: item.name for item in reversed(golden.parameters) if item.name in weights}
    for item in golden.parameters:
        name = item.name if item.name in weights else read.get(item.sha256)
        if name is None or ours.get(item.name, item).dtype != pb.F32 or item.dtype == pb.F32:
            continue
        stored = weights.before_rounding(name)
        if stored is not None and digest(stored) == ours[item.name].sha256:
            unrounded[item.name] = stored
    return unrounded


def _is_one_more(candidate: Recording, name: str, weight: Array) -> bool:
    held = candidate.get(f"{PARAMETER}{name}", 0)
    return held is not None and np.array_equal(held.values(), np.float32(1) + weight)


def _read_as(graph: Graph, golden: Recording, name: str) -> str:
    """The graph's name of a parameter: a tied one has a single name there; "" for one that nothing reads."""
    digests = {item.name: item.sha256 for item in golden.parameters}
    return next((read for read in (name, *graph.parameters)
                 if read in graph.parameters and digests.get(read) == digests[name]), "")  # fmt: skip


def _tables(graph: Graph) -> set[str]:
    """The parameters of which some op reads only rows, however they were turned before."""
    source, tables = {graph.leaves[name]: name for name in graph.parameters}, set[str]()
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        name = source.get(node.reads[0]) if node.reads else None
        if name is None:
            continue
        op, kernel = node.op.partition(".")[0], kernel_of(node.op)
        if op in _ROWS:
            tables.add(name)
        elif kernel is not None and kernel.kind is Kind.MOVE:
            source[value] = name
    return tables


def _scaled(golden: Recording, table: Array) -> bytes:
    """The digest of a table times the root of its width, in float32."""
    try:
        width = json.loads(golden.graph.config).get("hidden_size", table.shape[-1])
    except (ValueError, AttributeError):
        width = table.shape[-1]
    scale = np.float32(math.sqrt(width)) if isinstance(width, int) and width > 0 else np.float32(1)
    return digest(table * scale)
