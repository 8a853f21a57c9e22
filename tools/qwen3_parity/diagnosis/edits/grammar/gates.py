"""A gate and the norm beside it in the other order: Mamba 2 multiplies first, Qwen3-Next takes the norm first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Block, Call, Edit, Site
from qwen3_parity.diagnosis.edits.grammar.values import ACTIVATING
from qwen3_parity.diagnosis.edits.region import SMALL, Region
from qwen3_parity.diagnosis.edits.words import line_of, named, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.graph import Ref

_SHAPED = frozenset({"to_copy", "type_as", "view", "unsafe_view"})
"""Ops that hand the same numbers on, in another type or shape."""


def gates(region: Region) -> Iterator[Edit]:
    """Every norm by RMS whose result, or what it reads, is a product."""
    edits = dict[Site, Edit]()
    for value in region.order:
        block = _norm(region, value)
        if block is None:
            continue
        for user in region.users.get(block.end, ()):
            if (gate := _factor(region, user, block.end)) is not None and gate not in region.downstream([block.begin]):
                says = f"multiplies by {named(region, gate)} before the norm, not behind it"
                site = _site(region, user)
                edits[site] = Edit("edit.moved", says, RARE, {site: _gated_first}, line_of(region, user))
        if _product(region, block.begin) is not None and (unweighted := _without_weight(region, block)) is not None:
            site = _site(region, unweighted.end)
            says = "runs the norm before it multiplies by the gate, not behind that"
            edits[site] = Edit("edit.moved", says, RARE, {site: _normed_first}, line_of(region, unweighted.end))
    yield from edits.values()


def _site(region: Region, value: int) -> Site:
    return next(site for site, values in region.sites.items() if value in values)


def _norm(region: Around, value: int) -> Block | None:
    """The ops from a square to the last that reads nothing but what the norm reads, and weights."""
    node = region.node(value)
    if node is None or short(node.op) != "pow" or not isinstance(node.operands[0], Ref):
        return None
    begin, values = node.operands[0].value, [value]
    fixed = {begin, value, *region.parameters}
    for later in region.order[region.order.index(value) + 1 :][: 2 * SMALL]:
        read = region.node(later)
        if read is None or not fixed.issuperset(read.reads):
            continue
        fixed.add(later)
        if not region.parameters.issuperset(read.reads):
            values.append(later)
    return Block(begin, values[-1], tuple(values)) if len(values) > 2 else None


def _without_weight(region: Around, block: Block) -> Block | None:
    """A norm up to the product with what it reads: what stands behind that is not alike in every step."""
    for number, value in enumerate(block.values, 1):
        node = region.node(value)
        if node is not None and short(node.op) == "mul" and block.begin in node.reads:
            return Block(block.begin, value, block.values[:number])
    return None


def _factor(region: Around, value: int, of: int) -> int | None:
    """What a product multiplies a value by; None for weights and numbers, and for what is no product of that."""
    node = region.node(value)
    reads = () if node is None or short(node.op) != "mul" else node.reads
    factors = [read for read in reads if read != of and read not in region.parameters]
    return factors[0] if len(reads) == 2 and of in reads and factors else None


def _product(region: Around, value: int) -> tuple[int, int] | None:
    """A value and the activation that it is multiplied by, where their product has a value's numbers."""
    node = region.node(value)
    while node is not None and short(node.op) in _SHAPED:
        node = region.node(node.reads[0])
    if node is None or short(node.op) != "mul" or len(node.reads) != 2:
        return None
    for value, gate in (node.reads, node.reads[::-1]):
        maker = region.node(gate)
        while maker is not None and short(maker.op) in _SHAPED:
            maker = region.node(maker.reads[0])
        if maker is not None and short(maker.op) in ACTIVATING:
            return value, gate
    return None


def _of(call: Call, end: int) -> Block | None:
    """The norm that ends with a value, weighted or not."""
    for value in call.region.order:
        block = _norm(call.region, value) if value < end else None
        if block is not None and end in block.values:
            return block if block.end == end else _without_weight(call.region, block)
    return None


def _gated_first(call: Call) -> Array:
    ends = [read for read in call.node.reads if call.region.node(read) is not None] if call.node is not None else []
    for end in ends:
        block, gate = _of(call, end), _factor(call.region, call.value, end)
        if block is not None and gate is not None:
            product = np.asarray(call.env[block.begin]) * np.asarray(call.env[gate])
            return call.region.of_block(block, {**call.env, block.begin: product}, call.numbers)
    raise ValueError("no norm is multiplied")


def _normed_first(call: Call) -> Array:
    block = _of(call, call.value)
    product = None if block is None else _product(call.region, block.begin)
    if block is None or product is None:
        raise ValueError("the norm reads no product")
    before, gate = (np.asarray(call.env[value]) for value in product)
    before = before.reshape(np.shape(call.env[block.begin]))
    normed = call.region.of_block(block, {**call.env, block.begin: before}, call.numbers)
    return np.asarray(normed * gate.reshape(normed.shape))
