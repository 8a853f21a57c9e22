"""Parts in another order: halves for pairs, tiled for repeated, shifted, reversed, the other part of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, Written
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import called, line_of, named, short
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE, Rank
from qwen3_spec.graph import Graph, Node, Ref

_MOST_PARTS = 4
_FILTERED = "conv1d"
_OF_TWO = frozenset({"add", "mul", "sub", "div", "matmul", "bmm", "where", _FILTERED})
"""Ops of two values whose places people mistake."""


def layouts(region: Region) -> Iterator[Edit]:
    """Every op's result, or the parts that it is made of, at other places."""
    yield from _pairs(region)
    yield from _splits(region)
    for site, places in reversed(region.sites.items()):
        node, base = region.node(places[0]), region.base[places[0]]
        if node is None:
            continue
        op, line = short(node.op), line_of(region, places[0])
        for name, says, rank, change in _parts(region, node, places[0]):
            yield Edit(name, says, rank, {site: change}, line)
        yield from _operands(region, site, node, line)
        if not isinstance(base, np.ndarray) or not base.ndim or op in ("view", "unsafe_view", "to_copy", "expand"):
            continue
        for axis, size in enumerate(base.shape):
            if size > 1:
                where = f"along axis {axis} of {op}"
                for step in (1, -1):
                    side = "behind" if step < 0 else "before"
                    says = f"reads the number {side}, {where}"
                    yield Edit("edit.shifted", says, COMBINED + 1.5, {site: _rolled(axis, step)}, line)
                yield Edit("edit.reversed", f"is reversed {where}", RARE, {site: _flipped(axis)}, line)
                if size % 2 == 0 and size > 2:
                    says = f"has neighbours in pairs where halves are meant, {where}"
                    yield Edit("edit.pairs", says, COMBINED, {site: _interleaved(axis)}, line)
                    says = f"has halves where neighbours in pairs are meant, {where}"
                    yield Edit("edit.pairs", says, COMBINED, {site: _halved(axis)}, line)
                    says = f"has its halves exchanged {where}"
                    yield Edit("edit.exchanged", says, COMBINED, {site: _rolled(axis, size // 2)}, line)


def _operands(region: Region, site: Site, node: Node, line: Written | None) -> Iterator[Edit]:
    """One of the two values that an op reads, at other places."""
    refs = [(slot, operand.value) for slot, operand in enumerate(node.operands) if isinstance(operand, Ref)]
    if short(node.op) not in _OF_TWO or len(refs) < 2:
        return
    for slot, value in refs:
        for axis, size in enumerate(np.shape(region.base[value])):
            if size > 1:
                where = f"along axis {axis} in {short(node.op)}"
                is_filter = short(node.op) == _FILTERED and slot > 0
                says = f"reads {'the filter' if is_filter else named(region, value)} reversed {where}"
                rank = RARE if is_filter else COMBINED
                yield Edit("edit.reversed", says, rank, {site: _operand(slot, np.flip, axis)}, line)
                says = f"reads index 0 of {named(region, value)} for every one {where}"
                yield Edit("edit.repeated", says, COMBINED, {site: _operand(slot, _first, axis)}, line)
                for step, side in ((1, "before"), (-1, "behind")):
                    says = f"reads {named(region, value)} of the index {side} {where}"
                    yield Edit("edit.shifted", says, COMBINED, {site: _operand(slot, _by(step), axis)}, line)


def _first(x: Array, axis: int) -> Array:
    return np.broadcast_to(np.take(x, [0], axis), x.shape)


def _by(step: int) -> Callable[[Array, int], Array]:
    return lambda x, axis: np.roll(x, step, axis)


def _operand(slot: int, function: Callable[[Array, int], Array], axis: int) -> Change:
    def change(call: Call) -> Array:
        moved = function(np.asarray(call.operands[slot]), axis)
        return np.asarray(call.plain(*call.operands[:slot], moved, *call.operands[slot + 1 :]))

    return change


def _called(region: Region, part: Any) -> str:
    """The name of a part that is joined, where it has one."""
    node = region.network.graph.node(part.value) if isinstance(part, Ref) else None
    name = called(region, part.value) if isinstance(part, Ref) else ""
    return f" ({name})" if name and (node is None or name != short(node.op)) else ""


def _parts(region: Region, node: Node, value: int) -> Iterator[tuple[str, str, Rank, Change]]:
    op = short(node.op)
    if op in ("cat", "stack") and isinstance(node.operands[0], tuple):
        count = len(node.operands[0])
        if 1 < count <= _MOST_PARTS:
            for order in list(permutations(range(count)))[1:]:
                says = f"puts the parts in the order {', '.join(map(str, order))}"
                yield "edit.order", says, RARE, _ordered(order)
        for part in range(min(count, _MOST_PARTS)):
            says = f"has zeros for part {part}{_called(region, node.operands[0][part])}"
            yield "edit.left_out", says, PLAIN + 1, _without(part)
    if op == "cat":
        yield "edit.pairs", "interleaves the parts", RARE, _interleaved_parts
    if op == "slice_scatter":
        yield from _of_written(region, node, value)
    if op == "view":
        yield from _regrouped(region, node, value)
    if op == "getitem" and isinstance(node.operands[0], Ref):
        parts = region.base.get(node.operands[0].value)
        if isinstance(parts, list | tuple) and parts and all(np.shape(p) == np.shape(parts[0]) for p in parts):
            for part in range(len(parts)):
                if part != node.operands[1]:
                    says = f"takes part {part} for part {node.operands[1]}"
                    yield "edit.order", says, RARE, _taken(part)
    if op == "slice":
        yield "edit.order", "takes the last part for the first, or the reverse", RARE, _other_end
        yield "edit.pairs", "takes every second number for a half", RARE, _every_second
        yield "edit.pairs", "takes a half for every second number", RARE, _half
        whole = node.operands[0]
        of = f" of {named(region, whole.value)}" if isinstance(whole, Ref) else ""
        yield "edit.order", f"takes the other part{of}", RARE, _other_part
        yield "edit.order", "takes the part before it", RARE, _beside(-1)
        yield "edit.order", "takes the part behind it", RARE, _beside(1)


def _of_written(region: Region, node: Node, value: int) -> Iterator[tuple[str, str, Rank, Change]]:
    """Parts that are written into one value until it has all of them."""
    parts, axis = _written(region.network.graph, node), _axis_of(node)
    lengths = [np.shape(region.base[part])[axis] for part in parts]
    if sum(lengths) == np.shape(region.base[value])[axis] and len(parts) <= _MOST_PARTS:
        for order in list(permutations(range(len(parts))))[1:]:
            which = "its two parts" if len(parts) == 2 else "its parts"
            says = f"has {which} in each other's place: in the order {', '.join(map(str, order))}"
            yield "edit.order", says, RARE, _written_in(order)


def _axis_of(node: Node) -> int:
    return int((*node.operands, 0)[2])


def _written(graph: Graph, node: Node) -> list[int]:
    """What is written into a value part by part, along one axis, from its beginning on."""
    parts, axis, maker = list[int](), _axis_of(node), node
    while short(maker.op) == "slice_scatter" and _axis_of(maker) == axis and isinstance(maker.operands[1], Ref):
        parts.append(maker.operands[1].value)
        before = graph.node(maker.reads[0])
        if before is None:
            break
        maker = before
    return parts[::-1]


def _written_in(order: tuple[int, ...]) -> Change:
    def change(call: Call) -> Array:
        if call.node is None:
            raise ValueError("nothing is written here")
        parts = [call.env[part] for part in _written(call.region.network.graph, call.node)]
        return np.concatenate([parts[part] for part in order], _axis_of(call.node))

    return change


def _regrouped(region: Region, node: Node, value: int) -> Iterator[tuple[str, str, Rank, Change]]:
    """Rows that are cut into two axes, as if those lay the other way around."""
    whole, cut = np.shape(region.base[node.reads[0]]), np.shape(region.base[value])
    for axis in range(min(len(whole), len(cut) - 2)):
        first, second = cut[axis : axis + 2]
        behind = (*cut[:axis], first * second, *cut[axis + 2 :])
        if whole == behind and 1 < first != second > 1:
            says = f"takes rows as if they lay {second} × {first}, where they lie {first} × {second}"
            yield "edit.order", says, RARE, _rows_exchanged(axis)


def _rows_exchanged(axis: int) -> Change:
    def change(call: Call) -> Array:
        x = np.asarray(call.plain())
        exchanged = (*x.shape[:axis], x.shape[axis + 1], x.shape[axis], *x.shape[axis + 2 :])
        return np.swapaxes(x.reshape(exchanged), axis, axis + 1)

    return change


def _pairs(region: Region) -> Iterator[Edit]:
    """The functions that cut in halves and join them: by pairs instead; alone, and with the joined tables."""
    functions = dict[tuple[str, str], dict[str, list[Site]]]()
    for site, places in region.sites.items():
        node = region.node(places[0])
        line = line_of(region, places[0])
        if node is not None and line is not None and short(node.op) in ("slice", "cat", "split", "getitem"):
            functions.setdefault((line.line.file, line.line.function), {}).setdefault(short(node.op), []).append(site)
    tables = [
        site
        for site, places in region.sites.items()
        if (node := region.node(places[0])) is not None and short(node.op) == "cat" and _doubles(node)
    ]
    for (_, function), ops in functions.items():
        halves = ops.get("slice", [])
        for says, change in _ALL_SLICES.items() if len(halves) > 1 else ():
            line = line_of(region, region.sites[halves[0]][0])
            changes = dict.fromkeys(halves, change)
            yield Edit("edit.pairs", f"{says} in {function}", RARE, changes, line)
        joins = ops.get("cat", [])
        if len(halves) > 1 and joins:
            says = f"takes the last channels for the first, and the reverse, in {function}"
            ends = {**dict.fromkeys(halves, _other_end), **dict.fromkeys(joins, _reversed_parts)}
            yield Edit("edit.order", says, RARE, ends, line_of(region, region.sites[joins[-1]][0]))
        if len(halves) != 2 or len(joins) != 1:
            continue
        changes = {**dict.fromkeys(halves, _every_second), ops["cat"][0]: _interleaved_parts}
        line = line_of(region, region.sites[ops["cat"][0]][0])
        says = f"takes neighbours in pairs, where {function} takes halves"
        yield Edit("edit.pairs", says, RARE, changes, line)
        if tables:
            says = f"takes neighbours in pairs, where {function} takes halves; the angles stand in pairs, too"
            both = {**changes, **dict.fromkeys(tables, _interleaved_parts)}
            yield Edit("edit.pairs", says, RARE, both, line)


def _splits(region: Region) -> Iterator[Edit]:
    """Two parts of a split in each other's place, or every second number for the halves; one alone may be here."""
    done = set[Site]()
    for site, places in region.sites.items():
        node = region.node(places[0])
        parts = region.base.get(node.reads[0]) if node is not None and short(node.op) == "getitem" else None
        if not isinstance(parts, list | tuple) or not site.operands[-1].isdigit() or not 1 < len(parts) <= _MOST_PARTS:
            continue
        each = [site._replace(operands=(*site.operands[:-1], str(part))) for part in range(len(parts))]
        if each[0] in done:
            continue
        done.add(each[0])
        line = line_of(region, places[0])
        for low, high in combinations(range(len(parts)), 2):
            which = "the two parts" if len(parts) == 2 else f"parts {low} and {high} of {len(parts)}"
            if len(parts) == 2 or np.shape(parts[low]) == np.shape(parts[high]):
                changes = {each[low]: _taken(high), each[high]: _taken(low)}
                yield Edit("edit.order", f"has {which} in each other's place", RARE, changes, line)
        says = f"cuts each of the {len(parts)} parts of the channels from channel 0 on, not behind the one before it"
        yield Edit("edit.order", says, RARE, dict.fromkeys(each, _from_0), line)
        if len(parts) == 2:
            first, second = each
            says = "cuts the second part off first: the parts begin at the other's length"
            yield Edit("edit.order", says, RARE, {first: _cut_second_first(0), second: _cut_second_first(1)}, line)
            says = "takes every second number for the halves"
            yield Edit("edit.pairs", says, RARE, {first: _dealt(0), second: _dealt(1)}, line)


def _cut_second_first(part: int) -> Change:
    def change(call: Call) -> Array:
        first, last = call.operands[0]
        axis = next((a for a in range(first.ndim - 1, -1, -1) if first.shape[a] != last.shape[a]), -1)
        if axis < 0:
            raise ValueError("both parts are of one length")
        whole, length = np.concatenate([first, last], axis), last.shape[axis]
        return np.take(whole, range(length) if part else range(length, whole.shape[axis]), axis)

    return change


def _from_0(call: Call) -> Array:
    node = call.node
    cut = None if node is None else call.region.network.graph.node(node.reads[0])
    axis = int(cut.named.get("dim", (*cut.operands, 0, 0)[2])) if cut is not None else 0
    return np.take(np.concatenate(call.operands[0], axis), range(np.shape(call.plain())[axis]), axis)


def _dealt(part: int) -> Change:
    def change(call: Call) -> Array:
        cut = call.region.network.graph.node(call.node.reads[0]) if call.node is not None else None
        first, last = call.operands[0]
        axis = cut.named.get("dim", (*cut.operands, 0, 0)[2]) if cut is not None else 0
        whole = np.concatenate([first, last], int(axis))
        return np.take(whole, range(part, whole.shape[int(axis)], 2), int(axis))

    return change


def _doubles(node: Node) -> bool:
    parts = node.operands[0]
    return isinstance(parts, tuple) and len(parts) == 2 and parts[0] == parts[1]


def _rolled(axis: int, step: int) -> Change:
    return lambda call: np.roll(call.plain(), step, axis)


def _flipped(axis: int) -> Change:
    return lambda call: np.flip(call.plain(), axis)


def _interleaved(axis: int) -> Change:
    return lambda call: interleaved(call.plain(), axis)


def _halved(axis: int) -> Change:
    return lambda call: halved(call.plain(), axis)


def interleaved(x: Array, axis: int) -> Array:
    """Numbers of the first half and the second in turn."""
    axis %= x.ndim
    first, second = np.split(x, 2, axis)
    return np.asarray(np.stack([first, second], axis + 1).reshape(x.shape))


def halved(x: Array, axis: int) -> Array:
    """Every second number, then the others."""
    moved = np.moveaxis(x, axis, -1)
    return np.moveaxis(np.concatenate([moved[..., ::2], moved[..., 1::2]], -1), -1, axis)


def _axis(call: Call) -> int:
    return int(call.operands[1] if len(call.operands) > 1 else call.named.get("dim", 0))


def _ordered(order: tuple[int, ...]) -> Change:
    return lambda call: call.plain([call.operands[0][part] for part in order], *call.operands[1:])


def _reversed_parts(call: Call) -> Any:
    return call.plain(call.operands[0][::-1], *call.operands[1:])


def _without(part: int) -> Change:
    def change(call: Call) -> Any:
        parts = [np.zeros_like(x) if place == part else x for place, x in enumerate(call.operands[0])]
        return call.plain(parts, *call.operands[1:])

    return change


def _interleaved_parts(call: Call) -> Array:
    parts, axis = call.operands[0], _axis(call)
    axis %= np.ndim(parts[0])
    return np.asarray(np.stack(parts, axis + 1).reshape(np.shape(call.plain())))


def _half(call: Call) -> Array:
    x, axis, begin, length = _bounds(call)
    if 2 * length != x.shape[axis] or begin > 1:
        raise ValueError("not every second number")
    return np.take(x, range(begin * length, (begin + 1) * length), axis)


def _other_part(call: Call) -> Array:
    x, axis, begin, length = _bounds(call)
    if 2 * length != x.shape[axis]:
        raise ValueError("no half")
    if begin == 1:
        return np.take(x, range(0, x.shape[axis], 2), axis)
    if len(call.operands) > 4 and call.operands[4] == 2:
        return np.take(x, range(1, x.shape[axis], 2), axis)
    return np.take(x, range(length) if begin else range(length, 2 * length), axis)


def _taken(part: int) -> Change:
    return lambda call: call.plain(call.operands[0], part)


def _bounds(call: Call) -> tuple[Array, int, int, int]:
    """The whole, the axis, where the part begins, and how long it is."""
    x, axis = np.asarray(call.operands[0]), _axis(call)
    begin = int(call.operands[2] or 0) if len(call.operands) > 2 else 0
    length = np.shape(call.plain())[axis]
    return x, axis, begin if begin >= 0 else begin + x.shape[axis], length


def _other_end(call: Call) -> Array:
    x, axis, begin, length = _bounds(call)
    return np.take(x, range(x.shape[axis] - length, x.shape[axis]) if begin == 0 else range(length), axis)


def _beside(step: int) -> Change:
    def change(call: Call) -> Array:
        x, axis, begin, length = _bounds(call)
        first = begin + step * length
        if not 0 <= first <= x.shape[axis] - length:
            raise ValueError("no part is there")
        return np.take(x, range(first, first + length), axis)

    return change


def _every_second(call: Call) -> Array:
    x, axis, begin, length = _bounds(call)
    if 2 * length != x.shape[axis]:
        raise ValueError("no half")
    return np.take(x, range(0 if begin == 0 else 1, x.shape[axis], 2), axis)


_ALL_SLICES: Mapping[str, Change] = {
    "takes halves for every second number": _half,
    "takes every second number for halves": _every_second,
}
