"""Other channels that RoPE turns: the last, pairs of the whole head, all, or a part where it is to turn all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Block, Call, Change, Edit, Site, Written
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.graph import Node, Ref

_FARTHEST = 1 << 13
"""Positions that are looked for behind an angle."""
_MOST = 1 << 10
"""Tokens whose positions are looked for: a table of all of them is made."""
_SAME = 1e-5
"""How far an angle may be from its position's."""
_POSITIONS, _MOST_AXES = 4, 4
"""The axes of an array of positions on several axes, and how many these are at most."""
_PARTS = (0.5, 0.25, 0.75)
"""What part of a head is turned where all of it is to be."""
_PRODUCTS = frozenset({"matmul", "bmm", "mul"})


class _Turned(NamedTuple):
    """A head of which the first part is turned: the head's value, its part's, the result, the tables of the angles."""

    head: int
    part: int
    result: int
    cos: int
    sin: int
    values: tuple[int, ...]
    is_first: bool


def rotations(region: Region) -> Iterator[Edit]:
    """Every head whose turned part is joined with one that passes, and every head that is turned as a whole."""
    changes, lines = dict[str, dict[Site, Change]](), dict[str, Written | None]()
    for site, values in region.sites.items():
        for words, change, line in (*_of_a_part(region, values[-1]), *_of_all(region, values[-1])):
            yield Edit("edit.rotation", words, RARE, {site: change}, line)
            changes.setdefault(words, {})[site] = change
            lines[words] = line
        if (axes := _axes(region, values[0])) > 1:
            for words, change in _of_axes(axes):
                yield Edit("edit.rotation", words, RARE, {site: change}, line_of(region, values[0]))
    for words, every in changes.items():
        if len(every) > 1:
            yield Edit("edit.rotation", f"{words}, in all {len(every)} lines", RARE, every, lines[words])


def _axes(region: Region, value: int) -> int:
    """The axes of positions `[axis, batch, …]` that become floats to be multiplied by frequencies; else 0."""
    node, base = region.node(value), region.base[value]
    counts = region.base[node.reads[0]] if node is not None and short(node.op) == "to_copy" else None
    is_whole = isinstance(counts, np.ndarray) and counts.dtype.kind == "i" and base.dtype.kind == "f"
    return len(base) if is_whole and base.ndim == _POSITIONS and len(base) <= _MOST_AXES else 0


def _of_axes(count: int) -> Iterator[tuple[str, Change]]:
    """Positions of other axes: of text, height and width."""
    yield f"has position 0 for all axes but the first of {count}", lambda call: _only_first(call.plain())
    yield f"has the positions of the first of {count} axes for all of them", _of_axis([0] * count)
    for low, high in combinations(range(count), 2):
        order = [{low: high, high: low}.get(axis, axis) for axis in range(count)]
        yield f"has the positions of axes {low} and {high} exchanged", _of_axis(order)


def _only_first(positions: Array) -> Array:
    return np.concatenate([positions[:1], np.zeros_like(positions[1:])])


def _of_axis(order: list[int]) -> Change:
    return lambda call: np.asarray(call.plain())[order]


def _of_a_part(region: Region, value: int) -> Iterator[tuple[str, Change, Written | None]]:
    """Other channels than the part that is turned."""
    turned = _turned(region, value)
    if turned is not None:
        width, size = np.shape(region.base[turned.head])[-1], np.shape(region.base[turned.part])[-1]
        which, meant = ("last", "first") if turned.is_first else ("first", "last")
        line = line_of(region, value)
        yield f"turns the {which} {size} channels of each head, not the {meant}", _by(_ends), line
        half = f"takes channels {width // 2} apart for pairs, half of the whole head, not {size // 2}"
        yield half, _by(_wide_pairs), line
        every = f"turns all {width} channels of each head, not {size} of them"
        yield every, _by(_all_of_them), line_of(region, _angles(region, turned.cos, value))


def _of_all(region: Region, value: int) -> Iterator[tuple[str, Change, Written | None]]:
    """A part alone of a head that is turned as a whole."""
    whole = _whole(region, value)
    if whole is None:
        return
    head, cos, _ = whole
    width, line = np.shape(region.base[head])[-1], line_of(region, _angles(region, cos, value))
    for part in _PARTS:
        yield f"turns {_turned_of(width, part)} channels of each head, not all {width}", _part_of_them(part), line


def _turned(region: Around, value: int) -> _Turned | None:
    """What a value is joined of, a turned part and one that passes; None where it is something else."""
    node = region.node(value)
    parts = node.operands[0] if node is not None and short(node.op) == "cat" and node.operands else ()
    if not isinstance(parts, tuple) or len(parts) != 2 or not all(isinstance(part, Ref) for part in parts):
        return None
    for turned, passing in (parts, parts[::-1]):
        cut, added = _maker(region, passing, "slice"), _maker(region, turned, "add")
        products = [] if added is None else [_maker(region, x, "mul") for x in added.operands[:2]]
        for product, crossed in (products, products[::-1]) if products else ():
            tables = None if cut is None else _tables(region, product, crossed, cut.reads[0])
            if cut is not None and tables is not None:
                part, cos, sin = tables
                inside = tuple(v for v in region.downstream([part]) if part < v <= turned.value)
                return _Turned(cut.reads[0], part, turned.value, cos, sin, inside, turned is parts[0])
    return None


def _tables(region: Around, product: Node | None, crossed: Node | None, head: int) -> tuple[int, int, int] | None:
    """The part of a head that is multiplied, what by, and what the product beside multiplies its other numbers by."""
    for place, x in enumerate(product.operands if product is not None and crossed is not None else ()):
        part, cos = _maker(region, x, "slice"), product.operands[1 - place] if product is not None else None
        if part is not None and part.reads[0] == head and isinstance(cos, Ref) and isinstance(x, Ref):
            behind = region.downstream([x.value])
            sines = [
                y.value for y in (crossed.operands if crossed else ()) if isinstance(y, Ref) and y.value not in behind
            ]
            return (x.value, cos.value, sines[0]) if len(sines) == 1 else None
    return None


def _maker(region: Around, operand: object, op: str) -> Node | None:
    """The op of a name that makes an operand, below changes of its type."""
    node = region.node(operand.value) if isinstance(operand, Ref) else None
    while node is not None and short(node.op) in ("to_copy", "type_as"):
        node = region.node(node.reads[0])
    return node if node is not None and short(node.op) == op else None


def _turned_of(width: int, part: float) -> int:
    """How many channels a part of a head has, as they are cut into pairs."""
    return 2 * math.ceil(int(width * part) / 2)


def _angles(region: Around, table: int, otherwise: int) -> int:
    """The product of positions and frequencies that a table comes from, where it was not recorded."""
    value, node = table, region.node(table)
    while node is not None and node.reads:
        if short(node.op) in _PRODUCTS and len(node.reads) > 1:
            return value
        value, node = node.reads[0], region.node(node.reads[0])
    return otherwise


def _whole(region: Around, value: int) -> tuple[int, int, int] | None:
    """The head, cosines and sines of `x cos + rotated(x) sin`; None for another sum."""
    node = region.node(value)
    if node is None or short(node.op) != "add" or len(node.operands) != 2:
        return None
    products = [_maker(region, x, "mul") for x in node.operands]
    for product, crossed in (products, products[::-1]):
        if product is None or crossed is None:
            return None
        for place in (0, 1):
            head, cos = product.operands[place], product.operands[1 - place]
            sin = _crossed_by(region, crossed, head) if isinstance(head, Ref) else None
            if sin is not None and isinstance(cos, Ref) and cos.value not in region.downstream([head.value]):
                return head.value, cos.value, sin
    return None


def _crossed_by(region: Around, product: Node, head: Ref) -> int | None:
    """What a product multiplies a head's halves by that were joined the other way round; None for another product."""
    behind = region.downstream([head.value])
    sides = [side for side in product.operands if isinstance(side, Ref)]
    sines = [side.value for side in sides if side.value not in behind]
    joined = [side for side in sides if side.value in behind and _maker(region, side, "cat") is not None]
    return sines[0] if len(sines) == len(joined) == 1 else None


def _part_of_them(part: float) -> Change:
    """The first channels of a head turned by the frequencies of so many."""

    def change(call: Call) -> Array:
        turned = _whole(call.region, call.value)
        if turned is None:
            raise ValueError("nothing is turned here")
        head, cos, sin = (np.asarray(call.env.get(x, call.before[x])) for x in turned)
        dim, size = int(head.shape[-1] * part), _turned_of(head.shape[-1], part)
        return np.concatenate([_turned_anew(call, head[..., :size], cos, sin, dim), head[..., size:]], -1)

    return change


def _by(function: Callable[[Call, _Turned, Array], Array]) -> Change:
    def change(call: Call) -> Array:
        turned = _turned(call.region, call.value)
        if turned is None:
            raise ValueError("nothing is turned here")
        return function(call, turned, np.asarray(call.env[turned.head]))

    return change


def _turn(call: Call, turned: _Turned, part: Array) -> Array:
    """Other channels turned as the part is."""
    block = Block(turned.part, turned.result, turned.values)
    return call.region.of_block(block, {**call.env, turned.part: part}, call.numbers)


def _ends(call: Call, turned: _Turned, head: Array) -> Array:
    size = np.shape(call.env[turned.part])[-1]
    if turned.is_first:
        return np.concatenate([head[..., :-size], _turn(call, turned, head[..., -size:])], -1)
    return np.concatenate([_turn(call, turned, head[..., :size]), head[..., size:]], -1)


def _wide_pairs(call: Call, turned: _Turned, head: Array) -> Array:
    half, width = np.shape(call.env[turned.part])[-1] // 2, head.shape[-1]
    channels = np.r_[:half, width // 2 : width // 2 + half]
    result = np.array(head)
    result[..., channels] = _turn(call, turned, head[..., channels])
    return result


def _all_of_them(call: Call, turned: _Turned, head: Array) -> Array:
    cos, sin = (np.asarray(call.env.get(x, call.before[x])) for x in (turned.cos, turned.sin))
    return _turned_anew(call, head, cos, sin, head.shape[-1])


def _turned_anew(call: Call, head: Array, cos: Array, sin: Array, dim: int) -> Array:
    """By the frequencies of so many channels, and positions that the tables' first frequency, 1, shows."""
    first = np.arctan2(sin[..., 0], cos[..., 0])
    if first.size > _MOST:
        raise ValueError("too many tokens to look for each one's position")
    positions = np.arange(_FARTHEST)
    position = np.abs(np.exp(1j * positions) - np.exp(1j * first)[..., None]).argmin(-1)
    bases = config_numbers(call.region.network.config)
    base = next((value for key, value in bases.items() if key.rpartition(".")[2].endswith("theta")), None)
    if base is None or np.abs(np.exp(1j * position) - np.exp(1j * first)).max() > _SAME:
        raise ValueError("the base, or where a token stands, is not known")
    frequencies = base ** (-np.arange(0, dim, 2) / dim)
    scale = np.hypot(cos[..., :1], sin[..., :1])
    angles = position[..., None] * frequencies
    in_pairs = np.array_equal(cos[..., ::2], cos[..., 1::2])
    cut = head.reshape(*head.shape[:-1], *((-1, 2) if in_pairs else (2, -1)))
    left, right = np.moveaxis(cut, -1 if in_pairs else -2, 0) * scale
    both = left * np.cos(angles) - right * np.sin(angles), right * np.cos(angles) + left * np.sin(angles)
    return np.stack(both, -1 if in_pairs else -2).reshape(head.shape)
