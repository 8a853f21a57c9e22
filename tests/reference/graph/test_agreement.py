"""A graph that computes something else than the run is far from it; an order of choices without meaning is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from qwen3_reference.graph.agreement import farthest
from qwen3_spec.graph import Graph, Node, Ref


def graph(scale: float) -> Graph:
    """The two largest of scaled numbers, their indices, and the numbers gathered again by those."""
    nodes = (
        Node("mul.Tensor", (Ref(0), scale), {}, "float32", (1, 4), "gate", ()),
        Node("topk.default", (Ref(1), 2), {}, "", (), "gate", ()),
        Node("getitem", (Ref(2), 1), {}, "int64", (1, 2), "gate", ()),
        Node("gather.default", (Ref(1), 1, Ref(3)), {}, "float32", (1, 2), "gate", ()),
    )
    return Graph(("x",), (), {}, nodes, {("scaled", 0): 1, ("chosen", 0): 3, ("weights", 0): 4})


X = np.array([[1.0, 4.0, 3.0, 2.0]], np.float32)
RUN = {
    ("scaled", 0): torch.tensor([[2.0, 8.0, 6.0, 4.0]]),
    ("chosen", 0): torch.tensor([[2, 1]]),
    ("weights", 0): torch.tensor([[6.0, 8.0]]),
}


def test_choices_in_another_order_are_taken_over() -> None:
    assert farthest(graph(2.0), {"x": X}, RUN)[1] == 0


def test_values_that_are_chosen_stand_in_the_order_of_their_indices() -> None:
    plain = graph(2.0)
    largest = Node("getitem", (Ref(2), 0), {}, "float32", (1, 2), "gate", ())
    with_values = replace(plain, nodes=(*plain.nodes, largest), taps={**plain.taps, ("largest", 0): 5})
    assert farthest(with_values, {"x": X}, RUN | {("largest", 0): torch.tensor([[6.0, 8.0]])})[1] == 0
    key, far = farthest(with_values, {"x": X}, RUN | {("largest", 0): torch.tensor([[6.0, 4.0]])})
    assert key == ("largest", 0) and far > 0.5


def test_another_number_is_told_by_its_tap() -> None:
    key, far = farthest(graph(2.5), {"x": X}, RUN)
    assert key[0] in ("scaled", "weights") and far == pytest.approx(0.25)


def test_another_choice_another_shape_and_a_nan_are_infinitely_far() -> None:
    assert farthest(graph(2.0), {"x": X}, RUN | {("chosen", 0): torch.tensor([[0, 3]])}) == (("chosen", 0), np.inf)
    assert farthest(graph(2.0), {"x": X}, RUN | {("scaled", 0): torch.ones(4)}) == (("scaled", 0), np.inf)
    broken = torch.tensor([[2.0, 8.0, 6.0, torch.nan]])
    assert farthest(graph(2.0), {"x": X}, RUN | {("scaled", 0): broken}) == (("scaled", 0), np.inf)
