"""A factor or an addend that is applied elsewhere: a scale behind the cap, weights of experts on what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, named, number, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.graph import Node, Ref, resolved

_APPLIED: Mapping[str, Callable[[Array, Any], Array]] = {
    "mul": np.multiply,
    "div": np.divide,
    "add": np.add,
    "sub": np.subtract,
}
"""Ops of a value with a factor or an addend."""
_FARTHEST = 10
"""Ops before and behind, of those that compute or choose, among which it may be applied instead."""
_CHOOSING = frozenset({"repeat_interleave", "index", "gather", "embedding"})


def elsewhere(region: Region) -> Iterator[Edit]:
    """Every number, parameter or value that an op applies, applied to the result of another op near it: there, too."""
    order = [site for site in region.sites if _computes(region, site)]
    for at, site in enumerate(order):
        node = region.node(region.sites[site][-1])
        if node is None or short(node.op) not in _APPLIED or len(node.operands) < 2:
            continue
        for slot in (0, 1):
            applied = _applied(region, node, slot)
            if applied:
                near = order[max(at - _FARTHEST, 0) : at + _FARTHEST + 1]
                yield from _moved(region, site, slot, f"{short(node.op)} by {applied}", near)
    yield from _on_the_other_addend(region)


def _on_the_other_addend(region: Region) -> Iterator[Edit]:
    """A sum of a product by a number or a parameter and of a value: that times it, and the product without it."""
    for site, places in region.sites.items():
        node = region.node(places[-1])
        for slot, operand in enumerate(node.operands[:2] if node is not None and short(node.op) == "add" else ()):
            product = region.node(operand.value) if isinstance(operand, Ref) else None
            addend = node.operands[1 - slot] if node is not None else None
            if product is None or short(product.op) != "mul" or not isinstance(addend, Ref):
                continue
            for factor in (0, 1):
                if _applied(region, product, factor):
                    says = "multiplies the other addend by the factor of one"
                    change = _by_the_factor(slot, factor)
                    yield Edit("edit.moved", says, RARE + 1, {site: change}, line_of(region, places[-1]))


def _by_the_factor(slot: int, factor: int) -> Change:
    def change(call: Call) -> Array:
        operand = call.node.operands[slot] if call.node is not None else None
        product = call.region.node(operand.value) if isinstance(operand, Ref) else None
        if product is None:
            raise ValueError("it was recorded")
        x, by = (
            np.asarray(resolved(product.operands[place], call.env, call.numbers.lifted))
            for place in (1 - factor, factor)
        )
        return np.asarray(x + call.operands[1 - slot] * by)

    return change


def _computes(region: Region, site: Site) -> bool:
    """Whether a site's op computes or chooses floats, and does not only move them."""
    value = region.sites[site][-1]
    node, base = region.node(value), region.base[value]
    kernel = None if node is None else kernel_of(node.op)
    if node is None or kernel is None or not isinstance(base, np.ndarray) or base.dtype.kind != "f":
        return False
    return kernel.kind in (Kind.POINT, Kind.SUM) or short(node.op) in _CHOOSING


def _applied(region: Region, node: Node, slot: int) -> str:
    """What an op applies at this place, in words; empty for what has more numbers than the value that it changes."""
    operand, main = node.operands[slot], node.operands[1 - slot]
    if not isinstance(main, Ref):
        return ""
    if not isinstance(operand, Ref):
        return number(operand) if isinstance(operand, float) else ""
    value, changed = region.base.get(operand.value), region.base.get(main.value)
    if not isinstance(value, np.ndarray) or not isinstance(changed, np.ndarray):
        return ""
    smaller = value.dtype.kind == "f" and value.size < changed.size
    return named(region, operand.value) if smaller else ""


def _moved(region: Region, site: Site, slot: int, applied: str, near: list[Site]) -> Iterator[Edit]:
    here, count = region.sites[site][-1], len(region.sites[site])
    for target in near:
        there = region.sites[target][-1]
        node = region.node(there)
        if target == site or len(region.sites[target]) != count:
            continue
        side = "before it" if there < here else "behind it"
        says = f"applies {applied} to the result of {short(node.op) if node else ''} {side}"
        line, both = line_of(region, here), {target: _with(site, slot)}
        yield Edit("edit.moved", says, RARE + 1.5, {site: _left_out(1 - slot), **both}, line)
        yield Edit("edit.twice", f"{says}, too", RARE + 1.5, both, line)


def _left_out(slot: int) -> Change:
    return lambda call: np.broadcast_to(call.operands[slot], np.shape(call.plain()))


def _with(site: Site, slot: int) -> Change:
    """The result of an op with what the op of another site applies, where that does not follow from it."""

    def change(call: Call) -> Array:
        places, here = call.region.at(site), call.region.at(call.site)
        node = call.region.node(places[here.index(call.value)])
        if node is None:
            raise ValueError("nothing is applied here")
        operand = node.operands[slot]
        if isinstance(operand, Ref):
            if operand.value in call.region.downstream([call.value]):
                raise ValueError("it follows from this result")
            operand = call.numbers.lifted(np.asarray(call.env.get(operand.value, call.before[operand.value])))
        return _APPLIED[short(node.op)](np.asarray(call.plain()), operand)

    return change
