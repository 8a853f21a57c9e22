"""A network as the reference itself describes it: the ops that torch exported, in order, with where each comes from.

Values are numbered: the leaves first (inputs, parameters, constants), then one for each node. Any slice between known
values runs by itself, in float64 or in plain float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten import TRUTH, Kind, Numbers, elements, kernel_of
from qwen3_spec.aten.choices import taken
from qwen3_spec.aten.gathered import Gathered, gathered, product

LIMIT = 1 << 31
"""The most bytes that an op may make, in float64."""
TOTAL = 1 << 34
"""The most bytes that a run of a graph may keep."""
_BYTES = 8  # of a float64, an int64
_CASTS = frozenset({"_to_copy", "type_as"})
_LARGEST_SIZE = 1 << 63
_KINDS = frozenset("biufc")
_PRODUCTS = frozenset({"linear", "matmul", "bmm", "mm"})


class Ref(NamedTuple):
    """An operand that is a value of the graph, by its number."""

    value: int


Operand = Any
"""A `Ref`, a number, a bool, a text or dtype's name, None, or a tuple of these."""


class Line(NamedTuple):
    """A line of the reference's source: the file's name, the line's number, the function it stands in."""

    file: str
    number: int
    function: str


class Dispatch(NamedTuple):
    """How a node is computed: its kernel, and what its op's name says, looked up once.

    `stays`: operands are taken in the types that they have; `rows_stay`: gathered rows stay in their table.
    """

    kind: Kind
    compute: Callable[..., Any]
    takes_numbers: bool
    stays: bool
    rows_stay: bool
    may_gather: bool
    casts: bool
    rounds: bool


@dataclass(frozen=True)
class Node:
    """One op: its operands in order and by name, the dtype and shape of its result, and where it comes from.

    `dtype` is "" where the result is a size or several values; a size of `shape` is None where inputs decide it.
    `lines` go from the module's forward to the function that runs the op.
    """

    op: str
    operands: tuple[Operand, ...]
    named: Mapping[str, Operand]
    dtype: str
    shape: tuple[int | None, ...]
    module: str
    lines: tuple[Line, ...]

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the values that it reads."""
        return tuple(_refs((*self.operands, *self.named.values())))

    @cached_property
    def dispatch(self) -> Dispatch | None:
        """What computes it, None for an op that nothing here computes."""
        kernel, name = kernel_of(self.op), self.op.partition(".")[0]
        if kernel is None:
            return None
        # What only moves numbers need not wait for all of a table to become wide; products see to that themselves.
        stays = kernel.kind is Kind.MOVE or name in _PRODUCTS
        rounds = kernel.kind in (Kind.POINT, Kind.SUM)
        return Dispatch(*kernel, stays, name == "bmm", self.op.startswith("index."), name in _CASTS, rounds)


def _refs(operands: Iterable[Operand]) -> Iterator[int]:
    for operand in operands:
        if isinstance(operand, Ref):
            yield operand.value
        elif isinstance(operand, tuple):
            yield from _refs(operand)


@dataclass(frozen=True)
class Graph:
    """A network's ops. `taps` has values by name and step; `constants` are leaves with the numbers that they hold."""

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    taps: Mapping[tuple[str, int], int]

    @cached_property
    def leaves(self) -> Mapping[str, int]:
        """The numbers of inputs, parameters and constants, by name."""
        return {name: number for number, name in enumerate((*self.inputs, *self.parameters, *self.constants))}

    @cached_property
    def states(self) -> frozenset[int]:
        """What a step hands on to the next one: the taps that are a cache's."""
        return frozenset(value for (name, _), value in self.taps.items() if name.startswith("cache."))

    def node(self, value: int) -> Node | None:
        """The op that makes a value, None for a leaf."""
        place = value - len(self.leaves)
        return self.nodes[place] if place >= 0 else None

    def check(self) -> None:
        """Raise `ValueError` for an op that nothing here computes, and for a value that is read before it is made."""
        unknown = sorted({node.op for node in self.nodes if kernel_of(node.op) is None})
        if unknown:
            raise ValueError(f"ops that nothing here computes: {', '.join(unknown)}")
        first = len(self.leaves)
        for value, node in enumerate(self.nodes, first):
            if any(not 0 <= read < value for read in node.reads):
                raise ValueError(f"node {value - first}, {node.op}, reads a value that is not made before it")
        if any(not 0 <= value < first + len(self.nodes) for value in self.taps.values()):
            raise ValueError("a tap is no value of the graph")

    def slice(self, targets: Iterable[int], known: Collection[int] = ()) -> list[int]:
        """The values that must be computed for these, in order, where others are known."""
        needed, open_ = set[int](), [value for value in targets if value not in known]
        while open_:
            value = open_.pop()
            node = self.node(value)
            if node is None or value in needed:
                continue
            needed.add(value)
            open_ += [read for read in node.reads if read not in known]
        return sorted(needed)

    def leaf_values(self, arrays: Mapping[str, Array]) -> dict[int, Array]:
        """Leaves by number, from inputs and parameters by name, with the graph's constants.

        Raises `KeyError` for an input or parameter that is not there.
        """
        every = {**self.constants, **{name: arrays[name] for name in (*self.inputs, *self.parameters)}}
        return {self.leaves[name]: np.asarray(value) for name, value in every.items()}

    def run(
        self,
        values: MutableMapping[int, Any],
        order: Sequence[int] | None = None,
        numbers: Numbers = TRUTH,
        choices: Mapping[int, Array] = MappingProxyType({}),
    ) -> MutableMapping[int, Any]:
        """Compute values in order, every one where no order is given, into `values`, which has what is known.

        `choices` are indices by the number of the op that chooses them: it takes these. Raises what `computed` raises.
        """
        first, counted, total = len(self.leaves), set[int](), 0
        for value in range(first, first + len(self.nodes)) if order is None else order:
            node = self.nodes[value - first]
            values[value] = result = computed(node, values, numbers.at(value), choices.get(value))
            for part in result if isinstance(result, list | tuple) else (result,):
                owner = _owner(part)
                total += owner.nbytes if owner is not None and id(owner) not in counted else 0
                counted.add(id(owner))
            if total > TOTAL:
                raise ValueError(f"{described(node)}: the run keeps more than {TOTAL} bytes")
        return values


def _owner(value: Any) -> Array | None:
    """The array that has a value's bytes: views of one array keep them once."""
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return value if isinstance(value, np.ndarray) else None


def computed(node: Node, values: Mapping[int, Any], numbers: Numbers, choice: Array | None = None) -> Any:
    """What a node gives on the values that it reads; with the indices of a `choice`, these and what stands there.

    Raises `ValueError`, with op, module and line, for operands that the op does not take, for a result of another kind
    or shape than the node says, and, before it is made, for one of more than `LIMIT` bytes.
    """
    call = node.dispatch
    if call is None:
        raise ValueError(f"an op that nothing here computes: {node.op}")
    try:
        return _checked(node, call, values, numbers, choice)
    except Exception as error:  # NumPy's words for operands that an op does not take are of many types
        raise ValueError(f"{described(node)}: {error or type(error).__name__}") from error


def _checked(node: Node, call: Dispatch, values: Mapping[int, Any], numbers: Numbers, choice: Array | None) -> Any:
    lift = np.asarray if call.stays else numbers.lifted
    operands = [resolved(operand, values, lift, rows_stay=call.rows_stay) for operand in node.operands]
    named = {name: resolved(operand, values, lift) for name, operand in node.named.items()} if node.named else {}
    if call.may_gather and (rows := gathered(node.op, operands)) is not None:
        _check_shape(node, rows.shape)
        return rows
    most = elements(node.op, operands, named)
    if most * _BYTES > LIMIT:
        raise ValueError(f"it makes up to {most} elements, and {LIMIT // _BYTES} are the most")
    with np.errstate(all="ignore"):
        return _result(node, call, operands, named, numbers, choice)


def _result(
    node: Node, call: Dispatch, operands: list[Any], named: dict[str, Any], numbers: Numbers, choice: Array | None
) -> Any:
    if choice is not None:
        return taken(operands[0], choice, operands[2] if len(operands) > 2 else named.get("dim", -1))
    if call.rows_stay and any(isinstance(operand, Gathered) for operand in operands):
        result = product(numbers, *operands)
    elif call.takes_numbers:
        result = call.compute(numbers, *operands, **named)
    else:
        result = call.compute(*operands, **named)
    return settled(node, call, result, numbers)


def result_of(node: Node, kind: Kind, result: Any, numbers: Numbers) -> Any:
    """A node's result as it goes on; `ValueError` for one of another kind or shape than the node says."""
    assert node.dispatch is not None
    with np.errstate(invalid="ignore"):
        return settled(node, node.dispatch._replace(rounds=kind in (Kind.POINT, Kind.SUM)), result, numbers)


def settled(node: Node, call: Dispatch, result: Any, numbers: Numbers) -> Any:
    """What `call` gave as it goes on; `ValueError` for a result of another kind or shape than the node says."""
    dtype = node.dtype
    if not dtype:
        return _no_tensor(result)
    if not isinstance(result, np.ndarray):
        result = np.asarray(result)
    kind = result.dtype.kind
    if kind not in _KINDS:
        raise ValueError("its result is no tensor of numbers")
    if result.shape != node.shape:
        _check_shape(node, result.shape)
    if kind == "c" and not dtype.startswith("complex"):
        raise ValueError("it gives complex numbers, not real ones")
    # An infinite distance as an integer is some number, here as in torch.
    if (wide := numbers.dtype(dtype)) != result.dtype:
        result = result.astype(wide, copy=False)
    if call.casts:
        return numbers.cast(result, dtype)
    return numbers.result(result, dtype) if call.rounds else result


def _check_shape(node: Node, shape: tuple[int, ...]) -> None:
    if shape == node.shape:
        return
    if len(shape) != len(node.shape) or any(
        size is not None and size != actual for size, actual in zip(node.shape, shape, strict=True)
    ):
        raise ValueError(f"it gives {list(shape)}, not {list(node.shape)}")


def described(node: Node) -> str:
    """A node in words: its op, its module, the line that runs it."""
    line = f", {node.lines[-1].file}:{node.lines[-1].number}" if node.lines else ""
    return f"{node.op} in {node.module or 'the model'}{line}"


def _no_tensor(result: Any) -> Any:
    """A size or several tensors as they are; `ValueError` for anything else."""
    parts = result if isinstance(result, list | tuple) else ()
    if isinstance(result, int) and abs(result) < _LARGEST_SIZE:
        return result
    if not parts or not all(isinstance(part, np.ndarray) and part.dtype.kind in _KINDS for part in parts):
        raise ValueError("its result is neither a size nor several tensors")
    return result


def resolved(
    operand: Operand, values: Mapping[int, Any], lift: Callable[[Array], Array], *, rows_stay: bool = False
) -> Any:
    """An operand as the op's function takes it, arrays lifted; with `rows_stay` gathered rows stay in their table."""
    if isinstance(operand, Ref):
        value = values[operand.value]
        if isinstance(value, Gathered) and not rows_stay:
            value = np.asarray(value)
        return lift(value) if isinstance(value, np.ndarray) else value
    return [resolved(part, values, lift) for part in operand] if isinstance(operand, tuple) else operand
