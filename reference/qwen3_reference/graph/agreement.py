"""A graph held against the run that it describes: NumPy's float32 at every tap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from qwen3_reference.graph.taps import Key
from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.aten import Numbers
from qwen3_spec.graph import Graph, computed
from qwen3_spec.slices import chosen

_FAST = Numbers(Arithmetic(np.float32, np.matmul, lambda x: np.asarray(np.sum(x, axis=-1, dtype=np.float32))))
"""float32 by whatever NumPy adds with: quick, and near enough to tell a wrong graph."""
_MASKED = 1e37
_AS_CHOSEN = 0.9


def farthest(graph: Graph, arrays: Mapping[str, Array], values: Mapping[Key, torch.Tensor]) -> tuple[Key, float]:
    """The tap at which a graph on `arrays` is farthest from a run, and by how much of the tap's own RMS.

    What the run chose – experts, by index – is taken over, since an order among equals or without meaning is torch's
    affair; that nearly all of it is chosen here too is checked. Another shape, and a value that is finite on one side
    alone, is infinitely far. Raises what NumPy raises where a node cannot be computed.
    """
    taps, errors = dict[int, list[Key]](), dict[Key, float]()
    for key in values:
        taps.setdefault(graph.taps[key], []).append(key)
    held = dict(graph.leaf_values(arrays))
    first = len(held)
    choices = chosen(
        graph, {graph.taps[key]: run.numpy() for key, run in values.items() if not run.is_floating_point()}
    )
    for number in range(first + len(graph.nodes)):
        if number >= first:
            node = graph.nodes[number - first]
            held[number] = computed(node, held, _FAST)
            if number in choices and np.isfinite(_choices_apart(choices[number], held[number][1])):
                held[number] = computed(node, held, _FAST, choices[number])  # what was chosen, in torch's order
        for key in taps.get(number, ()):
            run = values[key].numpy() if not values[key].is_floating_point() else values[key].double().numpy()
            errors[key] = _choices_apart(run, held[number]) if run.dtype.kind in "bi" else _error(run, held[number])
            if run.dtype.kind == "i" and np.isfinite(errors[key]):
                held[number] = run
    key = max(errors, key=lambda key: errors[key])
    return key, errors[key]


def _error(run: Array, mine: Array) -> float:
    """The RMS of the difference in parts of the run's RMS."""
    if run.shape != mine.shape or not np.array_equal(np.isfinite(run), np.isfinite(mine)):
        return np.inf
    # A mask's lowest number is float32's in the one, bfloat16's in the other.
    counted = np.isfinite(run) & (np.abs(run) < _MASKED)
    if not counted.any():
        return 0.0
    run, mine = run[counted], np.asarray(mine, np.float64)[counted]
    size, error = (float(np.sqrt(np.mean(np.square(values)))) for values in (run, run - mine))
    return error / size if size else error and np.inf


def _choices_apart(run: Array, mine: Array) -> float:
    """0 for indices that are the same but for their order in a row, in nearly every row."""
    if run.shape != mine.shape:
        return np.inf
    same = np.sort(run, axis=-1) == np.sort(mine, axis=-1) if run.ndim else run == mine
    return 0.0 if np.mean(same) >= _AS_CHOSEN else np.inf
