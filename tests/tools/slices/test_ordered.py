"""Which chosen expert stands first means nothing, with its index and without; whose number it is does."""

from __future__ import annotations

import numpy as np
import pytest
from small import CHOSEN, EXPERTS, Values, golden, graph, recording, run, weights

from qwen3_golden import Array
from qwen3_parity.check import check
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.slices.ordered import follows_a_choice, in_golden_order
from qwen3_spec.graph import Graph, Node, Ref

BY_INDEX = ("layers.0.gate[1]", "layers.0.gate[2]")


def by_index(*names: str) -> Values:
    """The run of an engine that lists its experts by their indices."""
    values = run({})
    order = np.argsort(values["layers.0.gate[2]"], -1)
    assert (order != np.arange(CHOSEN)).any()
    return values | {name: np.take_along_axis(values[name], order, -1) for name in names}


@pytest.mark.parametrize("leave", [(), ("layers.0.gate[2]",), ("layers.0.gate",), ("layers.0.experts", "layers.0")])
def test_experts_in_an_order_of_ones_own_are_at_parity_and_nothing_is_wrong(leave: tuple[str, ...]) -> None:
    values = {name: value for name, value in by_index(*BY_INDEX).items() if name not in leave}
    verdicts = check(golden(), recording(values, "port"), weights())
    assert (verdicts.word, verdicts.wrong_alone) == ("parity", [])
    diagnosis = diagnose(golden(), recording(values, "port"), weights())
    assert diagnosis.verdicts.word == "parity" and not diagnosis.faults


@pytest.mark.parametrize("name", BY_INDEX)
def test_numbers_in_another_order_than_their_indices_are_wrong(name: str) -> None:
    verdicts = check(golden(), recording(by_index(name), "port"), weights())
    assert "layers.0.gate[1]" in verdicts.wrong_alone


def chosen(candidate: Array) -> Array:
    """A candidate's choices as they are judged."""
    values = run({}) | {"layers.0.gate[2]": candidate}
    return in_golden_order(graph(), golden(), recording(values, "port"))["layers.0.gate[2]", 0].values()


def test_what_the_golden_did_not_choose_stands_where_it_has_room() -> None:
    expected = golden()["layers.0.gate[2]", 0].values()
    absent = (expected.max(-1) + 1) % EXPERTS
    for place in range(CHOSEN):
        mine = expected[..., ::-1].copy()
        mine[..., place] = absent
        free = CHOSEN - 1 - place  # the place of the one that is not there
        assert (chosen(mine)[..., free] == absent).all()
        assert (np.delete(chosen(mine), free, -1) == np.delete(expected, free, -1)).all()


def test_an_index_twice_and_one_of_nobody_stay_what_they_are() -> None:
    expected = golden()["layers.0.gate[2]", 0].values()
    twice = np.repeat(expected[..., :1], CHOSEN, -1)
    assert (chosen(twice) == twice).all()
    nobody = np.full_like(expected, EXPERTS + 5)
    assert (chosen(nobody) == nobody).all()


CAST = ("type_as.default", "_to_copy.default", "clone.default", "alias.default", "softmax.int")


@pytest.mark.parametrize("op", CAST)
def test_what_is_made_of_the_numbers_of_a_choice_is_in_its_order(op: str) -> None:
    """Granite's router gives its weights in the type of what it reads: such a tap turns with the indices."""
    here, more = graph(), {"type_as.default": (Ref(6),), "softmax.int": (-1,)}
    last = len(here.leaves) + len(here.nodes)
    node = Node(op, (Ref(10), *more.get(op, ())), {}, "float32", (None, None, CHOSEN), "gate", ())
    taps = {**here.taps, ("layers.0.gate[1]", 0): last}
    cast = Graph(here.inputs, here.parameters, here.constants, (*here.nodes, node), taps)
    honest = recording(run({}), "port")
    turned = in_golden_order(cast, honest, recording(by_index(*BY_INDEX), "port"))
    for name in BY_INDEX:
        np.testing.assert_array_equal(turned[name, 0].values(), honest[name, 0].values())


def test_weights_times_a_scale_of_each_expert_are_in_the_order_of_a_choice() -> None:
    """Gemma 4's router multiplies the chosen weights by what a parameter has for their experts."""
    here = graph()
    indices, last = here.taps["layers.0.gate[2]", 0], len(here.leaves) + len(here.nodes)
    shape = (None, None, CHOSEN)
    scale = Node("index.Tensor", (Ref(0), (Ref(indices),)), {}, "float32", shape, "gate", ())
    scaled = Node("mul.Tensor", (Ref(10), Ref(last)), {}, "float32", shape, "gate", ())
    taps = {**here.taps, ("layers.0.gate[1]", 0): last + 1}
    by_scale = Graph(here.inputs, here.parameters, here.constants, (*here.nodes, scale, scaled), taps)
    honest = recording(run({}), "port")
    turned = in_golden_order(by_scale, honest, recording(by_index(*BY_INDEX), "port"))
    for name in BY_INDEX:
        np.testing.assert_array_equal(turned[name, 0].values(), honest[name, 0].values())


def test_choices_that_are_marked_where_they_are_void_are_in_any_order() -> None:
    """DeepSeek-V4's indexer gives -1 where it chose what no query may see yet."""
    here = graph()
    indices, last = here.taps["layers.0.gate[2]", 0], len(here.leaves) + len(here.nodes)
    shape = (None, None, CHOSEN)
    void = Node("ge.Scalar", (Ref(indices), EXPERTS // 2), {}, "bool", shape, "gate", ())
    mark = Node("full_like.default", (Ref(indices), -1), {}, "int64", shape, "gate", ())
    marked = Node("where.self", (Ref(last), Ref(last + 1), Ref(indices)), {}, "int64", shape, "gate", ())
    taps = {key: value for key, value in here.taps.items() if key[0] not in BY_INDEX} | {(BY_INDEX[1], 0): last + 2}
    by_mark = Graph(here.inputs, here.parameters, here.constants, (*here.nodes, void, mark, marked), taps)
    expected = run({})["layers.0.gate[2]"]
    expected = np.where(expected >= EXPERTS // 2, -1, expected)
    assert (expected == -1).any() and (expected != -1).any()
    mine, theirs = (recording({BY_INDEX[1]: values}, "port") for values in (expected[..., ::-1], expected))
    assert (in_golden_order(by_mark, theirs, mine)[BY_INDEX[1], 0].values() == expected).all()
    assert follows_a_choice(by_mark, last + 2) and not follows_a_choice(by_mark, by_mark.taps["logits", 0])


def test_weights_that_were_normed_with_shared_experts_behind_them_are_in_any_order() -> None:
    """Inkling's router puts its shared experts behind those it chose, and takes the first of them again."""
    here = graph()
    last = len(here.leaves) + len(here.nodes)
    wide = (None, None, CHOSEN + 1)
    both = Node("cat.default", ((Ref(10), Ref(9)), -1), {}, "float32", wide, "gate", ())
    normed = Node("softmax.int", (Ref(last), -1), {}, "float32", wide, "gate", ())
    part = Node("slice.Tensor", (Ref(last + 1), 2, 0, CHOSEN), {}, "float32", (None, None, CHOSEN), "gate", ())
    taps = {**here.taps, ("layers.0.gate", 0): last + 1, ("layers.0.gate[1]", 0): last + 2}
    shared = Graph(here.inputs, here.parameters, here.constants, (*here.nodes, both, normed, part), taps)
    values, order = run({}), np.argsort(run({})["layers.0.gate[2]"], -1)
    behind = values["layers.0.gate[1]"][..., :1]
    mine, theirs = (
        recording(turned | {"layers.0.gate": np.concatenate([turned["layers.0.gate[1]"], behind], -1)}, "port")
        for turned in (values | {name: np.take_along_axis(values[name], order, -1) for name in BY_INDEX}, values)
    )
    back = in_golden_order(shared, theirs, mine)
    for name in (*BY_INDEX, "layers.0.gate"):
        np.testing.assert_array_equal(back[name, 0].values(), theirs[name, 0].values())
