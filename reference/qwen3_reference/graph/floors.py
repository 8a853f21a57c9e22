"""Noise floors of a whole run: how far draws of Monte Carlo arithmetic over the graph end from the truth, by tap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, pb
from qwen3_reference.graph.scope import counted
from qwen3_spec.aten.noise import draws
from qwen3_spec.cells import ROWS
from qwen3_spec.graph import Graph
from qwen3_spec.slices import Slices, chosen

_DRAWS = 16
"""Half of them do, a quarter would not."""
_LARGE = 1 << 26
"""Numbers in a model's parameters from which on half of the draws are made."""
Key = tuple[str, int]
"""A tap's name and its step."""


class _Recorded(NamedTuple):
    values: Array
    axes: tuple[str, ...]
    counts: Array


def floors(graph: Graph, arrays: Mapping[str, Array], golden: Recording) -> dict[Key, pb.Floor]:
    """The floor of every float tap of a golden, from draws and from what the recorded run itself is off.

    `arrays` are inputs and parameters by name. The recorded choices (router, top-k) are everybody's: with another one
    the floor would be as wide as a wrong expert.
    """
    recorded = {
        item.key: _Recorded(item.values(), tuple(item.info.axes), counted(item, golden))
        for item in golden
        if item.key in graph.taps
    }
    narrow = golden.run.arithmetic in (pb.ARITHMETIC_BF16, pb.ARITHMETIC_F16)
    values = {graph.taps[key]: item.values for key, item in recorded.items()}
    whole = Slices(graph, graph.leaf_values(arrays), {}, choices=chosen(graph, values), narrow=narrow)
    floats = {key: graph.taps[key] for key, item in recorded.items() if item.values.dtype.kind == "f"}
    truth = whole.every(set(floats.values()))
    most = {key: _error(recorded[key], recorded[key].values, truth[value]) for key, value in floats.items()}
    squares = dict.fromkeys(floats, 0.0)
    count = _DRAWS if sum(arrays[name].size for name in graph.parameters) < _LARGE else _DRAWS // 2
    for noise in draws(count, narrow=narrow):
        drawn = whole.every(set(floats.values()), noise)
        for key, value in floats.items():
            error = _error(recorded[key], drawn[value], truth[value])
            most[key] = _Error(*map(max, most[key], error))
            squares[key] += error.rms**2 / count
    return {key: pb.Floor(rms=math.sqrt(squares[key]), max=error.max, row=error.row) for key, error in most.items()}


class _Error(NamedTuple):
    rms: float
    max: float
    row: float


def _error(item: _Recorded, actual: Array, truth: Array) -> _Error:
    """Over the cells that count; a row is a position of a batch row."""
    count = int(item.counts.sum())
    if not count:
        return _Error(0.0, 0.0, 0.0)
    # A mask's infinities are equal, and have no difference.
    errors = np.subtract(actual, truth, out=np.zeros(truth.shape), where=item.counts & (actual != truth))
    squares = np.square(errors)
    across = tuple(place for place, axis in enumerate(item.axes) if axis not in ("batch", "query", *ROWS))
    rows = squares.sum(across) / np.maximum(item.counts.sum(across), 1)
    return _Error(*(math.sqrt(float(square)) for square in (squares.sum() / count, squares.max(), rows.max())))
