"""A node that was computed before need not be counted again, but where a size, or a number, may be another one now."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_spec.aten import TRUTH
from qwen3_spec.graph import LIMIT, Node, Operand, Ref, computed

X = np.arange(3.0)[None]


def node(op: str, *operands: Operand, shape: tuple[int | None, ...] = (2, 3)) -> Node:
    return Node(op, operands, {}, "float32", shape, "", ())


EXPAND = node("expand.default", Ref(0), (Ref(1), 3))


@pytest.mark.parametrize("limit", [1 << 20, None])
def test_with_a_limit_and_without_a_node_gives_the_same(limit: int | None) -> None:
    np.testing.assert_array_equal(computed(EXPAND, {0: X, 1: 2}, TRUTH, limit=limit), [[0, 1, 2]] * 2)
    double = node("mul.Tensor", Ref(0), 2.0, shape=(1, 3))
    np.testing.assert_array_equal(computed(double, {0: X}, TRUTH, limit=limit), 2 * X)


def test_where_it_was_computed_before_an_op_reads_single_precision_and_lists_as_ever() -> None:
    joined = node("cat.default", (Ref(0), Ref(1)), -1, shape=(*X.shape[:-1], 2 * X.shape[-1]))
    operands = {0: X.astype(np.float32) / 3, 1: X.astype(np.float32) / 7}
    for each in (node("mul.Tensor", Ref(0), Ref(1), shape=X.shape), joined):
        again, before = (computed(each, operands, TRUTH, limit=limit) for limit in (None, LIMIT))
        assert again.dtype == before.dtype == np.float64
        np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize(
    ("large", "values"),
    [
        (EXPAND, {0: X, 1: 10**12}),
        (node("full.default", (10**6, 10**7), 1.0, shape=(10**6, 10**7)), {}),
        (node("repeat.default", Ref(0), (10**6, 10**6), shape=(None, None)), {0: X}),
    ],
    ids=["a size", "numbers", "a free size"],
)
def test_what_sizes_and_numbers_decide_is_counted_all_the_same(large: Node, values: dict[int, object]) -> None:
    with pytest.raises(ValueError, match="it makes up to"):
        computed(large, values, TRUTH, limit=None)
