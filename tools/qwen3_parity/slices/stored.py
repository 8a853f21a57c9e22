"""The graph of a golden, from its message: of a file from anywhere, so that nothing is used before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.slices.blocks import MOST_DIMENSIONS, Block, blocks_of
from qwen3_parity.slices.plain import Refuse, check_names, check_once, is_plain, refusal_of, refused, shown
from qwen3_spec.aten import kernel_of
from qwen3_spec.aten.numbers import DTYPES
from qwen3_spec.graph import Graph, Node, Operand, Ref

MOST_NODES = 1_000_000
_MOST_ITEMS = 16 * MOST_NODES  # operands, outputs and lines of all nodes, each counted where it is used
_LAYER = "{layer}"
_LONGEST_LAYER = 8
_HALVES = {"float16": "float32", "bfloat16": "float32"}


def graph_of(message: pb.Graph, where: object) -> Graph:
    """The graph that a message holds, its nodes in the order of its calls; `where` is the file, for what is refused.

    Raises `ParityError` for a graph that cannot be: an op that nothing here computes, a value that is read before it is
    made, a number out of range, a name that leads out or stands twice, a constant whose data do not fit, more than
    `MOST_NODES` nodes, a value that is too large.
    """
    refuse = refusal_of(where)
    _check_ops(message, where)
    _check_words(message, refuse)
    names = [leaf.name for leaf in (*message.input, *message.parameter, *message.constant)]
    check_names(names, "an input, parameter or constant", refuse)
    check_once(names, "an input, parameter or constant", refuse)
    check_names([piece for leaf in message.parameter for piece in leaf.piece], "a piece of a parameter", refuse)
    constants = {leaf.name: _constant(leaf, refuse) for leaf in message.constant}
    blocks = blocks_of(message, refuse)
    _check_size(message, blocks, refuse)
    nodes, values = list[Node](), list(range(len(names)))
    for place, call in enumerate(message.call):
        _call(call, f"call {place}", blocks[call.block], nodes, values, len(names), refuse)
    return Graph(
        tuple(leaf.name for leaf in message.input),
        tuple(leaf.name for leaf in message.parameter),
        constants,
        tuple(nodes),
        _taps(message, values, refuse),
    )


def _check_ops(message: pb.Graph, where: object) -> None:
    unknown = sorted({op for op in message.op if kernel_of(op) is None})
    if unknown:
        next_step = "use the release of qwen3-parity that wrote the golden, or a newer one"
        raise refused(where, "it has ops that nothing here computes", "ops of the table", ", ".join(unknown), next_step)


def _check_words(message: pb.Graph, refuse: Refuse) -> None:
    for dtype in message.dtype:
        if dtype and dtype not in DTYPES:
            raise refuse("it has a dtype that no value can have", ", ".join(sorted(DTYPES)), dtype)
    for module in message.module:
        if module and not (is_plain(module) and module.count(_LAYER) <= 1):
            raise refuse("a module's path is not plain", "names with dots between them", module)
    for line in message.line:
        if not (is_plain(line.file) and is_plain(line.function) and line.number):
            got = f"{line.file}:{line.number}, {line.function}"
            raise refuse("a line of source is not plain", "a file's name, a number from 1, a function", got)
    for call in message.call:
        digits = call.layer.isascii() and call.layer.isdecimal() and len(call.layer) <= _LONGEST_LAYER
        if call.layer and not digits:
            raise refuse("a call's layer is no number", "digits, or nothing", call.layer)
        if call.block >= len(message.block):
            raise refuse("a call is of a block that is not there", f"numbers below {len(message.block)}", call.block)


def _check_size(message: pb.Graph, blocks: Sequence[Block], refuse: Refuse) -> None:
    """Refuse a graph that its calls blow up, before anything is made of them."""
    count = sum(len(blocks[call.block].nodes) for call in message.call)
    items = sum(blocks[call.block].items for call in message.call)
    if count > MOST_NODES or items > _MOST_ITEMS:
        got = f"{count} nodes, {items} operands"
        raise refuse("it is too large", f"at most {MOST_NODES} nodes and {_MOST_ITEMS} operands", got)


def _constant(leaf: pb.GraphLeaf, refuse: Refuse) -> Array:
    """A constant's numbers, read-only."""
    name = _HALVES.get(leaf.dtype, leaf.dtype)
    if name not in DTYPES or len(leaf.shape) > MOST_DIMENSIONS:
        got = f"{leaf.dtype} of {len(leaf.shape)} dimensions"
        raise refuse(f"{leaf.name} has no dtype or shape that can be", f"at most {MOST_DIMENSIONS} dimensions", got)
    dtype = np.dtype(name).newbyteorder("<")
    if (needed := prod(leaf.shape) * dtype.itemsize) != len(leaf.data):
        expected = f"{needed} bytes for {shown(list(leaf.shape))} {leaf.dtype}"
        raise refuse(f"the data of {leaf.name} do not fit its shape", expected, f"{len(leaf.data)} bytes")
    if name == "bool" and set(leaf.data) - {0, 1}:
        raise refuse(f"{leaf.name} has a bool that is neither 0 nor 1", "bytes 0 and 1", "another byte")
    try:
        return np.frombuffer(leaf.data, dtype).reshape(tuple(leaf.shape))
    except (ValueError, OverflowError) as error:  # no elements, but other sizes beyond any memory
        raise refuse(f"the shape of {leaf.name} is impossible", "a shape", error) from None


def _call(
    call: pb.GraphCall, where: str, block: Block, nodes: list[Node], values: list[int], leaves: int, refuse: Refuse
) -> None:
    """Append a call's nodes to `nodes`, and what it gives out to `values`: numbers of the graph by the message's."""
    if len(call.argument) != block.inputs:
        raise refuse(f"{where} has another number of arguments than its block", block.inputs, len(call.argument))
    if (late := max(call.argument, default=-1)) >= len(values):
        raise refuse(f"{where} reads a value that is not made before it", f"numbers below {len(values)}", late)
    inside = [values[value] for value in call.argument]
    inside.extend(range(leaves + len(nodes), leaves + len(nodes) + len(block.nodes)))
    modules = dict[str, str]()
    for node in block.nodes:
        if node.module not in modules:
            modules[node.module] = node.module.replace(_LAYER, call.layer)
        operands = tuple(_outside(operand, inside) for operand in node.operands)
        named = {name: _outside(operand, inside) for name, operand in node.named.items()}
        nodes.append(Node(node.op, operands, named, node.dtype, node.shape, modules[node.module], node.lines))
    values.extend(inside[value] for value in block.outputs)


def _outside(operand: Operand, inside: Sequence[int]) -> Operand:
    if isinstance(operand, Ref):
        return Ref(inside[operand.value])
    return tuple(_outside(part, inside) for part in operand) if isinstance(operand, tuple) else operand


def _taps(message: pb.Graph, values: Sequence[int], refuse: Refuse) -> dict[tuple[str, int], int]:
    check_names(list(dict.fromkeys(tap.name for tap in message.tap)), "a tap", refuse)
    check_once([f"{tap.name}, step {tap.step}" for tap in message.tap], "a tap", refuse)
    for tap in message.tap:
        if tap.value >= len(values):
            raise refuse(f"the tap {shown(tap.name)} is no value of it", f"numbers below {len(values)}", tap.value)
    return {(tap.name, tap.step): values[tap.value] for tap in message.tap}
