"""Positions and ids as a wrong tap tells them: the whole number that gives the numbers of each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import later
from qwen3_parity.diagnosis.edits.sources import variable
from qwen3_parity.diagnosis.edits.target import Target
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.ranks import PLAIN

_BEHIND, _MOST = 8, 96
"""How far beyond the largest right number others are tried, and how many are tried at every place."""
_OPS = 80
"""Ops between a number and a tap: more of them mix places with each other, or cost too much."""
_FEWEST = 2
"""Numbers of a place that tell which whole number made it."""


class _Whole(NamedTuple):
    """Whole numbers `[batch or 1, position]` of a region, and what they are called."""

    site: Site
    base: Array
    name: str


def solved(target: Target, step: int) -> Iterator[Edit]:
    """Edits of positions and ids that give every wrong place of a tap, in all steps, and from a `step` on if not 0."""
    for whole in _wholes(target):
        numbers = _numbers(target, whole)
        if numbers is None:
            continue
        line = line_of(target.region, target.region.at(whole.site)[0])
        says, change = _said(whole, numbers, numbers >= 0)
        yield Edit("edit.input", says, PLAIN + 2, {whole.site: change}, line)
        if step:
            says += ", in every step but the first" if step == 1 else f", from step {step} on"
            yield Edit("edit.input", says, PLAIN + 2, {later(whole.site, step): change}, line)


def _said(whole: _Whole, numbers: Array, judged: Array) -> tuple[str, Change]:
    """What is done to whole numbers, for other steps as well where that is plain: a summand, or one for another."""
    difference = np.unique((numbers - whole.base)[judged]).tolist()
    if len(difference) == 1:
        return f"has {whole.name} {difference[0]:+d}", _moved(difference[0])
    pairs = set(zip(whole.base[judged].tolist(), numbers[judged].tolist(), strict=True))
    by_value = dict(sorted(pairs))
    if len(by_value) == len(pairs):
        moved = {base: number for base, number in by_value.items() if base != number}
        return f"has {ranges(moved.values())} for {whole.name} {ranges(moved)}", _mapped(by_value)
    rows = zip(numbers, whole.base, judged, strict=True)
    texts = [f"{ranges(row[counts])} for {ranges(base[counts])}" for row, base, counts in rows]
    return f"has {whole.name} {'; '.join(dict.fromkeys(texts))}", _in_place(np.where(judged, numbers, whole.base))


def _wholes(target: Target) -> Iterator[_Whole]:
    """The first values of a region that have a whole number for each position of the tap."""
    region, before = target.region, set[bytes]()
    if target.actual.ndim < 2 or not ("batch" in target.axes[:1] or target.actual.shape[0] == 1):
        return
    lengths = {size for name, size in zip(target.axes, target.actual.shape, strict=True) if name in ("query", "key")}
    for site, values in region.sites.items():
        base = region.base[values[0]]
        if not isinstance(base, np.ndarray) or base.dtype.kind != "i" or base.ndim != 2:
            continue
        fits = len(values) == 1 and base.shape[0] in (1, target.actual.shape[0]) and base.shape[1] in lengths
        if fits and base.tobytes() not in before and len(region.downstream(values)) <= _OPS:
            before.add(base.tobytes())
            yield _Whole(site, base, _name(region, values[0]))


def _name(region: Region, value: int) -> str:
    """The input that whole numbers are cut from, or the source's variable."""
    while value not in region.names:
        node = region.network.graph.node(value)
        if node is None or short(node.op) not in ("slice", "view", "unsqueeze", "expand", "clone", "to_copy"):
            return variable(region.network, value) or "positions"
        value = node.reads[0]
    return region.names[value].removeprefix("model.")


def _numbers(target: Target, whole: _Whole) -> Array | None:
    """The whole number of each place that gives its numbers, the nearest to the right one, -1 where nothing is judged.

    None where a place has none, and where all are right.
    """
    base, shape = whole.base, target.actual.shape
    axis = next(
        place for place, name in enumerate(target.axes) if name in ("query", "key") and shape[place] == base.shape[1]
    )
    across = tuple(place for place in range(len(shape)) if place not in (0, axis))
    if (target.counts.sum(across)[target.cells.any(across)] < _FEWEST).any():
        return None
    best, left = np.full(base.shape, -1), np.full(base.shape, np.inf)
    for numbers, change in _tried(base):
        predicted = target.predicted(Edit("", "", PLAIN, {whole.site: change}))
        if predicted is None:  # the edit changes nothing
            predicted = target.truth
        fits = np.asarray(~target.off(predicted).any(across))
        fits = _of_all_rows(fits, len(base))
        closer = fits & (numbers >= 0) & (np.abs(base - numbers) < left)
        best, left = np.where(closer, numbers, best), np.where(closer, np.abs(base - numbers), left)
    hidden = ~np.asarray(target.counts.any(across))
    hidden = _of_all_rows(hidden, len(base))
    return None if ((best < 0) & ~hidden).any() or (best == base)[~hidden].all() else np.where(hidden, -1, best)


def _tried(base: Array) -> Iterator[tuple[Array, Change]]:
    """Whole numbers to try at every place: one for all, of few; those near the right ones where there are many."""
    largest = int(base.max()) + 1 + _BEHIND
    if largest <= _MOST:
        yield from ((np.full_like(base, number), _constant(number)) for number in range(largest))
    else:
        yield from ((base + by, _moved(by)) for by in range(-_BEHIND, _BEHIND + 1))


def _of_all_rows(cells: Array, rows: int) -> Array:
    """Bool `[batch, position]`, of all batch rows together where whole numbers have one row for them."""
    return np.asarray(cells.all(0, keepdims=True)) if rows < len(cells) else cells


def _constant(number: int) -> Change:
    return lambda call: np.full(np.shape(_plain(call)), number)


def _moved(by: int) -> Change:
    return lambda call: _plain(call) + by


def _mapped(pairs: Mapping[int, int]) -> Change:
    def change(call: Call) -> Array:
        values = _plain(call)
        return np.array([pairs.get(number, number) for number in values.ravel().tolist()]).reshape(values.shape)

    return change


def _in_place(numbers: Array) -> Change:
    def change(call: Call) -> Array:
        if np.shape(_plain(call)) != numbers.shape:
            raise ValueError("another step has other places")
        return numbers

    return change


def _plain(call: Call) -> Array:
    return np.asarray(call.plain())
