"""A sibling in the place of an op: a sum for a mean, another comparison, operands exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Call, Change, Edit
from qwen3_parity.diagnosis.edits.grammar.softmax import BEHIND, OF_SOFTMAX, maker_of, softmax
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, named, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_spec.graph import Ref
from qwen3_spec.slices import chooser


def siblings(region: Region) -> Iterator[Edit]:
    """Every op with every sibling of it."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        if node is None:
            continue
        op, line = short(node.op), line_of(region, places[0])
        for words, change, rank in _of(op):
            says = words.format(scores=_scores(region, places[0]))
            yield Edit("edit.sibling", says, RARE if words == BEHIND else rank, {site: change}, line)
        if op in _EXCHANGED:
            says = f"exchanges the operands of {op}"
            yield Edit("edit.exchanged", says, PLAIN + 1, {site: _exchanged}, line)
        for slot, operand in enumerate(node.operands if op in _TIMES else ()):
            if isinstance(operand, Ref) and _is_square(region.base[operand.value]):
                says = f"reads {named(region, operand.value)} transposed in {op}"
                yield Edit("edit.transposed", says, RARE, {site: _transposed(slot)}, line)
        if op in _ALONG:
            for axis in range(np.ndim(region.base[places[0]]) or 1):
                says = f"takes {op} along axis {axis}"
                yield Edit("edit.axis", says, PLAIN + 1, {site: _along(axis)}, line)


def _scores(region: Region, value: int) -> str:
    """The op whose results an op chooses from, two ops before what it chose."""
    for _ in range(2):
        node = region.node(value)
        if node is None or not node.reads:
            return "what makes its scores"
        value = node.reads[0]
    node = region.node(value)
    return "what makes its scores" if node is None else short(node.op)


_TIMES = frozenset({"mul", "matmul", "bmm"})
_ROOTS: Mapping[str, Callable[[Array], Array]] = {
    "the reciprocal": lambda x: 1 / x,
    "the root": np.sqrt,
    "the reciprocal root": lambda x: 1 / np.sqrt(x),
    "nothing": lambda x: x,
}
_TURNS: Mapping[str, Callable[[Array], Array]] = {"cos": np.cos, "sin": np.sin, "-cos": lambda x: -np.cos(x)}
_PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "adds": np.add,
    "subtracts": np.subtract,
    "multiplies": np.multiply,
    "divides": np.divide,
    "takes the larger": np.maximum,
    "takes the smaller": np.minimum,
}
_COMPARED: Mapping[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
}
_BOTH: Mapping[str, Callable[[Array, Array], Array]] = {"and": np.logical_and, "or": np.logical_or}


def _without_mean(call: Call) -> Array:
    x = np.asarray(call.operands[0])
    return np.asarray(x - x.mean(-1, keepdims=True))


def _eps_behind(call: Call) -> Array:
    """1 / (root(x) + eps), or root(x) + eps, where the reference takes the root of x + eps."""
    added = maker_of(call, call.node)
    if added is None or call.node is None or not added.op.startswith("add") or not isinstance(added.operands[1], float):
        raise ValueError("no number is added ahead of a root")
    x = np.asarray(call.env[call.node.reads[0]]) - added.operands[1]
    root = np.sqrt(np.maximum(x, 0)) + added.operands[1]
    return np.asarray(root if call.node.op.startswith("sqrt") else 1 / root)


def _eps_of_a_power(call: Call) -> Array:
    if call.operands[1] != -0.5:
        raise ValueError("no root")
    return _eps_behind(call)


def _without_index(place: int) -> Change:
    """A choice among all but one index."""

    def change(call: Call) -> Any:
        scores = np.array(call.operands[0], np.float64)
        scores[..., place] = -np.inf
        return call.plain(scores, *call.operands[1:])

    return change


def _divided_by_sum(call: Call) -> Array:
    """The values of a topk, or what its indices take elsewhere."""
    node, graph = call.node, call.region.network.graph
    index = node.operands[2] if node is not None and node.op.startswith("gather") else None
    maker = maker_of(call, node)
    chosen_here = maker is not None and maker.op.startswith("topk") and call.operands[1] == 0
    if not chosen_here and (not isinstance(index, Ref) or chooser(graph, index.value) is None):
        raise ValueError("nothing was chosen here")
    chosen = np.asarray(call.plain())
    return np.asarray(chosen / chosen.sum(-1, keepdims=True))


def _before_choosing(call: Call) -> Array:
    """The chosen of what stood before the op whose results were chosen from."""
    top = maker_of(call, call.node)
    scored = maker_of(call, top)
    if top is None or scored is None or call.node is None or call.node.operands[1] != 0:
        raise ValueError("nothing was chosen here")
    source = next((operand for operand in scored.operands if isinstance(operand, Ref)), None)
    if source is None:
        raise ValueError("nothing stands before the scores")
    indices = np.asarray(call.operands[0][1])
    return np.take_along_axis(np.asarray(call.env[source.value]), indices, -1)


def _layer_norm(*, mean: bool, spare: int, behind: bool = False) -> Change:
    """A LayerNorm in one op without its mean, by the deviation of so many numbers less, or with eps behind the root."""

    def change(call: Call) -> Array:
        x, _, weight, bias, eps = (*call.operands, None, None, None)[:5]
        x = x - x.mean(-1, keepdims=True) if mean else x
        square = np.square(x).sum(-1, keepdims=True) / (x.shape[-1] - spare)
        eps = call.named.get("eps", 1e-5) if eps is None else eps
        size = np.sqrt(square) + eps if behind else np.sqrt(square + eps)
        return np.asarray(x / size * (1 if weight is None else weight) + (0 if bias is None else bias))

    return change


def _count(call: Call) -> float:
    return float(np.size(call.operands[0]) / max(np.size(call.plain()), 1))


def _reduced(call: Call, function: Callable[..., Array]) -> Array:
    axes = call.operands[1] if len(call.operands) > 1 else call.named.get("dim")
    keep = bool(call.operands[2]) if len(call.operands) > 2 else bool(call.named.get("keepdim", False))
    along = tuple(axes) if isinstance(axes, list | tuple) else axes
    return function(call.operands[0], axis=along, keepdims=keep)


def _taken(place: int) -> Callable[..., Array]:
    def reduce(x: Array, axis: Any, *, keepdims: bool) -> Array:
        axes = axis if isinstance(axis, tuple) else (axis,)
        if len(axes) != 1:
            raise ValueError("one axis alone has a first and a last")
        return np.take(x, [place], axes[0]) if keepdims else np.take(x, place, axes[0])

    return reduce


def _from_the_end(call: Call) -> Array:
    x, axis = call.operands[:2]
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis)


def _next_best(call: Call) -> Any:
    values, indices = call.plain(call.operands[0], int(call.operands[1]) + 1, *call.operands[2:])
    return values[..., 1:], indices[..., 1:]


def _fewer(call: Call) -> Any:
    values, indices = call.plain()
    return np.concatenate([values[..., :-1], np.zeros_like(values[..., -1:])], -1), indices


def _readers(region: Around, value: int, far: int) -> set[str]:
    """The ops that read a value, and those that read theirs, so far."""
    users = region.users.get(value, ()) if far else ()
    names = {short(node.op) for user in users if (node := region.node(user)) is not None}
    return names.union(*(_readers(region, user, far - 1) for user in users))


def _one_fewer(call: Call) -> Any:
    """The first of the chosen stands in the last place once more: whoever marks the chosen marks one fewer.

    Where a softmax is taken of the chosen, the last one has no part in it.
    """
    values, indices = call.plain()
    if values.shape[-1] < 2:
        raise ValueError("one alone is chosen")
    if "softmax" in _readers(call.region, call.value, 2):
        return np.concatenate([values[..., :-1], np.full_like(values[..., -1:], -np.inf)], -1), indices
    return tuple(np.concatenate([x[..., :-1], x[..., :1]], -1) for x in (values, indices))


class _Family(NamedTuple):
    """Ops that stand for one another: how an edit is said, how many operands they take, the functions by name."""

    ops: frozenset[str]
    words: str
    operands: int
    functions: Mapping[str, Callable[..., Array]]
    rank: Rank = PLAIN


_FAMILIES = (
    _Family(frozenset({"rsqrt", "sqrt", "reciprocal"}), "takes {} for {}", 1, _ROOTS),
    _Family(frozenset({"cos", "sin"}), "takes {} for {}", 1, _TURNS, PLAIN + 1),
    _Family(frozenset({"add", "sub", "mul", "div", "maximum", "minimum"}), "{}, no {}", 2, _PAIRS, RARE),
    _Family(frozenset({"lt", "le", "gt", "ge", "eq", "ne"}), "compares by {} for {}", 2, _COMPARED),
    _Family(frozenset({"and", "bitwise_and", "logical_and", "or", "bitwise_or"}), "has {} for {}", 2, _BOTH, RARE),
)
_NOT_BY_SUM: Mapping[str, Callable[[Array], Array]] = {
    "takes softmax, where it divides by the sum": lambda x: softmax(x, -1),
    "divides by the largest, not by the sum": lambda x: x / x.max(-1, keepdims=True),
    "divides by the length, not by the sum": lambda x: x / np.sqrt(np.square(x).sum(-1, keepdims=True)),
}
_NEXT_TO_IT = 1e-3
"""What may be added to a sum that is divided by, of its size."""


def _not_by_sum(function: Callable[[Array], Array]) -> Change:
    def change(call: Call) -> Array:
        x, by = (np.asarray(operand) for operand in call.operands[:2])
        if not x.ndim or not np.allclose(by, x.sum(-1, keepdims=True), rtol=_NEXT_TO_IT, atol=0):
            raise ValueError("it divides by no sum of its own")
        return function(x)

    return change


_BY_THEMSELVES: Mapping[str, Mapping[str, Change]] = {
    "mean": {
        "takes a sum, no mean": lambda call: call.plain() * _count(call),
        "divides by one less than the count": lambda call: call.plain() * (_count(call) / (_count(call) - 1)),
        "takes the largest, no mean": lambda call: _reduced(call, np.max),
    },
    "sum": {
        "takes a mean, no sum": lambda call: call.plain() / _count(call),
        "takes the largest, no sum": lambda call: _reduced(call, np.max),
        "takes the first alone, no sum": lambda call: _reduced(call, _taken(0)),
        "takes the last alone, no sum": lambda call: _reduced(call, _taken(-1)),
        "leaves the first out of the sum": lambda call: call.plain() - _reduced(call, _taken(0)),
        "leaves the last out of the sum": lambda call: call.plain() - _reduced(call, _taken(-1)),
        "sums squares": lambda call: call.plain(np.square(call.operands[0]), *call.operands[1:]),
    },
    "softmax": OF_SOFTMAX,
    "div": {says: _not_by_sum(function) for says, function in _NOT_BY_SUM.items()},
    "pow": {
        "takes the mean off before it squares": lambda call: call.plain(_without_mean(call), *call.operands[1:]),
        "adds eps behind the root, not before it": _eps_of_a_power,
    },
    "layer_norm": {
        "takes no mean off, as an RMSNorm": _layer_norm(mean=False, spare=0),
        "divides by the deviation of one less than the count": _layer_norm(mean=True, spare=1),
        "divides by the deviation of one less than the count, plus eps": _layer_norm(mean=True, spare=1, behind=True),
        "adds eps behind the root, not before it": _layer_norm(mean=True, spare=0, behind=True),
    },
    "rsqrt": {"adds eps behind the root, not before it": _eps_behind},
    "sqrt": {"adds eps behind the root, not before it": _eps_behind},
    "topk": {
        "never chooses the first": _without_index(0),
        "never chooses the last": _without_index(-1),
        "takes the smallest": lambda call: call.plain(*call.operands[:2], -1, False),
        "takes the next best": _next_best,
        "leaves the last of the chosen out": _fewer,
        "chooses one fewer": _one_fewer,
    },
    "gather": {"divides the chosen by their sum": _divided_by_sum},
    "getitem": {
        "has the numbers of what it chose without {scores}": _before_choosing,
        "divides the chosen by their sum": _divided_by_sum,
    },
    "cumsum": {
        "sums from the end": _from_the_end,
        "sums what stands before alone": lambda call: call.plain() - call.operands[0],
    },
}
_EXCHANGED = frozenset({"sub", "rsub", "div", "pow", "matmul", "bmm"})
_ALONG = frozenset({"sum", "mean", "amax", "amin", "softmax", "log_softmax", "cumsum", "logsumexp", "argmax"})


def _of(op: str) -> Iterator[tuple[str, Change, Rank]]:
    for family in _FAMILIES:
        if op in family.ops:
            for name, function in family.functions.items():
                yield family.words.format(name, op), _by(function, family.operands), family.rank
    for words, change in _BY_THEMSELVES.get(op, {}).items():
        yield words, change, PLAIN


def _by(function: Callable[..., Array], count: int) -> Change:
    return lambda call: function(*call.operands[:count])


def _is_square(x: Any) -> bool:
    """Whether an array's last two axes may stand for one another, each row another matrix: no parameter."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim > 2 and x.shape[-1] == x.shape[-2] > 1


def _transposed(slot: int) -> Change:
    """An operand with its last two axes in each other's place."""

    def change(call: Call) -> Any:
        operands = [np.swapaxes(x, -1, -2) if place == slot else x for place, x in enumerate(call.operands)]
        return call.plain(*operands)

    return change


def _exchanged(call: Call) -> Any:
    return call.plain(call.operands[1], call.operands[0], *call.operands[2:])


def _along(axis: int) -> Change:
    def change(call: Call) -> Any:
        dims = call.operands[1] if len(call.operands) > 1 else call.named.get("dim")
        dim: Any = [axis] if isinstance(dims, list | tuple) else axis
        x = np.asarray(call.operands[0])
        if axis >= x.ndim or dims in (axis, axis - x.ndim, [axis], [axis - x.ndim]):
            raise ValueError("the same axis")
        if len(call.operands) > 1:
            result = call.loose(call.operands[0], dim, *call.operands[2:])
        else:
            result = call.loose(call.operands[0], dim=dim)
        return np.broadcast_to(result, np.shape(call.plain()))

    return change
