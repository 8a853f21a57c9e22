"""Another row's state, or an earlier one, in the place of the state that a row of a step begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.recurrence import Recurrence, of_step
from qwen3_parity.diagnosis.edits.sites import TAP
from qwen3_parity.diagnosis.edits.target import Target, target
from qwen3_parity.diagnosis.edits.words import line_of
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN
from qwen3_spec.aten import TRUTH, Numbers

_MOST = 256
"""States that are tried in a row's place."""
_NEAR = 1e-3
"""The part of a row's error that its state may leave: it was made of other numbers than the candidate's own."""


class _State(NamedTuple):
    """A row's state at some time, and when and whose in words."""

    says: str
    values: Array


_Key = tuple[str, int]


def states_read(at: Target) -> Iterator[Edit]:
    """Each state of a tap's layer as each row has it which gives the numbers of that row, at every tap anew."""
    network, key = at.region.network, at.region.key
    recurrence = of_step(network, key)
    for name in recurrence.states if recurrence is not None else ():
        read = _read(at, recurrence, (name, key[1] - 1))
        if recurrence is not None and read:
            rows = "; ".join(f"row {row} with {state.says}" for row, (_, state) in sorted(read.items()))
            says = f"begins with another {opened(name)}, in step {key[1]} {rows}"
            line = line_of(at.region, network.graph.taps[name, key[1] - 1])
            sites = (Site("", 0, opened(name)), Site(TAP, 0, opened(name)))
            yield Edit("edit.state", says, COMBINED, dict.fromkeys(sites, _begun_with(opened(name))), line)


def without_oldest(fewer: int) -> Change:
    """A convolution's state, whose first input no later token reads, without the oldest behind that."""

    def change(call: Call) -> Any:
        state, *more = call.operands[0]
        shorter = np.concatenate([np.zeros_like(state[..., : fewer + 1]), state[..., fewer + 1 :]], -1)
        return call.plain([shorter, *more], *call.operands[1:])

    return change


def _begun_with(kind: str) -> Change:
    """The state that each row of a tap's step begins with, as the tap's numbers tell."""
    read = dict[_Key, Mapping[int, tuple[int, _State]]]()
    recurrences = dict[_Key, Recurrence | None]()

    def change(call: Call) -> Array:
        plain, network, key = np.asarray(call.plain()), call.region.network, call.region.key
        if key not in recurrences:
            recurrences[key] = of_step(network, key)
        recurrence = recurrences[key]
        names = [name for name in recurrence.states if opened(name) == kind] if recurrence is not None else []
        if recurrence is None or not names or network.graph.taps[names[0], key[1] - 1] != call.value:
            return plain
        if key not in read:
            here = target(network, *key)
            read[key] = {} if here is None else _read(here, recurrence, (names[0], key[1] - 1))
        values = np.array(plain)
        again = () if call.numbers is TRUTH or not read[key] else _states(recurrence, names[0], call.numbers)
        recurrence.count_for(call.region)
        for row, (place, state) in read[key].items():
            values[row] = again[place].values if again else state.values
        return values

    return change


def _read(at: Target, recurrence: Recurrence | None, state: _Key) -> Mapping[int, tuple[int, _State]]:
    """By wrong row the first state that gives its numbers, with its place; none where a row has none."""
    region, value = at.region, at.region.network.graph.taps[state]
    whole = np.asarray(region.base.get(value))
    if recurrence is None or whole.ndim < 2 or len(at.actual) % len(whole) or at.actual.dtype.kind != "f":
        return {}
    wrong = set(np.flatnonzero(_by_row(at.cells, whole).any(1)).tolist())
    if not wrong:
        return {}
    try:
        states = _states(recurrence, state[0])
    except (IndexError, KeyError, ValueError):  # the first step's inputs were not recorded
        return {}
    recurrence.count_for(region)
    read, error = dict[int, tuple[int, _State]](), _by_row(np.where(at.counts, at.truth - at.actual, 0), whole).max(1)
    for place, each in enumerate(states if len(states) <= _MOST else ()):
        predicted = _predicted(at, value, np.broadcast_to(each.values, whole.shape))
        if predicted is not None:
            left = _by_row(np.where(at.counts, predicted - at.actual, 0), whole).max(1)
            for row in wrong - read.keys():
                if left[row] < _NEAR * error[row]:
                    read[row] = place, each
        if read.keys() == wrong:
            return read
    return {}


def _by_row(x: Array, whole: Array) -> Array:
    """A tap's numbers, their signs left out, `[batch, number]`; batch and position may be one axis of it."""
    return np.abs(x).reshape(len(whole), -1)


def _predicted(at: Target, value: int, values: Array) -> Array | None:
    """The tap with a state in the place of the one that its step begins with."""
    name, is_read = opened(at.region.tap_names[value]), at.region.node(value) is None
    site = Site("" if is_read else TAP, 0, name)
    return at.predicted(Edit("", "", PLAIN, {site: lambda call: values if call.value == value else call.plain()}))


def _states(recurrence: Recurrence, name: str, numbers: Numbers = TRUTH) -> list[_State]:
    """A state behind each token of the first step, and behind each later step, by row; the latest first."""
    network, place = recurrence.network, recurrence.states.index(name)
    padding, every = recurrence.padding, list[_State]()
    for number, (_, states) in enumerate(recurrence.walk({}, 0, None, numbers)):
        for row, values in enumerate(states[place]):
            before = 0 if padding is None else int(padding[row, : number + 1].sum())
            if padding is None or not padding[row, number]:
                every.append(_State(f"that of row {row} behind its token {number + 1 - before}", values))
    for step in range(1, len(network.golden.case.steps)):
        value = network.graph.taps[name, step]
        after = np.asarray(network.slices.recorded.get(value, network.slices.value(value)))
        every += [_State(f"that of row {row} behind step {step}", values) for row, values in enumerate(after)]
    return every[::-1]
