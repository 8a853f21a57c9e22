"""Factors that a candidate moved from a norm's weight into the weights that read it, where they cancel.

Whoever rounds weights divides the norm before them by a number for each channel and multiplies the columns of every
reader by it (AWQ, SmoothQuant), or has the norm's weight there (a norm that is fused): the same function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pattern_of, pb
from qwen3_golden.dtypes import to_bfloat16
from qwen3_parity.judge.match import PARAMETER, several
from qwen3_spec.graph import Graph, Node, Ref

SAME = frozenset({"view", "_unsafe_view", "reshape", "alias", "clone", "contiguous", "_to_copy", "type_as"})
"""Ops after which numbers stand in the same order."""
TURNED = frozenset({"t", "transpose", "permute", "numpy_T"})
OPERANDS = {"linear": (0, 1, 2), "mm": (0, 1, None), "matmul": (0, 1, None), "addmm": (1, 2, 0)}
"""Where x, the weight and the bias of a product stand."""
_NEARER = 0.25
"""The part of the squared error of the weight as it is stored that one with its columns multiplied may have."""


@dataclass(frozen=True)
class Refolded:
    """Weights by name as they are with the factors in them, the factors of values, and what is said of it."""

    weights: dict[str, Array] = field(default_factory=dict)
    factors: dict[int, Array] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def undone(self, candidate: Recording, graph: Graph) -> Recording:
        """The recording with the norms' results as they are without the factors."""
        if not self.factors:
            return candidate
        values = {key: self.factors[value] for key, value in graph.taps.items() if value in self.factors}
        tensors = [
            replace(item, array=_times(item, values[item.key])) if item.key in values and item.is_float else item
            for item in candidate
        ]
        return replace(candidate, tensors=tensors)


def _times(item: Tensor, factors: Array) -> Array:
    values = np.asarray(item.values() * factors, item.values().dtype)
    return to_bfloat16(values) if item.info.dtype == pb.BF16 else values


class _Reader(NamedTuple):
    """A product of a norm's result: the values of both ends, the weight's name, whether that is [in, out]."""

    x: int
    y: int
    weight: str
    turned: bool


class _Fold(NamedTuple):
    """A norm as the candidate holds it: the factors of its readers' columns, the values that are divided by them, and
    the readers' weights, whether each is multiplied."""

    norm: str
    held: Array
    scale: Array
    divided: Sequence[int]
    multiplied: Mapping[_Reader, bool | None]


def refolded(graph: Graph, candidate: Recording, weights: Mapping[str, Array]) -> Refolded:
    """Every norm whose weight the candidate holds otherwise, where most of its readers make up for it."""
    folds = [*_folds(graph, candidate, weights)]
    if not folds:
        return Refolded()
    tensors, factors = {fold.norm: fold.held.astype(np.float32) for fold in folds}, dict[int, Array]()
    for fold in folds:
        factors |= dict.fromkeys(fold.divided, fold.scale)
        for reader in fold.multiplied:
            by = fold.scale[:, None] if reader.turned else fold.scale
            tensors[reader.weight] = np.asarray(weights[reader.weight] * by, np.float32)
    readers = [each for fold in folds for each in fold.multiplied.items()]
    missed = several([*dict.fromkeys(reader.weight for reader, is_so in readers if is_so is False)])
    norms, whose = (
        several([*dict.fromkeys(pattern_of(name).replace("{layer}", "*") for name in names)])
        for names in ([fold.norm for fold in folds], [reader.weight for reader, is_so in readers if is_so])
    )
    says = (
        f"divided by numbers of the channels: {norms}; their readers' columns are multiplied by these, which cancels "
        f"and is judged so: {whose}"
    )
    return Refolded(tensors, factors, (f"{says}; not those of {missed}, which is a mistake" if missed else says,))


def _folds(graph: Graph, candidate: Recording, weights: Mapping[str, Array]) -> Iterator[_Fold]:
    vectors = {name: held for name in graph.parameters if (held := _vector(name, candidate, weights)) is not None}
    users = _users(graph) if vectors else {}
    for name, held in vectors.items():
        scale, divided, readers = _read(graph, users, name, np.asarray(weights[name], np.float64), held)
        if scale is None:
            continue
        each = {reader: _is_multiplied(reader, readers, scale, graph, candidate, weights) for reader in readers}
        counts = [sum(is_so is so for is_so in each.values()) for so in (False, True)]
        if counts[0] <= counts[1] > 0:
            yield _Fold(name, held, scale, divided, each)


def _vector(name: str, candidate: Recording, weights: Mapping[str, Array]) -> Array | None:
    """A weight of one axis as the candidate holds it, where it is another than the checkpoint's."""
    item = candidate.get(f"{PARAMETER}{name}", 0)
    if item is None or name not in weights or not item.is_float or item.array.ndim != 1:
        return None
    if weights[name].shape != item.array.shape:
        return None
    held = np.asarray(item.values(), np.float64)
    return held if np.isfinite(held).all() and not np.array_equal(held, weights[name]) else None


def _users(graph: Graph) -> dict[int, list[tuple[int, Node]]]:
    users = dict[int, list[tuple[int, Node]]]()
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        for read in dict.fromkeys(node.reads):
            users.setdefault(read, []).append((value, node))
    return users


def _read(
    graph: Graph, users: Mapping[int, Sequence[tuple[int, Node]]], name: str, stored: Array, held: Array
) -> tuple[Array | None, list[int], list[_Reader]]:
    """What a norm's readers must be multiplied by, the values that are divided, and the readers.

    None where something else than a product reads it.
    """
    open_, chain, offset = [graph.leaves[name]], list[int](), 0.0
    products, names = list[_Reader](), {graph.leaves[each]: each for each in graph.parameters}
    while open_:
        value = open_.pop()
        for result, node in users.get(value, ()):
            op = node.op.partition(".")[0]
            if op in SAME:
                open_.append(result)
                chain += [result] if value in chain else []
            elif op == "add" and value not in chain and len(node.reads) == 1:
                offset = next((float(each) for each in node.operands if isinstance(each, int | float)), 0.0)
                open_.append(result)
            elif op == "mul" and value not in chain:
                open_.append(result)
                chain.append(result)
            elif value in chain and (reader := _reader(graph, value, result, node, names)) is not None:
                products.append(reader)
            else:
                return None, [], []
    with np.errstate(all="ignore"):
        scale = (offset + stored) / (offset + held)
    return (scale if np.isfinite(scale).all() and scale.all() else None), chain, products


def _reader(graph: Graph, value: int, result: int, node: Node, names: Mapping[int, str]) -> _Reader | None:
    at = OPERANDS.get(node.op.partition(".")[0])
    x, weight = (node.operands[i] for i in at[:2]) if at is not None else (None, None)
    if not isinstance(x, Ref) or not isinstance(weight, Ref) or x.value != value:
        return None
    number, turned = weight.value, not node.op.startswith("linear")
    if (turn := graph.node(number)) is not None and turn.op.partition(".")[0] in TURNED:
        number, turned = turn.reads[0], not turned
    return _Reader(value, result, names[number], turned) if number in names else None


def _is_multiplied(
    reader: _Reader,
    readers: Sequence[_Reader],
    scale: Array,
    graph: Graph,
    candidate: Recording,
    weights: Mapping[str, Array],
) -> bool | None:
    """Whether a reader's columns are nearer to those that are multiplied; None where nobody recorded what tells it."""
    stored = np.asarray(weights[reader.weight], np.float64)
    item = candidate.get(f"{PARAMETER}{reader.weight}", 0)
    if item is not None:
        held = np.asarray(item.values(), np.float64)
        rows = slice(len(held))
        by = scale[rows, None] if reader.turned else scale
        return bool(np.square(held - stored[rows] * by).sum() <= _NEARER * np.square(held - stored[rows]).sum())
    keys = {value: key for key, value in graph.taps.items()}
    errors, weight = np.zeros(2), stored.T if reader.turned else stored
    for each in readers:
        x, y = (candidate.get(*keys[value]) if value in keys else None for value in (each.x, each.y))
        if each.weight == reader.weight and x is not None and y is not None:
            errors += _errors(x.values(), y.values(), weight, scale)
    return None if not errors.any() else bool(errors[1] <= _NEARER * errors[0])


def _errors(x: Array, y: Array, weight: Array, scale: Array) -> Array:
    """The squared errors of a product by a weight as it is, and with its columns multiplied."""
    outputs, inputs = weight.shape
    rows, results = np.asarray(x, np.float64).reshape(-1, inputs), np.asarray(y, np.float64).reshape(-1, outputs)
    good = np.isfinite(rows).all(1) & np.isfinite(results).all(1)
    rest = (results[good] - rows[good] @ each.T for each in (weight, weight * scale))
    return np.array([np.square(part - part.mean(0)).sum() if part.size else 0.0 for part in rest])  # but for a bias
