"""A row that begins a step with another row's state, as it stands somewhere in its prompt, is told by its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_recurrences import STATES, TAP, honest, recurrence, region

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits import states_read as module
from qwen3_parity.diagnosis.edits.recurrence import Recurrence, of_step
from qwen3_parity.diagnosis.edits.states_read import states_read
from qwen3_parity.diagnosis.edits.target import Target, target
from qwen3_spec.aten import TRUTH


def begun_with(state: Array) -> Target:
    """The first later step's result, all of whose states were recorded, from another recurrent state."""
    of = honest(".*")
    here, before = region(TAP, 1, of), of.graph.taps[STATES[1], 0]
    env = dict(here.base) | {before: state}
    changed = here.compute(here.order, env, {}, TRUTH)
    item = replace(of.candidate[TAP, 1], array=np.asarray(changed[here.value], np.float32))
    tensors = [item if each.key == (TAP, 1) else each for each in of.candidate]
    recorded = {**of.slices.recorded, here.value: item.array}
    wrong = target(
        replace(of, candidate=replace(of.candidate, tensors=tensors), slices=replace(of.slices, recorded=recorded)),
        TAP,
        1,
    )
    assert wrong is not None
    return wrong


def test_each_row_says_whose_state_it_has_and_behind_which_token() -> None:
    walk = [states[1] for _, states in recurrence().walk(region().base, 0, None)]
    state, length = np.array(walk[-1]), len(walk)
    state[0], padding = walk[-2][1], int(np.asarray(recurrence().padding)[1].sum())
    at = begun_with(state)
    (edit,) = states_read(at)
    says = f"in step 1 row 0 with that of row 1 behind its token {length - 1 - padding}"
    assert edit.says.endswith(says) and "cache.*.recurrent_states" in edit.says, edit.says
    assert at.of(edit).whole and at.of(edit).fits


def test_a_layers_recurrence_is_looked_up_once_and_its_work_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = [states[1] for _, states in recurrence().walk(region().base, 0, None)]
    at, looked_up = begun_with(walk[-2]), list[Recurrence | None]()
    monkeypatch.setattr(module, "of_step", lambda net, key: (looked_up.append(of_step(net, key)), looked_up[-1])[1])
    (edit,) = states_read(at)
    assert len(looked_up) == 1 and all(at.of(edit).fits for _ in range(3)) and len(looked_up) == 2
    assert not any(each is None or each.body.work for each in looked_up)  # it is the region's


def test_a_right_row_begins_with_its_own_state() -> None:
    assert not list(states_read(begun_with(np.array(honest(".*").golden[STATES[1], 0].values(), np.float64))))


def test_a_state_of_nowhere_is_not_named() -> None:
    state = np.array(honest(".*").golden[STATES[1], 0].values(), np.float64)
    assert not list(states_read(begun_with(state[..., ::-1])))


def test_the_first_step_begins_with_nothing() -> None:
    here = target(honest(), TAP, 0)
    assert here is not None and not list(states_read(here))
