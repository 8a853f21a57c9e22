"""Slices of a graph on recorded values: from the nearest ones, inputs once, choices as they were made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qwen3_spec.arithmetic import Array
from qwen3_spec.cells import Positions, judged
from qwen3_spec.graph import Graph, Node, Ref
from qwen3_spec.slices import DRAWS, Slices, chooser


def node(op: str, *operands: Any, dtype: str = "float32", shape: tuple[int | None, ...] = (None, None)) -> Node:
    return Node(op, operands, {}, dtype, shape, "m", ())


GRAPH = Graph(
    ("positions",),
    ("weight",),
    {"rope.inv_freq": np.asarray([1.0, 0.1], np.float32)},
    (
        node("mul.Tensor", Ref(0), Ref(2)),  # 3: the angles
        node("cos.default", Ref(3)),  # 4
        node("mul.Tensor", Ref(4), Ref(1)),  # 5
        node("add.Tensor", Ref(5), 1.0),  # 6
        node("topk.default", Ref(6), 1, -1, dtype=""),  # 7
        node("getitem", Ref(7), 0),  # 8
        node("getitem", Ref(7), 1, dtype="int64"),  # 9
        node("mul.Tensor", Ref(8), 2.0),  # 10
    ),
    {("end", 0): 10},
)
POSITIONS = np.arange(1.0, 5.0, dtype=np.float32)[:, None]
LEAVES = GRAPH.leaf_values({"positions": POSITIONS, "weight": np.asarray([1.5, -2.5], np.float32)})
ALL = np.ones((4, 2), bool)


def of(recorded: dict[int, Array], **more: Any) -> Slices:
    return Slices(GRAPH, LEAVES, recorded, **more)


def test_a_slice_reaches_back_to_what_was_recorded_and_no_further() -> None:
    product = np.full((4, 2), 3.0, np.float32)
    slices = of({5: product, 6: np.zeros((4, 2), np.float32)})
    assert slices.order(6) == [6] and slices.reads(6) == [5]
    assert (slices.value(6) == 4).all()
    assert slices.order(5) == [5] and slices.reads(5) == []


def test_what_inputs_alone_make_is_theirs_until_it_is_recorded() -> None:
    turned = np.full((4, 2), 0.5, np.float32)
    assert np.allclose(of({}).value(5), np.cos(POSITIONS * [1, 0.1]) * [1.5, -2.5], atol=1e-7)
    assert np.allclose(of({4: turned}).value(5), 0.5 * np.asarray([1.5, -2.5]))
    assert np.allclose(of({3: turned}).value(5), np.cos(0.5) * np.asarray([1.5, -2.5]))


def test_angles_of_ones_own_frequencies_are_noise() -> None:
    slices = of({})
    truth = slices.value(4)
    unit = slices.unit(4, truth, ALL)
    off = np.cos(POSITIONS.astype(np.float64) * (np.asarray([1, 0.1]) * (1 + 2**-22)))
    assert np.sqrt(np.square((off - truth) / unit).mean()) < 2.5
    wrong = np.cos(POSITIONS.astype(np.float64) * (np.asarray([1, 0.1]) * (1 + 2**-12)))
    assert np.sqrt(np.square((wrong - truth) / unit).mean()) > 100


def test_a_recorded_choice_is_what_follows_is_computed_with() -> None:
    picked = np.ones((4, 1), np.int64)
    scores = np.asarray([[2.0, 1.0]] * 4, np.float32)
    assert chooser(GRAPH, 9) == 7 and chooser(GRAPH, 8) is None and chooser(GRAPH, 0) is None
    assert (of({6: scores}).value(10) == 4).all()
    assert (of({6: scores, 9: picked}, choices={7: picked}).value(10) == 2).all()


def test_indices_that_were_cast_are_the_choice_that_they_are_of() -> None:
    """A sparse attention's indexer gives int32."""
    first = len(GRAPH.leaves) + len(GRAPH.nodes)
    cast = Node("_to_copy.default", (Ref(9),), {"dtype": "int32"}, "int32", (4, 1), "", ())
    added = Node("add.Tensor", (Ref(9), 1), {}, "int64", (4, 1), "", ())
    graph = replace(GRAPH, nodes=(*GRAPH.nodes, cast, added))
    assert chooser(graph, first) == 7 and chooser(graph, first + 1) is None


@pytest.mark.parametrize("op", ["_to_copy.default", "getitem"])
def test_an_op_without_its_operands_chooses_nothing(op: str) -> None:
    graph = replace(GRAPH, nodes=(*GRAPH.nodes, Node(op, (), {}, "int64", (4, 1), "", ())))
    assert chooser(graph, len(GRAPH.leaves) + len(GRAPH.nodes)) is None


def test_a_row_lends_its_unit_to_an_element_that_drew_none() -> None:
    truth = of({5: np.asarray([[0.0, 1.0]] * 4, np.float32)}).value(6)
    unit = of({5: np.asarray([[0.0, 1.0]] * 4, np.float32)}).unit(6, truth, ALL)
    assert unit.min() > 0.1 * unit.max()


def test_rows_that_do_not_count_lend_nothing() -> None:
    slices = of({5: np.asarray([[1e6, 1.0]] * 4, np.float32)})
    counts = np.asarray([[False, True]] * 4)
    unit = slices.unit(6, slices.value(6), counts)
    assert unit[:, 1].max() < 1e-5


@pytest.mark.parametrize(
    ("axes", "shape", "expected"),
    [
        (("batch", "query"), (2, 2), [[1, 1], [0, 1]]),
        (("batch", "key"), (2, 3), [[0, 1, 1], [1, 0, 1]]),
        (("row", "channel"), (4, 1), [[1], [1], [0], [1]]),
        (("channel",), (3,), [1, 1, 1]),
        (("query", "batch"), (2, 2), [[1, 0], [1, 1]]),
        (("batch", "query"), (2, 5), [[1] * 5, [1] * 5]),
        (("batch", "query"), (2, 3), [[0, 1, 1], [1, 0, 1]]),
        (("row", "channel"), (6, 1), [[0], [1], [1], [1], [0], [1]]),
    ],
)
def test_padding_does_not_count(axes: tuple[str, ...], shape: tuple[int, ...], expected: list[Any]) -> None:
    real = np.asarray([[False, True, True], [True, False, True]])
    assert judged(shape, axes, [Positions(real, 1)]).astype(int).tolist() == expected


def test_an_encoders_positions_are_taken_where_a_decoders_do_not_fit() -> None:
    decoder, encoder = Positions(np.ones((1, 2), bool)), Positions(np.asarray([[True, False, True]]))
    assert judged((1, 3), ("batch", "query"), [decoder, encoder]).tolist() == [[True, False, True]]


def test_units_are_drawn_once_for_each_value_and_what_it_is_said_to_be() -> None:
    slices = of({})
    asked = [(value, slices.value(value)) for value in (3, 4, 5, 6, 8, 10)]
    units = [slices.unit(value, truth, ALL[:, : truth.shape[1]]) for value, truth in asked]
    again = [slices.unit(value, truth.copy(), ALL[:, : truth.shape[1]]) for value, truth in asked]
    assert all(unit is held for unit, held in zip(units, again, strict=True))
    fewer = slices.unit(4, slices.value(4), ALL & np.asarray([True, False]))
    assert fewer is not units[1] and (fewer != units[1]).any()


def test_a_unit_by_more_draws_is_never_much_smaller_than_by_few() -> None:
    slices = of({})
    truth = slices.value(6)
    few, more, every = slices.units(6, truth, ALL)
    assert DRAWS == (2, 4, 8) and slices.unit(6, truth, ALL) is every
    assert (every >= few / 2).all() and (every >= more / np.sqrt(2)).all()
    assert (few != more).any() and (more != every).any()
    assert 0.5 < few.mean() / every.mean() < 1.5  # the same unit, and not a sum that grows with draws


def test_what_is_held_of_units_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_spec.slices._HELD", 300)  # two of 64 + 8 + 64 bytes
    slices = of({})
    first, *_, last = [slices.unit(value, slices.value(value), ALL) for value in (3, 4, 5, 6)]
    assert slices.unit(6, slices.value(6), ALL) is last
    assert slices.unit(3, slices.value(3), ALL) is not first
