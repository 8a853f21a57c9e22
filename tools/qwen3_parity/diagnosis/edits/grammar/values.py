"""An op left out, done twice, negated, rounded, moved along an axis, its parts in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Rank
from qwen3_parity.diagnosis.edits.grammar.constants import NEUTRAL
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, named, short
from qwen3_parity.mistakes.rounding import EIGHT_BITS, bfloat16, float16
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.graph import Node, Ref

NARROW = (("bfloat16", bfloat16), ("float16", float16), *EIGHT_BITS)
"""Narrower types by name."""
_HIDDEN = 1e30
_MOVING = ("getitem", "_to_copy", "view", "type_as", "slice", "expand")
"""Ops that compute nothing: to leave them out is no mistake, or another one."""


def values(region: Region) -> Iterator[Edit]:
    """Every op's result changed by itself."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        base = region.base[places[0]]
        if node is None or not isinstance(base, np.ndarray):
            continue
        op, line = short(node.op), line_of(region, places[0])
        kernel = kernel_of(node.op)
        computes = kernel is not None and kernel.kind in (Kind.POINT, Kind.SUM, Kind.CHOICE)
        for slot, words in _left_out(region, node, base):
            yield Edit("edit.left_out", words, Rank.LEFT_OUT, {site: _hands_on(slot)}, line)
        if base.dtype.kind == "f" and computes:
            yield Edit("edit.negated", f"negates the result of {op}", Rank.LEFT_OUT, {site: _negated}, line)
            for name, narrow in NARROW:
                says = f"rounds the result of {op} to {name}"
                yield Edit("edit.rounded", says, Rank.LEFT_OUT, {site: _rounded(narrow)}, line)
                says = f"computes {op} in {name}"
                yield Edit("edit.rounded", says, Rank.LEFT_OUT, {site: _in_narrow(narrow)}, line)
        if op == "add":
            yield Edit("edit.twice", "adds the second part twice", Rank.LEFT_OUT, {site: _added_twice(1)}, line)
            yield Edit("edit.twice", "adds the first part twice", Rank.LEFT_OUT, {site: _added_twice(0)}, line)
        if op == "mul" and any(isinstance(x, Ref) and x.value in region.parameters for x in node.operands):
            for more, says in ((1, "adds 1 to the weight"), (-1, "takes 1 off the weight")):
                yield Edit("edit.parameter", says, Rank.CONSTANT, {site: _weight_and(more)}, line)
        if op == "cat":
            for part in range(min(len(node.operands[0]), 4)):
                says = f"hides part {part} of cat"
                yield Edit("edit.left_out", says, Rank.LEFT_OUT, {site: _hidden(part)}, line)
        if op == "cat" and base.ndim > 2 and _axis(node, base) == base.ndim - 2:
            says = "has the slot before in the newest slot"
            yield Edit("edit.cache", says, Rank.LEFT_OUT, {site: _late}, line)
            for step in (1, -1):
                says = f"has every slot one place {'on' if step > 0 else 'back'}"
                yield Edit("edit.cache", says, Rank.LEFT_OUT, {site: _slots_moved(step)}, line)
        if op == "slice" and base.dtype.kind == "i" and base.ndim == 2:
            says = "counts from 0 in every step"
            yield Edit("edit.input", says, Rank.LEFT_OUT, {site: lambda call: call.plain() - call.plain()[:, :1]}, line)
        if op == "add" and len(node.operands) == 2:
            for slot, factor in _factors(region, node):
                says = f"multiplies the other part of add by {factor:.7g}"
                yield Edit("edit.moved", says, Rank.MOVED, {site: _factor_moved(slot, factor, both=False)}, line)
                says = f"multiplies the whole sum by {factor:.7g}"
                yield Edit("edit.moved", says, Rank.MOVED, {site: _factor_moved(slot, factor, both=True)}, line)
        if op == "neg":
            yield Edit("edit.left_out", "leaves the minus out", Rank.LEFT_OUT, {site: _hands_on(0)}, line)
        if base.dtype.kind == "b" and base.ndim:
            yield Edit("edit.mask", "is always true", Rank.LEFT_OUT, {site: lambda call: _filled(call, True)}, line)
            yield Edit("edit.mask", "is inverted", Rank.LEFT_OUT, {site: lambda call: ~call.plain()}, line)
            for keys in range(1, base.shape[-1] if base.ndim > 2 and base.shape[-2] > 1 else 1):
                says = f"sees the last {keys} keys alone"
                yield Edit("edit.mask", says, Rank.LEFT_OUT, {site: _last_keys(keys)}, line)
            if base.ndim > 2 and base.shape[-2] > 1:
                says = "sees what the last query sees, too"
                yield Edit("edit.mask", says, Rank.LEFT_OUT, {site: _last_query}, line)
        if op in ("linear", "addmm") and len(node.operands) > 2 and node.operands[2] is not None:
            bias = 0 if op == "addmm" else 2
            yield Edit("edit.left_out", "leaves the bias out", Rank.LEFT_OUT, {site: _zero(bias)}, line)


def _left_out(region: Region, node: Node, base: Array) -> Iterator[tuple[int, str]]:
    """The operands that may stand for the result, with what is then left out."""
    kernel = kernel_of(node.op)
    if kernel is None or kernel.kind in (Kind.MADE, Kind.SIZE) or node.op.startswith(_MOVING):
        return
    if short(node.op) in NEUTRAL and not all(isinstance(operand, Ref) for operand in node.operands):
        return  # another number says so
    refs = [(slot, operand.value) for slot, operand in enumerate(node.operands) if isinstance(operand, Ref)]
    for slot, value in refs:
        before = region.base.get(value)
        if not isinstance(before, np.ndarray) or before.dtype.kind != base.dtype.kind:
            continue
        if before.shape == base.shape or (base.dtype.kind == "b" and _spreads(before, base)):
            others = [named(region, other) for place, other in refs if place != slot]
            of = f" by {others[0]}" if short(node.op) in ("mul", "div") and others else ""
            with_ = f" of {others[0]}" if short(node.op) in ("add", "sub", "and") and others else ""
            yield slot, f"leaves out {short(node.op)}{of}{with_}"


def _spreads(value: Array, base: Array) -> bool:
    try:
        return np.broadcast_shapes(value.shape, base.shape) == base.shape
    except ValueError:
        return False


def _hands_on(slot: int) -> Change:
    return lambda call: np.broadcast_to(call.operands[slot], np.shape(call.plain()))


def _negated(call: Call) -> Array:
    return np.asarray(-call.plain())


def _filled(call: Call, value: bool) -> Array:
    return np.full(np.shape(call.plain()), value)


def _zero(slot: int) -> Change:
    def change(call: Call) -> Any:
        operands = list(call.operands)
        operands[slot] = np.zeros_like(operands[slot])
        return call.plain(*operands)

    return change


def _added_twice(slot: int) -> Change:
    return lambda call: call.plain() + call.operands[slot]


def _rounded(narrow: Callable[[Array], Array]) -> Change:
    return lambda call: narrow(call.plain())


def _in_narrow(narrow: Callable[[Array], Array]) -> Change:
    def change(call: Call) -> Array:
        floats = (isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in call.operands)
        operands = (narrow(x) if is_float else x for x, is_float in zip(call.operands, floats, strict=True))
        return narrow(call.plain(*operands))

    return change


def _axis(node: Node, base: Array) -> int:
    axis = node.operands[1] if len(node.operands) > 1 else node.named.get("dim", 0)
    return int(axis) % base.ndim


def _weight_and(more: int) -> Change:
    def change(call: Call) -> Array:
        assert call.node is not None
        names = call.region.names
        weights = [isinstance(x, Ref) and x.value in names for x in call.node.operands]
        return np.asarray(call.plain(*(x + more if w else x for x, w in zip(call.operands, weights, strict=True))))

    return change


def _hidden(part: int) -> Change:
    def change(call: Call) -> Any:
        parts = [np.full_like(x, -_HIDDEN) if place == part else x for place, x in enumerate(call.operands[0])]
        return call.plain(parts, *call.operands[1:])

    return change


def _factors(region: Region, node: Node) -> Iterator[tuple[int, float]]:
    """The parts of a sum that are products with a number, by their place."""
    for slot, operand in enumerate(node.operands):
        maker = region.node(operand.value) if isinstance(operand, Ref) else None
        if maker is not None and short(maker.op) == "mul" and isinstance(maker.operands[1], float):
            yield slot, maker.operands[1]


def _factor_moved(slot: int, factor: float, *, both: bool) -> Change:
    def change(call: Call) -> Array:
        scaled, other = call.operands[slot] / factor, call.operands[1 - slot] * factor
        return np.asarray(other + (scaled * factor if both else scaled))

    return change


def _late(call: Call) -> Array:
    result, axis = np.array(call.plain()), int(call.operands[1] if len(call.operands) > 1 else 0)
    last = np.moveaxis(result, axis, 0)
    last[-1] = last[-2]
    return result


def _slots_moved(step: int) -> Change:
    def change(call: Call) -> Array:
        return np.roll(call.plain(), step, int(call.operands[1] if len(call.operands) > 1 else 0))

    return change


def _last_keys(count: int) -> Change:
    """Visible keys by their number from the last visible one back."""

    def change(call: Call) -> Array:
        seen = np.asarray(call.plain())
        behind = np.cumsum(seen[..., ::-1], -1)[..., ::-1]
        return seen & (behind <= count)

    return change


def _last_query(call: Call) -> Array:
    seen = np.asarray(call.plain())
    return np.asarray(seen | seen[..., -1:, :])
