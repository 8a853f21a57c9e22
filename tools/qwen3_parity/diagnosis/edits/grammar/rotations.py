"""Other channels that RoPE turns, where it is to turn a part of each head: the last, pairs of the whole head, all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    """Every head whose turned part is joined with one that passes."""
    changes, lines = dict[str, dict[Site, Change]](), dict[str, Written | None]()
    for site, values in region.sites.items():
        turned = _turned(region, values[-1])
        if turned is None:
            continue
        width, size = np.shape(region.base[turned.head])[-1], np.shape(region.base[turned.part])[-1]
        which = "last" if turned.is_first else "first"
        meant = "first" if turned.is_first else "last"
        says = {f"turns the {which} {size} channels of each head, not the {meant}": _ends,
                f"takes channels {width // 2} apart for pairs, half of the whole head, not {size // 2}": _wide_pairs,
                f"turns all {width} channels of each head, not {size} of them": _all_of_them}  # fmt: skip
        for words, function in says.items():
            yield Edit("edit.rotation", words, RARE, {site: _by(function)}, line_of(region, values[-1]))
            changes.setdefault(words, {})[site] = _by(function)
            lines[words] = line_of(region, values[-1])
    for words, every in changes.items():
        if len(every) > 1:
            yield Edit("edit.rotation", f"{words}, in all {len(every)} lines", RARE, every, lines[words])


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
    """By frequencies of the whole head, and positions that the first frequency, 1, shows."""
    cos, sin = (np.asarray(call.env.get(x, call.region.base[x])) for x in (turned.cos, turned.sin))
    first = np.arctan2(sin[..., 0], cos[..., 0])
    if first.size > _MOST:
        raise ValueError("too many tokens to look for each one's position")
    positions = np.arange(_FARTHEST)
    position = np.abs(np.exp(1j * positions) - np.exp(1j * first)[..., None]).argmin(-1)
    width, bases = head.shape[-1], config_numbers(call.region.network.config)
    base = next((value for key, value in bases.items() if key.rpartition(".")[2].endswith("theta")), None)
    if base is None or np.abs(np.exp(1j * position) - np.exp(1j * first)).max() > _SAME:
        raise ValueError("the base, or where a token stands, is not known")
    frequencies = base ** (-np.arange(0, width, 2) / width)
    angles = position[..., None] * np.concatenate([frequencies, frequencies])
    scale = np.hypot(cos[..., :1], sin[..., :1])
    left, right = np.split(head, 2, -1)
    return np.asarray(scale * (head * np.cos(angles) + np.concatenate([-right, left], -1) * np.sin(angles)))
