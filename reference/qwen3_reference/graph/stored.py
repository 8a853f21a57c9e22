"""A graph as the message that a golden carries: tables of words, equal layers once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from qwen3_golden import ParityError, pb
from qwen3_reference.graph.layers import Layer, in_layers, layers
from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import DTYPES
from qwen3_spec.graph import Graph, Node, Operand, Ref

Word = TypeVar("Word", bound=Hashable)
_HALVES = frozenset({"float16", "bfloat16"})


class _Table(dict[Word, int]):
    """Words by number, in the order of their first use."""

    def __missing__(self, word: Word) -> int:
        self[word] = len(self)
        return self[word]


class _Words(NamedTuple):
    """The tables of a message."""

    ops: _Table[str]
    dtypes: _Table[str]
    modules: _Table[str]
    lines: _Table[tuple[str, int, str]]


def message_of(
    graph: Graph,
    architecture: str,
    config: str,
    pieces: Mapping[str, Sequence[str]] = {},
    parameters: Mapping[str, Any] = {},
) -> pb.Graph:
    """A graph as a message, its nodes in the order of `in_layers`; the same graph gives the same bytes.

    `config` is the model's config.json, `pieces` what `pieces_of` gives, `parameters` the model's tensors by name,
    whose dtypes and shapes are stored. Raises `ParityError` for what a message cannot say.
    """
    graph, segments = in_layers(graph)
    known = layers(node.module for node in graph.nodes)
    message = pb.Graph(architecture=architecture, config=config)
    for name in graph.inputs:
        message.input.add(name=name)
    for name in graph.parameters:
        message.parameter.add(name=name, piece=pieces.get(name, ()), **_kind(parameters.get(name)))
    for name, value in graph.constants.items():
        message.constant.add(name=name, **_data(name, value))
    words = _Words(_Table(), _Table(), _Table(), _Table())
    blocks, numbers = _Table[bytes](), {value: value for value in range(len(graph.leaves))}
    readers, first = _readers(graph, segments), len(graph.leaves)
    for number, (layer, places) in enumerate(segments):
        block, local = _block(graph, places, known if layer else {}, words)
        outputs = [value for value in _values_of(first, places) if readers.get(value, number) != number]
        block.output.extend(local[value] for value in outputs)
        call = message.call.add(block=blocks[block.SerializeToString(deterministic=True)], layer=layer)
        call.argument.extend(numbers[value] for value in islice(local, block.inputs))
        numbers |= {value: len(numbers) + place for place, value in enumerate(outputs)}
    message.block.extend(pb.GraphBlock.FromString(block) for block in blocks)
    message.op.extend(words.ops)
    message.dtype.extend(words.dtypes)
    message.module.extend(words.modules)
    message.line.extend(pb.SourceLine(file=file, number=line, function=name) for file, line, name in words.lines)
    message.tap.extend(pb.GraphTap(name=n, step=step, value=numbers[v]) for (n, step), v in graph.taps.items())
    return message


def _values_of(first: int, places: Sequence[int]) -> range:
    """The values that a stretch of nodes makes."""
    return range(first + places[0], first + places[-1] + 1)


def _block(
    graph: Graph, places: Sequence[int], layers: Mapping[str, Layer], words: _Words
) -> tuple[pb.GraphBlock, Mapping[int, int]]:
    """A stretch of nodes as a block without outputs, and the numbers in it of the graph's values, its inputs first."""
    first, inside, local = len(graph.leaves), _values_of(len(graph.leaves), places), dict[int, int]()
    for read in (read for place in places for read in graph.nodes[place].reads):
        if read not in inside:
            local.setdefault(read, len(local))
    block = pb.GraphBlock(inputs=len(local))
    for place in places:
        node = graph.nodes[place]
        if "{" in node.module:
            raise _refused(node.module, "a module is named with a brace")
        module = layers[node.module].pattern if layers else node.module
        entry = block.node.add(op=words.ops[node.op], dtype=words.dtypes[node.dtype], module=words.modules[module])
        entry.shape.extend(0 if size is None else size + 1 for size in node.shape)
        entry.line.extend(words.lines[line] for line in node.lines)
        _operands(entry, node, local)
        local[first + place] = len(local)
    return block, local


def _readers(graph: Graph, segments: Sequence[tuple[str, Sequence[int]]]) -> Mapping[int, int]:
    """Values that another call or a tap reads, with a number that is not their call's."""
    first, calls, readers = len(graph.leaves), dict[int, int](), dict[int, int]()
    for call, (_, places) in enumerate(segments):
        calls |= {first + place: call for place in places}
        for read in (read for place in places for read in graph.nodes[place].reads):
            if calls.get(read, call) != call:
                readers[read] = call
    return {**readers, **dict.fromkeys(graph.taps.values(), len(segments))}


def _operands(entry: pb.GraphNode, node: Node, local: Mapping[int, int]) -> None:
    try:
        entry.operand.extend(_operand(operand, local) for operand in node.operands)
        for name, operand in node.named.items():
            entry.named.add(name=name, operand=_operand(operand, local))
    except (TypeError, ValueError) as error:  # an integer of more than 64 bits among them
        raise _refused(node.module, f"{node.op} has an operand that the message cannot say", error) from None


def _operand(operand: Operand, local: Mapping[int, int]) -> pb.Operand:
    match operand:
        case Ref(value):
            return pb.Operand(value=local[value])
        case None:
            return pb.Operand(none=True)
        case bool():
            return pb.Operand(flag=operand)
        case int():
            return pb.Operand(integer=operand)
        case float():
            return pb.Operand(number=operand)
        case str():
            return pb.Operand(text=operand)
        case tuple():
            return pb.Operand(list=pb.Operands(item=[_operand(part, local) for part in operand]))
    raise TypeError(f"a {type(operand).__name__}")


def _kind(parameter: Any) -> dict[str, Any]:
    """dtype and shape of an array or a tensor of torch; nothing of None."""
    return {} if parameter is None else {"dtype": str(parameter.dtype).removeprefix("torch."), "shape": parameter.shape}


def _data(name: str, value: Array) -> dict[str, Any]:
    dtype = value.dtype.name
    if dtype not in DTYPES:
        raise _refused(name, "a constant has a dtype that the message does not have", dtype)
    value = value.astype(np.float32) if dtype in _HALVES else value
    data = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"), copy=False)).tobytes()
    return {"dtype": dtype, "shape": value.shape, "data": data}


def _refused(where: str, rule: str, got: object = "") -> ParityError:
    return ParityError(
        where or "the graph",
        rule,
        expected="numbers of 64 bits, flags, texts, values and lists of them, in modules with plain names",
        got=got or where,
        next_step="report the model: its graph cannot be stored yet",
        fault="harness bug",
    )
