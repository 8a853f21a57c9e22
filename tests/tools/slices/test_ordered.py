"""Which chosen expert stands first means nothing, with its index and without; whose number it is does."""

from __future__ import annotations

import numpy as np
import pytest
from small import CHOSEN, EXPERTS, Values, golden, graph, recording, run, weights

from qwen3_golden import Array
from qwen3_parity.check import check
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.slices.ordered import in_golden_order

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
