"""Rows of a large table are multiplied where they are: the same numbers and the same scatter as of copies."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten import gathered
from qwen3_spec.graph import Graph, Node, Ref
from qwen3_spec.slices import Slices

TABLE, X, ROWS = (5, 6, 7), (9, 7, 1), np.array([3, 0, 3, -2, 4, 0, 1, 3, -5])


def graph(*, turned: bool = False) -> Graph:
    """Weights by index times a vector each, on either side of the product."""
    rows = Node("index.Tensor", (Ref(2), (Ref(1),)), {}, "float32", (None, None, None), "experts", ())
    sides = (Ref(0), Ref(3)) if turned else (Ref(3), Ref(0))
    return Graph(("x", "rows"), ("table",), {}, (rows, _node("bmm.default", *sides)), {("y", 0): 4})


def _node(op: str, *operands: object) -> Node:
    return Node(op, operands, {}, "float32", (None, None, None), "experts", ())


def slices(*, turned: bool = False) -> Slices:
    rng, whole = np.random.default_rng(1), graph(turned=turned)
    x = rng.normal(size=X).astype(np.float32)
    table = (rng.normal(size=TABLE) * [[[1.0]], [[1e3]], [[1.0]], [[1.0]], [[1e-3]]]).astype(np.float32)
    leaves = {"x": x, "rows": ROWS, "table": table}
    if turned:
        leaves |= {"x": x.swapaxes(1, 2), "table": table.swapaxes(1, 2)}
    return Slices(whole, whole.leaf_values(leaves), {})


@pytest.mark.parametrize("turned", [False, True])
def test_numbers_and_units_are_those_of_copies(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = slices(turned=turned)
    truth = copied.value(4)
    counts = np.ones(truth.shape, bool)
    unit = copied.unit(4, truth, counts)
    monkeypatch.setattr(gathered, "LARGE", 1)
    apart = slices(turned=turned)
    assert isinstance(apart.graph.run(dict(apart.leaves))[3], gathered.Gathered)
    np.testing.assert_allclose(apart.value(4), truth, rtol=1e-14, atol=1e-14)
    rows = np.square(apart.unit(4, truth, counts)).mean((1, 2)) / np.square(unit).mean((1, 2))
    assert 0.3 < rows.min() <= rows.max() < 3  # each entry drifts by itself, however large it is


def test_any_other_op_gets_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "LARGE", 1)
    leaves = slices().leaves
    whole = Graph(("x", "rows"), ("table",), {}, (graph().nodes[0], _node("neg.default", Ref(3))), {("y", 0): 4})
    np.testing.assert_array_equal(whole.run(dict(leaves))[4], -leaves[2][ROWS].astype(np.float64))


def experts(count: int, table: Array) -> Array:
    """The product of so many rows of a table, each with ones."""
    rows = np.arange(count) % len(table)
    whole, x = graph(), np.ones((count, table.shape[2], 1), np.float32)
    return np.asarray(whole.run(whole.leaf_values({"x": x, "rows": rows, "table": table}))[4])


def test_experts_of_real_size_are_no_copies_and_are_bounded() -> None:
    table = np.broadcast_to(np.float32([[[1.0]], [[2.0]]]), (2, 1 << 10, 1 << 11))
    product = experts(256, table)  # 2^29 elements, four times what an op may make
    assert product.shape == (256, 1 << 10, 1) and {1.0 * (1 << 11), 2.0 * (1 << 11)} == set(np.unique(product))
    with pytest.raises(ValueError, match="elements, and"):
        experts(1 << 16, table)
    with pytest.raises(ValueError, match=r"index\.Tensor in experts|bmm\.default in experts"):
        whole = graph()
        whole.run(whole.leaf_values({"x": np.ones((3, 7, 1)), "rows": np.array([0, 1]), "table": table}))
