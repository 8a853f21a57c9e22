"""A node that was computed before need not be counted again, but where a size, or a number, may be another one now."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_spec.aten import TRUTH
from qwen3_spec.graph import Node, Operand, Ref, computed

X = np.arange(3.0)[None]


def node(op: str, *operands: Operand, shape: tuple[int | None, ...] = (2, 3)) -> Node:
    return Node(op, operands, {}, "float32", shape, "", ())


EXPAND = node("expand.default", Ref(0), (Ref(1), 3))


@pytest.mark.parametrize(
    ("large", "values"),
    [
        (EXPAND, {0: X, 1: 10**12}),
        (node("full.default", (10**6, 10**7), 1.0, shape=(10**6, 10**7)), {}),
        (node("repeat.default", Ref(0), (10**6, 10**6), shape=(None, None)), {0: X}),
    ],
    ids=["a size", "numbers", "a free size"],
)
def test_what_sizes_and_numbers_decide_is_counted_before_it_is_made(large: Node, values: dict[int, object]) -> None:
    with pytest.raises(ValueError, match="it makes up to"):
        computed(large, values, TRUTH)
