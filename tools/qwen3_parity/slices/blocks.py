"""A block of a graph's message as nodes, with every number in it looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from qwen3_golden import pb
from qwen3_parity.slices.plain import Refuse, shown
from qwen3_spec.graph import LIMIT, Line, Node, Operand, Ref

MOST_DIMENSIONS = 32
_BYTES = 8  # of an element, as it is computed


class Block(NamedTuple):
    """A block: nodes whose operands count its inputs, then its results; `items` is how much a call of it makes."""

    inputs: int
    nodes: Sequence[Node]
    outputs: Sequence[int]
    items: int


def blocks_of(message: pb.Graph, refuse: Refuse) -> list[Block]:
    """Every block; raises `ParityError` for numbers out of range, and for a value that is too large."""
    lines = [Line(line.file, line.number, line.function) for line in message.line]
    return [_block(message, lines, block, f"block {place}", refuse) for place, block in enumerate(message.block)]


def _block(message: pb.Graph, lines: Sequence[Line], block: pb.GraphBlock, where: str, refuse: Refuse) -> Block:
    nodes, items = list[Node](), len(block.output)
    for place, entry in enumerate(block.node):
        node = _node(message, lines, entry, f"node {place} of {where}", refuse)
        before = block.inputs + place
        if (late := max(node.reads, default=-1)) >= before:
            rule = f"node {place} of {where} reads a value that is not made before it"
            raise refuse(f"{rule} ({node.op} in {shown(node.module)})", f"numbers below {before}", late)
        items += _items(node.operands) + _items(node.named.values()) + len(node.lines)
        nodes.append(node)
    numbers = range(block.inputs, block.inputs + len(nodes))
    if len(set(block.output)) != len(block.output) or any(value not in numbers for value in block.output):
        expected = f"different numbers from {numbers.start} to {numbers.stop - 1}"
        raise refuse(f"{where} gives out what it does not make", expected, block.output[:8])
    return Block(block.inputs, nodes, list(block.output), items)


def _node(message: pb.Graph, lines: Sequence[Line], entry: pb.GraphNode, where: str, refuse: Refuse) -> Node:
    for field, number, count in (
        ("op", entry.op, len(message.op)),
        ("dtype", entry.dtype, len(message.dtype)),
        ("module", entry.module, len(message.module)),
        ("line", max(entry.line, default=-1), len(lines)),
    ):
        if number >= count:
            raise refuse(f"{where} has a {field} that is not there", f"numbers below {count}", number)
    where = f"{where}, {message.op[entry.op]} in {shown(message.module[entry.module])},"
    named = {item.name: _operand(item.operand, where, refuse) for item in entry.named}
    if len(named) != len(entry.named) or not all(name.isidentifier() for name in named):
        raise refuse(f"{where} has operands of wrong names", "each name once", [item.name for item in entry.named[:8]])
    return Node(
        message.op[entry.op],
        tuple(_operand(operand, where, refuse) for operand in entry.operand),
        named,
        message.dtype[entry.dtype],
        _shape(entry.shape, where, refuse),
        message.module[entry.module],
        tuple(lines[line] for line in entry.line),
    )


def _items(operands: Iterable[Operand]) -> int:
    return sum(1 + _items(operand) if isinstance(operand, tuple) else 1 for operand in operands)


def _shape(sizes: Sequence[int], where: str, refuse: Refuse) -> tuple[int | None, ...]:
    shape = tuple(size - 1 if size else None for size in sizes)
    if len(shape) > MOST_DIMENSIONS:
        raise refuse(f"{where} has too many dimensions", f"at most {MOST_DIMENSIONS}", len(shape))
    if (count := prod(size for size in shape if size is not None)) * _BYTES > LIMIT:
        raise refuse(f"{where} makes too much", f"at most {LIMIT // _BYTES} elements", count)
    return shape


def _operand(operand: pb.Operand, where: str, refuse: Refuse) -> Operand:
    match operand.WhichOneof("kind"):
        case "value":
            return Ref(operand.value)
        case "none":
            return None
        case "list":
            return tuple(_operand(item, where, refuse) for item in operand.list.item)
        case "integer" | "number" | "flag" | "text" as kind:
            return getattr(operand, kind)
    raise refuse(f"{where} has an operand of no kind", "a value, number, flag, text, list or none", "unset")
