"""Edits of a recurrence in every token of a longer input: where its step gives what the chunks give, a mistake in it
explains both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Call, Edit, Free, Site, opened
from qwen3_parity.diagnosis.edits.grammar import PLAIN
from qwen3_parity.diagnosis.edits.grammar.masks import CHUNKS
from qwen3_parity.diagnosis.edits.grammar.values import NARROW
from qwen3_parity.diagnosis.edits.recurrence import Between, Recurrence, recurrences
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.single import single
from qwen3_parity.diagnosis.edits.sites import TAP
from qwen3_parity.diagnosis.edits.words import line_of
from qwen3_parity.mistakes.ranks import RARE
from qwen3_reference.graph.scope import counted
from qwen3_spec.aten import TRUTH

_LEFT, _WRONG = 0.05, 0.1
"""The part of a token's error that an edit may leave which explains it; the part of the largest that is an error."""


def recurring(region: Region, step: int | None = None) -> tuple[Sequence[Edit | Free], Iterator[Edit]]:
    """The edits of the recurrences that a region computes, and those of lines at one place alone.

    They are made in every token from a `step` on, for the region of a later step in later steps alone where none is
    said. One that the first wrong token shows to be no part of the mistake changes nothing there.
    """
    layers = list(recurrences(region))
    if not layers:
        return [], iter(())
    places = _places(region, layers, min(region.key[1] if step is None else step, 1))
    every = [edit for table in PLAIN for edit in table(layers[0].body)]
    every += [] if places.begin else between_chunks(layers[0])
    fitted = places._replace(beginning=None)
    edits = [
        replace(edit, edit=partial(_fitted, edit, fitted)) if isinstance(edit, Free) else _recurring(edit, places)
        for edit in every
    ]
    return edits, (_recurring(edit, places) for edit in single(every, layers[0].body))


def in_tokens(edit: Edit, region: Region) -> Iterator[Edit]:
    """An edit of later steps made in every token of the first one, too, or a part of it; then each state that a chunk
    of the first one loses.
    """
    layers = list(recurrences(region))
    if layers:
        places = _places(region, layers, 0)
        yield _recurring(replace(edit, parts=()), places, edit)
        for part, which in zip(edit.parts, ("former", "latter"), strict=False):  # the second part is said first
            says = f"{edit.says}, the {which} in later steps alone"
            yield replace(_recurring(part, places, edit), name=edit.name, says=says, rank=edit.rank, line=edit.line)
        yield from (_recurring(each, places, each) for each in between_chunks(layers[0]))


def between_chunks(layer: Recurrence) -> Iterator[Between]:
    """Each state, and all of them, forgotten where a chunk of a prompt ends, or held there in fewer bits."""
    count, padding = layer.network.golden.case.steps[0], 0 if layer.padding is None else layer.padding.sum(1)
    states = {opened(name): layer.network.graph.taps[name, layer.step - 1] for name in layer.states}
    every = [*((name,) for name in states), *([(*states,)] if len(states) > 1 else [])]
    for size, whose in product((*(size for size in CHUNKS if size < count), count), every):
        named, line = " and ".join(whose), line_of(layer.body, states[whose[0]])
        for with_padding in (False, True) if size < count and np.any(padding % size) else (False,):
            when = f"behind every {size} tokens of a prompt{', padding counted' if with_padding else ''}"
            changes = {f"holds {named} in {narrow}": rounded for narrow, rounded in NARROW}
            if size < count:
                changes[f"has zeros for {named} again"] = _forgotten
            for says, change in changes.items():
                yield Between(
                    "edit.state",
                    f"{says} {when if size < count else 'between steps'}",
                    RARE,
                    {},
                    line,
                    size=size,
                    states=dict.fromkeys(whose, change),
                    with_padding=with_padding,
                    stored=change is not _forgotten,
                )


def _forgotten(state: Array) -> Array:
    return np.zeros_like(state)


class _Run(NamedTuple):
    """What a recurrence gave in a step of an edited region, whose values are `env`."""

    env: Mapping[int, Any]
    step: int
    layer: Recurrence
    results: Mapping[int, Array]


class _Places(NamedTuple):
    """Where edits of a `layer` are made: in the recurrences of all layers `of_value`, that are looked for where one is
    asked for, from step `begin` on; tried on a `beginning` first. `last` has what the latest run gave, of all edits.
    """

    layer: Recurrence
    of_value: dict[int, Recurrence | None]
    beginning: _Beginning | None
    begin: int
    last: list[_Run]

    def of(self, call: Call) -> Recurrence | None:
        """The recurrence that gives what a call does; None where none does, and in steps before `begin`."""
        if call.value not in self.of_value:
            self.of_value[call.value] = None
            for each in recurrences(Region(call.region.network, call.region.value, call.region.key)):
                self.of_value.update(dict.fromkeys(each.steps, each))
        layer = self.of_value[call.value]
        return layer if layer is not None and layer.steps[call.value] >= self.begin else None


def _places(region: Region, layers: Sequence[Recurrence], begin: int) -> _Places:
    of_value = {value: layer for layer in layers for value in layer.steps}
    beginning = None if begin < min(region.key[1], 1) else _beginning(region, layers)  # a state may be wrong before it
    return _Places(layers[0], dict(of_value), beginning, begin, [])


def _fitted(free: Free, places: _Places, number: float) -> Edit:
    return _recurring(free.edit(number), places)


def _recurring(edit: Edit, places: _Places, later: Edit | None = None) -> Edit:
    """An edit of a token in every one; with another of `later` steps in the first one alone."""
    last = places.last

    def change(call: Call) -> Any:
        layer, region, first = places.of(call), call.region, places.beginning
        step = 0 if layer is None else layer.steps[call.value]
        if layer is None or (step and later is not None):
            return call.plain() if later is None else _by_itself(later, call)
        if not last or last[0].env is not call.env or last[0].step != step or last[0].layer is not layer:
            if first is not None and call.numbers is TRUTH and region is first.region and first.excludes(edit, step):
                raise ValueError("no part of the mistake")
            env = call.env if later is None else {**call.env, **_as_read(later, region)}
            last[:] = [_Run(call.env, step, layer, layer.run(env, step, edit, call.numbers))]
            layer.count_for(region)
        return last[0].results[call.value]

    names = {opened(name) for name in (*places.layer.results, *places.layer.states)}
    changes = {Site(TAP, 0, name.removeprefix("model.")): change for name in sorted(names)}
    if later is not None:
        changes = {**later.changes, **changes}
    return replace(edit, says=f"{edit.says}, in later steps" if places.begin else edit.says, changes=changes)


def _by_itself(edit: Edit, call: Call) -> Any:
    """What an edit makes of a result in a step that no recurrence is run for."""
    for site, change in edit.changes.items():
        if call.value in call.region.at(site):
            return change(replace(call, site=site))
    result, name = call.plain(), call.site.op
    if isinstance(edit, Between) and edit.stored and call.value == call.region.value and name in edit.states:
        return edit.states[name](np.asarray(result))
    return result


def _as_read(edit: Edit, region: Around) -> dict[int, Any]:
    """What a region reads, where an edit changes it: the tokens' own edit does."""
    values = (value for site in edit.changes for value in region.at(site) if region.node(value) is None)
    return {value: region.base[value] for value in values}


class _Token(NamedTuple):
    """What was recorded of a token's result, and how much of it an edit may leave in the cells that count."""

    actual: Array
    cells: Array
    most: float


class _Beginning(NamedTuple):
    """The tokens of a region's value, up to the first that is wrong."""

    region: Region
    recurrence: Recurrence
    tokens: Sequence[_Token]

    def excludes(self, edit: Edit, of_step: int) -> bool:
        """Whether an edit leaves the wrong token's error, or spoils one before it; of other steps it says nothing.

        Raises what NumPy raises for operands that do not fit.
        """
        if self.region.key[1] != of_step:
            return False
        try:
            for token, values in zip(self.tokens, self._walk(edit), strict=False):
                if not np.abs((values - token.actual)[token.cells]).max(initial=0) <= token.most:
                    return True
        finally:
            self.recurrence.count_for(self.region)
        return False

    def _walk(self, edit: Edit) -> Iterator[Array]:
        """The value's tokens with an edit: those of a result as the walk has them, behind it all of them at once."""
        (name, step), layer = self.region.key, self.recurrence
        taps = layer.network.graph.taps
        walk = layer.walk(self.region.base, step, edit)
        if name in layer.results:
            yield from (values[taps[name, layer.step]] for values, _ in walk)
            return
        begun, env = list(islice(walk, len(self.tokens))), dict(self.region.base)
        for result in layer.results:
            tokens = layer.split(env[taps[result, step]], result, step)
            tokens[: len(begun)] = [values[taps[result, layer.step]] for values, _ in begun]
            env[taps[result, step]] = layer.joined(tokens, result, step)
        results = [taps[result, step] for result in layer.results]
        self.region.compute(
            [value for value in self.region.downstream(results) if value not in results], env, {}, TRUTH
        )
        yield from layer.split(np.asarray(env[self.region.value]), name, step)


def _beginning(region: Region, every: Sequence[Recurrence]) -> _Beginning | None:
    """None where the region has several recurrences or not all that one gives, or its value was not recorded."""
    (name, step), network, value = region.key, region.network, region.value
    actual, taps = network.slices.recorded.get(value), network.graph.taps
    if actual is None or actual.dtype.kind != "f" or len(every) > 1:
        return None
    (recurrence,) = every
    if not all(taps[result, step] in region.base for result in recurrence.results):
        return None
    counts = counted(network.golden[name, step], network.golden) & np.isfinite(actual)
    error = np.where(counts, np.abs(actual - region.base[value]), 0)
    tokens = list[_Token]()
    parts = (recurrence.split(part, name, step) for part in (error, actual, counts))
    for errors, values, cells in zip(*parts, strict=True):
        wrong = errors > _WRONG * error.max()
        if wrong.any():
            return _Beginning(region, recurrence, [*tokens, _Token(values, wrong, _LEFT * errors.max())])
        tokens.append(_Token(values, cells, _WRONG * error.max()))
    return None
