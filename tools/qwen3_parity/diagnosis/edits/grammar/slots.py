"""Keys and values of other slots, rows or layers than the reference reads of its cache in steps with a past."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.diagnosis.explanation import LAYER
from qwen3_parity.mistakes.ranks import COMBINED, RARE, Rank
from qwen3_parity.slices.network import Network
from qwen3_spec.graph import Ref

_KINDS = ("key", "value")
_BLOCKS = (2, 4, 8, 16)
"""Slots of a page."""
_Moved = Callable[[Call, Array, "_Held"], Array]
"""What is read for `[batch, heads, slot, channel]`."""


class _Held(NamedTuple):
    """What attention reads of a cache: "key" or "value", how many of its slots are its step's own, and its tap."""

    kind: str
    newest: int
    tap: tuple[str, int]


def slots(region: Region) -> Iterator[Edit]:
    """Every way to read other slots or rows: of keys and values together, then of each alone."""
    held = _held(region.network)
    if region.value in held:
        node, kind = region.network.graph.node(region.value), held[region.value].kind
        assert node is not None
        sites = {site_of(node, region.network.graph)}
        yield from _edits({(kind,): sites}, held, region, region.value)
        return
    sites = {site for value in held for site in _readers(region.network, value) if region.at(site)}
    here = [value for value in held if value in region.order or value in region.leaves]
    if sites and here:
        yield from _edits(dict.fromkeys((_KINDS, *((kind,) for kind in _KINDS)), sites), held, region, here[-1])


def _edits(
    kinds: Mapping[tuple[str, ...], set[Site]], held: Mapping[int, _Held], region: Region, value: int
) -> Iterator[Edit]:
    line = line_of(region, value)
    for of, sites in kinds.items():
        names = " and ".join(f"{kind}s" for kind in of)
        for says, moved, rank in _ways(past=region.key[1] > 0):
            changes = dict.fromkeys(sorted(sites), _read(held, of, moved))
            yield Edit("edit.slots", f"reads {says.format(names)}", rank, changes, line)


def _held(network: Network) -> Mapping[int, _Held]:
    """By value what attention reads."""
    graph, held = network.graph, dict[int, _Held]()
    for (name, step), value in graph.taps.items():
        path, _, kind = name.rpartition(".")
        query = graph.node(graph.taps.get((f"{path}.query", step), -1))
        node = graph.node(value)
        if kind in _KINDS and query is not None and node is not None and len(node.shape) == len(query.shape):
            held[value] = _Held(kind, query.shape[-2] or 0, (name, step))
    return held


def _readers(network: Network, value: int) -> set[Site]:
    """The ops that read a value, but for those that keep it for a later step."""
    users = network.users.get(value, {}).values()
    return {site_of(node, network.graph) for node in users if short(node.op) != "cat"}


def _read(held: Mapping[int, _Held], kinds: tuple[str, ...], moved: _Moved) -> Change:
    def change(call: Call) -> Any:
        assert call.node is not None
        if call.value in held and call.value == call.region.value:
            return moved(call, np.asarray(call.plain()), held[call.value])
        operands = list(call.operands)
        for slot, operand in enumerate(call.node.operands):
            read = held.get(operand.value) if isinstance(operand, Ref) else None
            if read is not None and read.kind in kinds:
                operands[slot] = moved(call, np.asarray(operands[slot]), read)
        return call.plain(*operands)

    return change


def _of_layer(by: int) -> _Moved:
    """What another layer holds, without an edit; its own where there is no such layer."""

    def moved(call: Call, x: Array, held: _Held) -> Array:
        name, step = held.tap
        beside = LAYER.sub(lambda number: str(int(number[0]) + by), name, count=1)
        value = call.region.network.graph.taps.get((beside, step))
        return x if value is None else call.region.alone(value, call.numbers)

    return moved


def _ways(*, past: bool) -> Iterator[tuple[str, _Moved, Rank]]:
    """What is read in words, and how; of slots and rows where there is a past."""
    yield "{} of the layer before", _of_layer(-1), RARE
    yield "{} of the layer behind", _of_layer(1), RARE
    if not past:
        return
    for says, moved in _WAYS.items():
        yield says, _of_slots(moved), RARE
    for size in _BLOCKS:
        for says, by in (("the block of {} slots before", 1), ("the block of {} slots behind", -1)):
            yield f"{{}} of {says.format(size)}", _of_block(size, by), COMBINED
        yield f"{{}} of the first block of {size} slots in every block", _of_block(size, 0), COMBINED


def _of_slots(moved: Callable[[Array, int], Array]) -> _Moved:
    return lambda _, x, held: moved(x, held.newest) if held.tap[1] else x


def _of_block(size: int, by: int) -> _Moved:
    """Each whole block as the one `by` blocks before it stands, in a ring; the first of all where that is 0."""

    def moved(call: Call, x: Array, held: _Held) -> Array:
        whole = x.shape[-2] // size
        if whole <= 1 or not held.tap[1]:
            return x
        blocks = x[..., : whole * size, :].reshape(*x.shape[:-2], whole, size, x.shape[-1])
        blocks = np.roll(blocks, by, -3) if by else np.broadcast_to(blocks[..., :1, :, :], blocks.shape)
        return np.concatenate([blocks.reshape(*x.shape[:-2], -1, x.shape[-1]), x[..., whole * size :, :]], -2)

    return moved


def _of_the_past(moved: Callable[[Array], Array]) -> Callable[[Array, int], Array]:
    return lambda x, new: np.concatenate([moved(x[..., :-new, :]), x[..., -new:, :]], -2)


def _first_row(x: Array) -> Array:
    return np.broadcast_to(x[:1], x.shape)


def _early(x: Array, new: int) -> Array:
    return np.concatenate([x[..., : -new - 1, :], x[..., -new:, :], np.zeros_like(x[..., :1, :])], -2)


_WAYS: Mapping[str, Callable[[Array, int], Array]] = {
    "{} of batch row 0 for every row": lambda x, _: _first_row(x),
    "{} of the batch row before": lambda x, _: np.roll(x, 1, 0),
    "{} of the batch row behind": lambda x, _: np.roll(x, -1, 0),
    "earlier {} of batch row 0 for every row": _of_the_past(_first_row),
    "earlier {} of the batch row before": _of_the_past(lambda x: np.roll(x, 1, 0)),
    "zeros for earlier {}": _of_the_past(np.zeros_like),
    "zeros for its own {}": lambda x, new: np.concatenate([x[..., :-new, :], np.zeros_like(x[..., -new:, :])], -2),
    "its own {} a slot early, over the last of the past, and zeros behind them": _early,
    "earlier {} of the slot before": _of_the_past(lambda x: np.concatenate([0 * x[..., :1, :], x[..., :-1, :]], -2)),
    "earlier {} of the slot behind": _of_the_past(lambda x: np.concatenate([x[..., 1:, :], x[..., -1:, :]], -2)),
    "earlier {} of the slot behind, in a ring": _of_the_past(lambda x: np.roll(x, -1, -2)),
    "earlier {} of the slot before, in a ring": _of_the_past(lambda x: np.roll(x, 1, -2)),
}
"""What is read in words, and how, of `[batch, heads, slot, channel]` whose newest slots are so many."""
