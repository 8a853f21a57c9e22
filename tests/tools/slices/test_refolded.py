"""A norm divided by what its readers' columns are multiplied by is the same; a reader that lacks that is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small import recording

from qwen3_golden import Array, Recording, tensor
from qwen3_parity.judge.match import PARAMETER
from qwen3_parity.slices.refolded import refolded
from qwen3_spec.graph import Graph, Node, Ref

WIDTH, ROWS = 16, 12
RNG = np.random.Generator(np.random.PCG64(7))
WEIGHTS = {
    "norm.weight": RNG.uniform(0.5, 1.5, WIDTH).astype(np.float32),
    "q.weight": RNG.normal(size=(24, WIDTH)).astype(np.float32),
    "k.weight": RNG.normal(size=(8, WIDTH)).astype(np.float32),
}
S = RNG.uniform(0.5, 2, WIDTH).astype(np.float32)
X = RNG.normal(size=(1, ROWS, WIDTH)).astype(np.float32)


def node(op: str, *operands: Any, module: str) -> Node:
    return Node(op, operands, {}, "float32", (None, None, WIDTH), module, ())


def graph(reader: str = "linear.default") -> Graph:
    """Of x, the norm's weight, q's and k's: x times the norm's weight, and two products of that."""
    nodes = (
        node("mul.Tensor", Ref(1), Ref(0), module="norm"),  # 4
        node("linear.default", Ref(4), Ref(2), module="q"),  # 5
        node(reader, Ref(4), Ref(3), module="k"),  # 6
    )
    return Graph(("x",), tuple(WEIGHTS), {}, nodes, {("norm", 0): 4, ("q", 0): 5, ("k", 0): 6})


def candidate(q: Array, k: Array, norm: Array, *, whole: bool) -> Recording:
    """What a port computes with these weights; it holds the norm's, and the others where they are `whole`."""
    normed = X * norm
    taps = {"norm": normed, "q": normed @ q.T, "k": normed @ k.T}
    held = {"norm.weight": norm} | ({"q.weight": q, "k.weight": k} if whole else {})
    tensors = [tensor(name, array) for name, array in taps.items()]
    tensors += [tensor(f"{PARAMETER}{name}", array) for name, array in held.items()]
    return replace(recording({}, "port"), tensors=tensors)


def rounded(weight: Array) -> Array:
    scale = np.abs(weight).max(1, keepdims=True) / np.float32(7)
    return np.asarray(np.rint(weight / scale) * scale)


@pytest.mark.parametrize("whole", [True, False])
def test_a_norm_divided_by_what_its_readers_are_multiplied_by_is_the_same(*, whole: bool) -> None:
    port = candidate(rounded(WEIGHTS["q.weight"] * S), WEIGHTS["k.weight"] * S, WEIGHTS["norm.weight"] / S, whole=whole)
    folds = refolded(graph(), port, WEIGHTS)
    assert folds.notes == (
        "divided by numbers of the channels: norm.weight; their readers' columns are multiplied by these, which "
        "cancels and is judged so: q.weight, k.weight",
    )
    for name in ("q.weight", "k.weight"):
        np.testing.assert_allclose(folds.weights[name], WEIGHTS[name] * S, rtol=1e-6)
    undone = folds.undone(port, graph())["norm", 0]
    np.testing.assert_allclose(undone.values(), X * WEIGHTS["norm.weight"], rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_the_reader_that_is_not_multiplied_is_named(*, whole: bool) -> None:
    port = candidate(WEIGHTS["q.weight"] * S, WEIGHTS["k.weight"], WEIGHTS["norm.weight"] / S, whole=whole)
    folds = refolded(graph(), port, WEIGHTS)
    assert folds.notes[0].endswith("q.weight; not those of k.weight, which is a mistake")
    np.testing.assert_allclose(folds.weights["k.weight"], WEIGHTS["k.weight"] * S, rtol=1e-6)


def test_a_norm_of_other_numbers_by_itself_folds_nothing() -> None:
    port = candidate(WEIGHTS["q.weight"], WEIGHTS["k.weight"], WEIGHTS["norm.weight"] / S, whole=False)
    folds = refolded(graph(), port, WEIGHTS)
    assert not folds.notes and not folds.weights and folds.undone(port, graph()) is port


def test_a_norm_that_something_else_than_a_product_reads_folds_nothing() -> None:
    port = candidate(WEIGHTS["q.weight"] * S, WEIGHTS["k.weight"] * S, WEIGHTS["norm.weight"] / S, whole=True)
    assert not refolded(graph("add.Tensor"), port, WEIGHTS).notes


def test_the_checkpoints_own_weights_fold_nothing() -> None:
    port = candidate(WEIGHTS["q.weight"], WEIGHTS["k.weight"], WEIGHTS["norm.weight"], whole=True)
    assert not refolded(graph(), port, WEIGHTS).weights
