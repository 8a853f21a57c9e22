"""A node computed again gives what it gave, and refuses another shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from qwen3_spec.again import again
from qwen3_spec.aten import TRUTH
from qwen3_spec.graph import Node, Ref, computed

X = np.linspace(-1, 1, 12).reshape(3, 4)


def node(op: str, *operands: Any, shape: tuple[int | None, ...], dtype: str = "float32", **named: Any) -> Node:
    return Node(op, operands, named, dtype, shape, "", ())


NODES: Mapping[str, Node] = {
    "tensors": node("mul.Tensor", Ref(0), Ref(1), shape=(3, 4)),
    "a tensor and numbers": node("view.default", Ref(0), (4, 3), shape=(4, 3)),
    "a tensor behind a number": node("pow.Scalar", 2.0, Ref(0), shape=(3, 4)),
    "a list of tensors": node("cat.default", (Ref(0), Ref(1)), 1, shape=(3, 8)),
    "sums": node("mean.dim", Ref(0), (-1,), True, shape=(3, 1)),
    "a dtype": node("softmax.int", Ref(0), -1, shape=(3, 4), dtype="float32"),
    "a cast": node("_to_copy.default", Ref(0), shape=(3, 4), dtype="int64"),
    "several results": node("split.Tensor", Ref(0), 2, 1, shape=(), dtype=""),
}


@pytest.mark.parametrize("each", NODES.values(), ids=NODES)
def test_again_it_gives_what_it_gave(each: Node) -> None:
    values = {0: X, 1: 2 * X}
    before = computed(each, values, TRUTH)
    step = again(each, values, before)
    assert step is not None
    for near in (values, {0: X + 1, 1: X}):
        actual, expected = step(near), computed(each, near, TRUTH)
        np.testing.assert_array_equal(actual, expected)
        assert np.asarray(actual).dtype == np.asarray(expected).dtype


def test_again_it_refuses_another_shape() -> None:
    each = NODES["tensors"]
    step = again(each, {0: X, 1: X}, X * X)
    assert step is not None
    with pytest.raises(ValueError, match="it gives"):
        step({0: X[:, :2], 1: X[:, :2]})


@pytest.mark.parametrize(
    ("each", "values"),
    [
        (node("expand.default", Ref(0), (Ref(1), 4), shape=(None, 4)), {0: X[:1], 1: 2}),
        (node("full.default", (3, 4), 1.0, shape=(3, 4)), {}),
        (node("add.Tensor", Ref(0), Ref(0), shape=(3, 4)), {0: X.astype(np.float32)}),
        (node("bmm.default", Ref(0), Ref(0), shape=(3, 4)), {0: object()}),
    ],
    ids=["a size", "numbers alone", "single precision", "rows of a table"],
)
def test_what_each_run_must_look_at_is_not_computed_blindly(each: Node, values: Mapping[int, Any]) -> None:
    assert again(each, values, X) is None
