"""An op left out, done twice, negated, rounded, moved along an axis, its parts in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Call, Change, Edit
from qwen3_parity.diagnosis.edits.grammar.constants import NEUTRAL
from qwen3_parity.diagnosis.edits.grammar.masks import masks
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.states_read import without_oldest
from qwen3_parity.diagnosis.edits.words import called, line_of, named, short
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import EIGHT_BITS, INTEGERS, bfloat16, float16
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.graph import Node, Ref

NARROW = (("bfloat16", bfloat16), ("float16", float16), *EIGHT_BITS)
"""Narrower types by name."""
_QUANTISED = frozenset({"linear", "addmm", "matmul", "bmm", "add", "mul", "cat", "transpose", "embedding"})
"""Ops whose results people keep in integers."""
_HIDDEN, _MASKED = 1e30, 1e4
ACTIVATING = frozenset({"silu", "gelu", "relu", "sigmoid", "tanh"})
"""Activations that one op computes."""
_WINDOW = 8
"""The most inputs that the state of a convolution has."""
_MOVING = ("getitem", "_to_copy", "view", "type_as", "slice", "expand")
"""Ops that compute nothing: to leave them out is no mistake, or another one."""


class Changed(NamedTuple):
    """An op's result changed: the edit's stable name, what it says, and what stands in the result's place."""

    name: str
    says: str
    change: Change
    rank: Rank = PLAIN + 1


def values(region: Region) -> Iterator[Edit]:
    """Every op's result changed by itself."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        base = region.base[places[0]]
        if node is None or not isinstance(base, np.ndarray):
            continue
        line = line_of(region, places[0])
        for name, says, change, rank in _changed(region, node, base):
            yield Edit(name, says, rank, {site: change}, line)


def _changed(region: Region, node: Node, base: Array) -> Iterator[Changed]:
    op, kernel = short(node.op), kernel_of(node.op)
    for slot, words in _left_out(region, node, base):
        yield Changed("edit.left_out", words, _hands_on(slot))
    if base.dtype.kind == "f" and kernel is not None and kernel.kind in (Kind.POINT, Kind.SUM, Kind.CHOICE):
        yield Changed("edit.negated", f"negates the result of {op}", _negated)
        for name, narrow in NARROW:
            yield Changed("edit.rounded", f"rounds the result of {op} to {name}", _rounded(narrow))
            yield Changed("edit.rounded", f"computes {op} in {name}", _in_narrow(narrow))
    for name, narrow in INTEGERS if op in _QUANTISED and base.dtype.kind == "f" and base.ndim > 1 else ():
        yield Changed("edit.rounded", f"rounds the result of {op} to {name}", _rounded(narrow), RARE)
    if op in _BY_OP:
        yield from _BY_OP[op](region, node, base)
    operands = [region.base[x.value] if isinstance(x, Ref) else x for x in node.operands]
    for says, mask in masks(op, base, operands):
        yield Changed("edit.mask", says, mask)


def _of_add(region: Region, node: Node, _base: Array) -> Iterator[Changed]:
    yield Changed("edit.twice", "adds the second part twice", _added_twice(1))
    yield Changed("edit.twice", "adds the first part twice", _added_twice(0))
    for slot, operand in enumerate(node.operands[:2]):
        mask = region.base.get(operand.value) if isinstance(operand, Ref) else None
        if isinstance(mask, np.ndarray) and mask.size and mask.min() < -_MASKED and mask.max() <= 0:
            says = "sets what is to be hidden to 0 or 1e-9, not to a large negative number"
            yield Changed("edit.mask", says, _set_to_0(slot))
    for slot, factor in _factors(region, node) if len(node.operands) == 2 else ():
        says = f"multiplies the other part of add by {factor:.7g}"
        yield Changed("edit.moved", says, _factor_moved(slot, factor, both=False), COMBINED)
        says = f"multiplies the whole sum by {factor:.7g}"
        yield Changed("edit.moved", says, _factor_moved(slot, factor, both=True), COMBINED)


def _of_mul(region: Region, node: Node, _base: Array) -> Iterator[Changed]:
    if any(_is_weight(region, x) for x in node.operands):
        yield Changed("edit.parameter", "adds 1 to the weight", _weight_and(1), PLAIN)
        yield Changed("edit.parameter", "takes 1 off the weight", _weight_and(-1), PLAIN)
    refs = [(slot, operand.value) for slot, operand in enumerate(node.operands) if isinstance(operand, Ref)]
    for slot, value in refs if len(refs) == 2 else ():
        yield Changed("edit.twice", f"multiplies by {named(region, value)} twice", _again(slot))
        maker = region.node(value)
        if maker is not None and short(maker.op) in ACTIVATING:
            says = f"runs {short(maker.op)} on the product, not on {named(region, maker.reads[0])}"
            yield Changed("edit.moved", says, _behind(slot), RARE)
        factor = named(region, refs[1 - slot][1])
        for place, part in _parts(maker):
            says = f"multiplies {named(region, part)} alone by {factor}, not all of {named(region, value)}"
            yield Changed("edit.moved", says, _on_part(slot, place), COMBINED)


def _of_div(region: Region, node: Node, _base: Array) -> Iterator[Changed]:
    if len(node.operands) > 1 and isinstance(node.operands[1], Ref):
        says = f"divides by {named(region, node.operands[1].value)} twice"
        yield Changed("edit.twice", says, lambda call: call.plain() / call.operands[1])


def _set_to_0(slot: int) -> Change:
    return lambda call: np.where(call.operands[slot] > -_MASKED, call.operands[1 - slot], 0.0)


def _behind(slot: int) -> Change:
    """An activation on a product with what it reads."""

    def change(call: Call) -> Array:
        operand = call.node.operands[slot] if call.node is not None else None
        maker = call.region.node(operand.value) if isinstance(operand, Ref) else None
        kernel = None if maker is None else kernel_of(maker.op)
        if maker is None or kernel is None:
            raise ValueError("nothing is activated here")
        product = np.asarray(call.env[maker.reads[0]]) * call.operands[1 - slot]
        return np.asarray(kernel.compute(*([call.numbers] if kernel.takes_numbers else []), product))

    return change


def _parts(maker: Node | None) -> Iterator[tuple[int, int]]:
    """The values of a sum or difference, by their place in it."""
    if maker is not None and short(maker.op) in ("add", "sub") and len(maker.operands) == 2 and not maker.named:
        yield from ((place, part.value) for place, part in enumerate(maker.operands) if isinstance(part, Ref))


def _on_part(slot: int, place: int) -> Change:
    """A factor on a part of the sum that is multiplied."""

    def change(call: Call) -> Array:
        operand = call.node.operands[slot] if call.node is not None else None
        maker = call.region.node(operand.value) if isinstance(operand, Ref) else None
        part = np.asarray(call.env[dict(_parts(maker))[place]])
        sign = -1 if place and maker is not None and short(maker.op) == "sub" else 1
        return np.asarray(call.operands[slot] - sign * part + sign * part * call.operands[1 - slot])

    return change


def _again(slot: int) -> Change:
    return lambda call: call.plain() * call.operands[slot]


def _of_joined(region: Region, node: Node, _base: Array) -> Iterator[Changed]:
    makers = [region.node(part.value) for part in node.operands[0] if isinstance(part, Ref)]
    if len(makers) == 2 and [maker is not None and short(maker.op) == "neg" for maker in makers].count(True) == 1:
        says = f"has the minus at the other half of {short(node.op)}: its result is negated"
        yield Changed("edit.negated", says, _negated, PLAIN)


def _of_cat(region: Region, node: Node, base: Array) -> Iterator[Changed]:
    yield from _of_joined(region, node, base)
    for part in range(min(len(node.operands[0]), 4)):
        yield Changed("edit.left_out", f"hides part {part} of cat", _hidden(part))
    if base.ndim == 3 and _axis(node, base) == 2 and isinstance(node.operands[0][0], Ref):
        held = np.shape(region.base[node.operands[0][0].value])[2]
        for fewer in range(1, held - 1) if held <= _WINDOW else ():
            says = f"has {fewer} of the earlier inputs of a convolution fewer: zeros for the oldest"
            yield Changed("edit.state", says, without_oldest(fewer), RARE)
    if base.ndim > 2 and _axis(node, base) == base.ndim - 2:
        yield Changed("edit.cache", "has the slot before in the newest slot", _late)
        yield Changed("edit.cache", "has every slot one place on", _slots_moved(1))
        yield Changed("edit.cache", "has every slot one place back", _slots_moved(-1))


def _of_slice(region: Region, node: Node, base: Array) -> Iterator[Changed]:
    source = node.operands[0]
    if base.dtype.kind == "i" and base.ndim == 2 and isinstance(source, Ref):
        name, again = named(region, source.value), "begin at 0 again in every step"
        yield Changed("edit.input", f"lets {name} {again}", lambda call: call.plain() - call.plain()[:, :1])
        yield Changed("edit.input", f"has slots for {name}, which {again}", _slots_from_0, RARE)
        for more in (1, -1):
            yield Changed("edit.input", f"has {name} {more:+d} in every step but the first", _later(more), RARE)
        says = f"counts padding in {name}: has the slot for it in every step but the first"
        yield Changed("edit.input", says, _slot_later, RARE)


def _slots_from_0(call: Call) -> Array:
    values = np.asarray(call.plain())
    return np.broadcast_to(np.arange(values.shape[1]), values.shape)


def _later(more: int) -> Change:
    """Steps begin behind the first token; a slice of another axis has no step."""

    def change(call: Call) -> Array:
        _, axis, begin, *_ = *call.operands, 0, 0
        return np.asarray(call.plain() + (more if axis == 1 and begin else 0))

    return change


def _slot_later(call: Call) -> Array:
    """The slots of all steps but the first, which begins at 0."""
    _, axis, begin, *_ = *call.operands, 0, 0
    values = np.asarray(call.plain())
    if axis != 1 or not begin:
        return values
    return np.broadcast_to(begin + np.arange(values.shape[1]), values.shape)


def _of_neg(_region: Region, _node: Node, _base: Array) -> Iterator[Changed]:
    yield Changed("edit.left_out", "leaves the minus out", _hands_on(0))


def _without_bias(slot: int) -> Callable[[Region, Node, Array], Iterator[Changed]]:
    def of_product(_region: Region, node: Node, _base: Array) -> Iterator[Changed]:
        if len(node.operands) > 2 and node.operands[2] is not None:
            yield Changed("edit.left_out", "leaves the bias out", _zero(slot))

    return of_product


_BY_OP: Mapping[str, Callable[[Region, Node, Array], Iterator[Changed]]] = {
    "add": _of_add,
    "mul": _of_mul,
    "div": _of_div,
    "cat": _of_cat,
    "stack": _of_joined,
    "slice": _of_slice,
    "neg": _of_neg,
    "linear": _without_bias(2),
    "addmm": _without_bias(0),
}
"""What is done to the result of an op beside what is done to any."""


def _left_out(region: Region, node: Node, base: Array) -> Iterator[tuple[int, str]]:
    """The operands that may stand for the result, with what is then left out."""
    op, kernel = short(node.op), kernel_of(node.op)
    if kernel is None or kernel.kind in (Kind.MADE, Kind.SIZE) or node.op.startswith(_MOVING):
        return
    if op in NEUTRAL and not all(isinstance(operand, Ref) for operand in node.operands):
        return  # another number says so
    refs = [(slot, operand.value) for slot, operand in enumerate(node.operands) if isinstance(operand, Ref)]
    for slot, value in refs:
        if _stands_for(region.base.get(value), base):
            function = node.lines[-1].function if node.lines else ""
            others = [called(region, operand, function) for place, operand in refs if place != slot]
            beside = f"{_BESIDE[op]}{others[0]}" if op in _BESIDE and others and others[0] != op else ""
            yield slot, f"leaves out {'one side of &' if op in _ANDS and not beside else op + beside}"


_ANDS = frozenset({"and", "bitwise_and", "logical_and"})
_BESIDE = {"mul": " by ", "div": " by ", "add": " of ", "sub": " of ", "and": " of "}


def _stands_for(operand: Any, base: Array) -> bool:
    if not isinstance(operand, np.ndarray) or operand.dtype.kind != base.dtype.kind:
        return False
    spreads = base.dtype.kind == "b" or (operand.ndim == base.ndim and operand.shape[-1:] == base.shape[-1:])
    return operand.shape == base.shape or (spreads and _spreads(operand, base))


def _spreads(value: Array, base: Array) -> bool:
    try:
        return np.broadcast_shapes(value.shape, base.shape) == base.shape
    except ValueError:
        return False


def _hands_on(slot: int) -> Change:
    return lambda call: np.broadcast_to(call.operands[slot], np.shape(call.plain()))


def _negated(call: Call) -> Array:
    return np.asarray(-call.plain())


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


def _is_weight(region: Around, operand: Any) -> bool:
    """Whether an operand is a parameter, in whatever type."""
    value = operand.value if isinstance(operand, Ref) else -1
    node = region.network.graph.node(value) if value >= 0 else None
    while node is not None and short(node.op) in ("to_copy", "type_as"):
        value = node.reads[0]
        node = region.network.graph.node(value)
    return value in region.parameters


def _weight_and(more: int) -> Change:
    def change(call: Call) -> Array:
        assert call.node is not None
        weights = [_is_weight(call.region, x) for x in call.node.operands]
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
        scaled, opposite = call.operands[slot] / factor, call.operands[1 - slot] * factor
        return np.asarray(opposite + (scaled * factor if both else scaled))

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
