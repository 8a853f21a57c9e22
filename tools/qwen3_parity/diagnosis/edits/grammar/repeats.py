"""Copies of one index, and copies in another order: heads that are tiled where each is repeated, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.graph import Ref

_TILES = "tiles the copies, where each is repeated"
_EACH = "repeats each in its place, where the copies are tiled"


def repeats(region: Region) -> Iterator[Edit]:
    """Every op that copies what stands on an axis; those that repeat together, such as of Q and K."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        if node is not None:
            op = short(node.op)
            rank = PLAIN if op == "repeat" else RARE  # one change of few ops
            for says, change in _of(region, op, places[0]):
                yield Edit("edit.repeated", says, rank, {site: change}, line_of(region, places[0]))
    sites = [site for site in region.sites if site.op.startswith("repeat_interleave.")]
    if len(sites) > 1:
        says = f"{_TILES}, in all {len(sites)} lines that repeat"
        line = line_of(region, region.sites[sites[0]][0])
        yield Edit("edit.repeated", says, RARE, dict.fromkeys(sites, _in_turns), line)


def _of(region: Region, op: str, value: int) -> Iterator[tuple[str, Change]]:
    if op == "expand":
        for axis, size in enumerate(np.shape(region.base[value])):
            if axis and size > 1:
                yield f"repeats index 0 of axis {axis} alone", _first_alone(axis)
    if op in ("view", "unsafe_view", "clone", "reshape"):
        spread = _spread_axis(region, value)
        if spread is not None:
            yield _TILES, _tiled(spread)
            yield _EACH, _tiled(spread + 1)
            yield "reads index i // KV heads for head i, where each is repeated", _by_count(spread)
    if op == "repeat_interleave":
        yield _TILES, _in_turns
    if op == "repeat":
        yield _EACH, _each


def _first_alone(axis: int) -> Change:
    return lambda call: np.broadcast_to(np.take(call.plain(), [0], axis), np.shape(call.plain()))


def _spread_axis(region: Region, value: int) -> int | None:
    """The axis that an expand filled with copies before its neighbours were merged; None without."""
    node = region.node(value)
    while node is not None and short(node.op) in ("view", "unsafe_view", "clone", "reshape"):
        source = node.operands[0]
        node = region.node(source.value) if isinstance(source, Ref) else None
    if node is None or short(node.op) != "expand" or not isinstance(node.operands[0], Ref):
        return None
    before, after = np.shape(region.base[node.operands[0].value]), node.shape
    grown = [axis for axis, (a, b) in enumerate(zip(before, after, strict=False)) if a == 1 and b != 1]
    return grown[0] if len(before) == len(after) and len(grown) == 1 and grown[0] > 0 else None


def _by_count(axis: int) -> Change:
    """What is repeated along an axis before its copies were, by another rule than of which each copy is."""

    def change(call: Call) -> Array:
        x = np.asarray(call.operands[0])
        count, copies = x.shape[axis - 1 : axis + 1]
        heads = np.arange(count * copies) // count % count
        return np.asarray(np.take(np.take(x, 0, axis), heads, axis - 1).reshape(np.shape(call.plain())))

    return change


def _in_turns(call: Call) -> Array:
    """All numbers in turn, as often as each is repeated."""
    x, count, axis = np.asarray(call.operands[0]), int(call.operands[1]), int(call.operands[2])
    return np.concatenate([x] * count, axis)


def _each(call: Call) -> Array:
    """Every number as often as the whole is repeated along its axis, one copy behind the other."""
    x, counts = np.asarray(call.operands[0]), tuple(call.operands[1])
    x = x.reshape((1,) * (len(counts) - x.ndim) + x.shape)
    for axis, count in enumerate(counts):
        x = np.repeat(x, count, axis)
    return x


def _tiled(axis: int) -> Change:
    """An axis in the place of the one before it, where a view joins the two."""

    def change(call: Call) -> Array:
        x = np.asarray(call.operands[0])
        return np.ascontiguousarray(np.swapaxes(x, axis - 1, axis)).reshape(np.shape(call.plain()))

    return change
