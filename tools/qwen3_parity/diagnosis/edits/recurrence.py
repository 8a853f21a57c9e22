"""A recurrence where a longer input is computed in chunks: the ops of a step of a token, run for each token in turn.

A delta rule's prefill is a thousand ops that no port writes alike; its step is the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.beside import changes_of
from qwen3_parity.diagnosis.edits.edit import Around, Edit, numbers_of, opened
from qwen3_parity.diagnosis.edits.region import Region, wide
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.scope import counted
from qwen3_spec.aten import TRUTH, Numbers

_CACHE = "cache."
_SAME = 1e-6
"""What a recurrence may leave of the chunks' numbers, of the largest: both are float64's."""

Values = dict[int, Any]
"""What a token's ops read and make, by value of the step that they are."""


@dataclass(frozen=True)
class Between(Edit):
    """What becomes of states between chunks of `size` tokens of a longer input, by their names with numbers open.

    Tokens are counted in each row behind its padding, or with it. `stored`: behind the last of a step, too.
    """

    size: int = 1
    states: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict)
    with_padding: bool = False
    stored: bool = False


@dataclass
class Recurrence:
    """The ops of a step of a token that read a layer's `states` and give them again, with the taps that read them.

    `inputs`, `states` and `results` are names of taps, the results without the states. `body` computes results and
    states of step `step` from the inputs of that step and the states of the one before.
    """

    body: Region
    step: int
    inputs: tuple[str, ...]
    states: tuple[str, ...]
    results: tuple[str, ...]
    _held: tuple[Sequence[Array], Sequence[Values]] | None = field(default=None, repr=False)

    @property
    def network(self) -> Network:
        """The graph, on what was recorded and what a token begins with."""
        return self.body.network

    @cached_property
    def steps(self) -> Mapping[int, int]:
        """The steps by the values that they give: results and states."""
        names = {*self.results, *self.states}
        return {value: step for (name, step), value in self.network.graph.taps.items() if name in names}

    def run(self, env: Mapping[int, Any], step: int, edit: Edit | None, numbers: Numbers = TRUTH) -> dict[int, Array]:
        """Results and states of a step of any length by value, with an edit in each of its tokens.

        `env` has the step's inputs and the states of the one before; what it lacks was recorded. Padding leaves states
        as they are. Raises what NumPy raises for operands that do not fit.
        """
        every = list(self.walk(env, step, edit, numbers))
        tokens = [[values[value] for values, _ in every] for value in self._at(self.results, self.step)]
        results = [self.joined(parts, name, step) for name, parts in zip(self.results, tokens, strict=True)]
        return dict(zip(self._at((*self.results, *self.states), step), (*results, *every[-1][1]), strict=True))

    def walk(
        self, env: Mapping[int, Any], step: int, edit: Edit | None, numbers: Numbers = TRUTH
    ) -> Iterator[tuple[Values, Sequence[Array]]]:
        """Each token's values, and the states behind it; see `run`."""
        changes = {} if edit is None else changes_of(self.body, edit)
        inputs = [self._read(env, value) for value in self._at(self.inputs, step)]
        here, before = self._at(self.inputs, self.step), self._at(self.states, self.step - 1)
        states: Sequence[Array] = self._zeros
        if step:
            states = [wide(self._read(env, value)) for value in self._at(self.states, step - 1)]
        between = edit if isinstance(edit, Between) else None
        plain = self._plain(inputs) if (changes or between) and not step and numbers is TRUTH else None
        begun = between is None
        tokens = [self.split(wide(x), name, step) for x, name in zip(inputs, self.inputs, strict=True)]
        for number, token in enumerate(zip(*tokens, strict=True)):
            values = {**self._start, **dict(zip((*here, *before), (*token, *states), strict=True))}
            order = self.body.order
            if plain is not None:  # what does not follow from the edit is as it was
                values = {**plain[number], **values}
                order = self.body.downstream([*changes, *(before if number and begun else ())])
            self.body.compute(order, values, changes, numbers)
            after = [values[value] for value in self._at(self.states, self.step)]
            states = after if step else self._without_padding(number, states, after)
            if between is not None:
                states, changed = self._behind(between, number, step, states)
                begun = begun or changed
            yield values, states

    def split(self, x: Array, name: str, step: int) -> list[Array]:
        """The tokens of a tap, each of the shape that it has in a step of a token."""
        shape, count, flat = self._shapes(name, step)
        if flat:
            tokens = x.reshape(self._batch, count, -1, *shape[1:])
            return [tokens[:, number].reshape(shape) for number in range(count)]
        axis = _axis(shape, x.shape)
        return [x.take([number], axis) for number in range(count)]

    def count_for(self, region: Around) -> None:
        """Work that was done for a region is the region's."""
        region.work += self.body.work
        self.body.work = 0

    def gives(self, env: Mapping[int, Any], step: int) -> bool:
        """Whether it gives what the graph does in a step, as far as `env` has that, padding left out."""
        try:
            with np.errstate(all="ignore"):
                results = self.run(env, step, None)
        except (IndexError, KeyError, ValueError):  # another network's steps are no part of its longer inputs
            return False
        for name in (*self.results, *self.states):
            value = self.network.graph.taps[name, step]
            if value in env:
                expected, counts = np.asarray(env[value]), counted(self.network.golden[name, step], self.network.golden)
                if not np.all(np.abs(results[value] - expected)[counts] <= _SAME * np.abs(expected).max()):
                    return False
        return True

    def _at(self, names: Sequence[str], step: int) -> list[int]:
        return [self.network.graph.taps[name, step] for name in names]

    def _read(self, env: Mapping[int, Any], value: int) -> Array:
        return np.asarray(env[value] if value in env else self.network.slices.recorded[value])

    @cached_property
    def _start(self) -> Mapping[int, Any]:
        """What the ops of a token read and do not make: parameters, and what is alike in every token."""
        return {value: wide(x) for value, x in self.network.slices.start(self.body.leaves).items()}

    @property
    def _zeros(self) -> list[Array]:
        """The states before the first token."""
        return [np.zeros_like(self._start[value]) for value in self._at(self.states, self.step - 1)]

    def _plain(self, inputs: Sequence[Array]) -> Sequence[Values]:
        """Every token's values without an edit, in float64, from the first step's inputs."""
        if self._held is None or any(x is not y for x, y in zip(self._held[0], inputs, strict=True)):
            env = dict(zip(self._at(self.inputs, 0), inputs, strict=True))
            self._held = inputs, [values for values, _ in self.walk(env, 0, None)]
        return self._held[1]

    @cached_property
    def padding(self) -> Array | None:
        """Bool `[batch, key]`, the tokens that are padding; None where there is none."""
        mask = self.network.golden.get("input.attention_mask", 0)
        return None if mask is None or mask.array.ndim != 2 or mask.array.all() else mask.array == 0

    def _without_padding(self, number: int, before: Sequence[Array], after: Sequence[Array]) -> Sequence[Array]:
        """The states behind a token: as before it in rows where it is padding.

        Chunks mask what comes out of a convolution; a step knows no padding, and a bias would go into its state.
        """
        if self.padding is None:
            return after
        padding = self.padding[:, number]
        rows = [padding.reshape(-1, *[1] * (x.ndim - 1)) for x in after]
        return [np.where(row, x, y) for row, x, y in zip(rows, before, after, strict=True)]

    def _behind(
        self, between: Between, number: int, step: int, states: Sequence[Array]
    ) -> tuple[Sequence[Array], bool]:
        """The states that are handed on behind a token, and whether a chunk ends there in some row."""
        rows = self._ends(between, number, step)
        return (states, False) if rows is None else (self._with(between, rows, states), True)

    def _ends(self, between: Between, number: int, step: int) -> Array | None:
        """Bool by row, behind which token of a step a chunk ends; None where none does."""
        batch = self._batch
        is_last = number + 1 == self.network.golden.case.steps[step]
        if is_last:
            return np.full(batch, True) if between.stored else None
        counted_to, is_real = np.full(batch, number + 1), np.full(batch, True)
        if self.padding is not None and not step and not between.with_padding:
            counted_to, is_real = (~self.padding[:, : number + 1]).sum(1), ~self.padding[:, number]
        rows = is_real & (counted_to % between.size == 0)
        return rows if rows.any() else None

    def _with(self, between: Between, rows: Array, states: Sequence[Array]) -> list[Array]:
        """States with what becomes of them in some rows."""
        every = list[Array]()
        for name, x in zip(self.states, states, strict=True):
            change = between.states.get(opened(name))
            here = rows.reshape(-1, *[1] * (x.ndim - 1))
            every.append(x if change is None else np.where(here, change(x), x))
        return every

    @property
    def _batch(self) -> int:
        return int(self.network.golden[self.states[0], self.step].array.shape[0])

    def _shapes(self, name: str, step: int) -> tuple[tuple[int, ...], int, bool]:
        """A tap's shape in a step of a token, how many tokens another step has, whether they are flattened rows."""
        golden = self.network.golden
        shape, count = golden[name, self.step].array.shape, golden.case.steps[step]
        return shape, count, golden[name, step].array.shape == (shape[0] * count, *shape[1:])

    def joined(self, tokens: Sequence[Array], name: str, step: int) -> Array:
        """Tokens as one tap."""
        shape, _, flat = self._shapes(name, step)
        if flat:
            return np.stack([x.reshape(self._batch, -1, *shape[1:]) for x in tokens], 1).reshape(-1, *shape[1:])
        return np.concatenate(tokens, _axis(shape, self.network.golden[name, step].array.shape))


def _axis(shape: tuple[int, ...], of_many: tuple[int, ...]) -> int:
    """The axis of tokens: on which many are more than one is. Raises `ValueError` where there is none."""
    (axis,) = (axis for axis, sizes in enumerate(zip(shape, of_many, strict=True)) if sizes[0] == 1 != sizes[1])
    return axis


def recurrences(region: Region) -> Iterator[Recurrence]:
    """Those of the layers that a region computes several tokens of at once."""
    network, lengths = region.network, region.network.golden.case.steps
    graph = network.graph
    step = next((number for number, count in enumerate(lengths) if number and count == 1), None)
    if step is None or lengths[0] == 1:
        return
    taps = {name: value for (name, number), value in graph.taps.items() if number == step and graph.node(value)}
    states = [name for name in taps if name.startswith(_CACHE) and _stays(network, name, step)]
    inside = {name for (name, number), value in graph.taps.items() if not number and region.node(value) is not None}
    for layer in dict.fromkeys(map(numbers_of, states)):
        of_layer = tuple(name for name in states if numbers_of(name) == layer)
        recurrence = _of_layer(network, step, of_layer, taps, inside)
        if recurrence is not None and recurrence.gives(_computed(region), 0):
            yield recurrence


def _computed(region: Region) -> dict[int, Any]:
    """What a region makes of recorded values, which may be wrong themselves."""
    return {value: region.base[value] for value in region.order}


def of_step(network: Network, key: tuple[str, int]) -> Recurrence | None:
    """That of a tap's layer in a step of one token, whatever was recorded; None where the layer has none."""
    graph, (name, step) = network.graph, key
    if not step or network.golden.case.steps[step] != 1 or network.golden.case.steps[0] == 1:
        return None
    taps = {tap: value for (tap, number), value in graph.taps.items() if number == step and graph.node(value)}
    states = (tap for tap in taps if tap.startswith(_CACHE) and _stays(network, tap, step))
    of_layer = tuple(tap for tap in states if numbers_of(tap) == numbers_of(name))
    return _of_layer(network, step, of_layer, taps, taps) if of_layer else None


def _of_layer(
    network: Network, step: int, states: tuple[str, ...], taps: Mapping[str, int], inside: Collection[str]
) -> Recurrence | None:
    """The ops of a step of a token that read a layer's states; None where none of what they give is `inside`."""
    before = {network.graph.taps[name, step - 1] for name in states}
    reads = {name: _reads(network, value, {*taps.values(), *before}) for name, value in taps.items()}
    reading = {name: values for name, values in reads.items() if not values.isdisjoint(before)}
    results = tuple(name for name in reading if name not in states)
    if not results or not any(name in inside for name in (*results, *states)):
        return None
    begin = set[int]().union(*reading.values())
    inputs = tuple(name for name, value in taps.items() if value in begin)
    return Recurrence(_body(network, step, (*results, *states), begin), step, inputs, states, results)


def _stays(network: Network, name: str, step: int) -> bool:
    """Whether a cache has one shape after every step: it is a state."""
    shapes = {item.array.shape for number in range(step + 1) if (item := network.golden.get(name, number)) is not None}
    return len(shapes) == 1 and (name, step - 1) in network.graph.taps


def _reads(network: Network, value: int, known: set[int]) -> set[int]:
    """The known values that a value is computed from."""
    order = network.graph.slice([value], known - {value})
    nodes = (network.graph.node(each) for each in order)
    return {read for node in nodes if node is not None for read in node.reads} & known - {value}


def _body(network: Network, step: int, names: Sequence[str], begin: set[int]) -> Region:
    """The ops of a token alone, as if all that it begins with had been recorded."""
    value, *beside = (network.graph.taps[name, step] for name in names)
    recorded = dict(network.slices.recorded)
    recorded |= {each: network.slices.value(each) for each in sorted(begin - recorded.keys())}
    begun = replace(network, slices=replace(network.slices, recorded=recorded))
    return Region(begun, value, (names[0], step), beside=tuple(beside))
