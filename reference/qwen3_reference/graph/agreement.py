"""A graph held against the run that it describes: NumPy's float32 at every tap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from qwen3_reference.graph.taps import Key
from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.aten import Numbers
from qwen3_spec.graph import Graph

_FAST = Numbers(Arithmetic(np.float32, np.matmul, lambda x: np.asarray(np.sum(x, axis=-1, dtype=np.float32))))
"""float32 by whatever NumPy adds with: quick, and near enough to tell a wrong graph."""


def farthest(graph: Graph, arrays: Mapping[str, Array], values: Mapping[Key, torch.Tensor]) -> tuple[Key, float]:
    """The tap at which a graph on `arrays` is farthest from a run, and by how much of the tap's own RMS.

    Integers are left out: they follow from floats that are compared. Another shape, and a value that is finite on one
    side alone, is infinitely far. Raises what NumPy raises where a node cannot be computed.
    """
    computed = graph.run(graph.leaf_values(arrays), numbers=_FAST)
    apart = dict(_apart(graph, computed, values))
    key = max(apart, key=lambda key: apart[key])
    return key, apart[key]


def _apart(
    graph: Graph, computed: Mapping[int, Array], values: Mapping[Key, torch.Tensor]
) -> Iterator[tuple[Key, float]]:
    for key, value in values.items():
        if not value.is_floating_point():
            yield key, 0.0
            continue
        run, mine = value.double().numpy(), np.asarray(computed[graph.taps[key]], np.float64)
        if run.shape != mine.shape:
            yield key, np.inf
            continue
        finite = np.isfinite(run)
        if not np.array_equal(finite, np.isfinite(mine)):
            yield key, np.inf
            continue
        # A mask's lowest number is float32's in the one, bfloat16's in the other.
        finite &= np.abs(run) < 1e37
        size = np.sqrt(np.mean(np.square(run[finite]))) if finite.any() else 0.0
        error = np.sqrt(np.mean(np.square((run - mine)[finite]))) if finite.any() else 0.0
        yield key, float(error / size) if size else float(error and np.inf)
