"""One vector for each row of tokens: another token's, a mean, another length that is taken out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.graph import Node, Ref

Pool = Callable[[Array, Array], Array]
"""Vectors `[batch, channel]` of `[batch, position, channel]` and bool `[batch, position]`, True = a token."""


def pooling(region: Region) -> Iterator[Edit]:
    """Every choice of a position for each row, and every division by a vector's length."""
    lengths = list[Site]()
    for site, places in region.sites.items():
        node = region.node(places[0])
        if node is None:
            continue
        if _pools(region, node):
            line = line_of(region, places[0])
            for says, pool in POOLS.items():
                yield Edit("edit.pooling", f"pools {says}", PLAIN, {site: _by(pool)}, line)
        elif short(node.op) == "div" and _norm_of(region, node) is not None:
            lengths.append(site)
    for number, site in enumerate(lengths):
        line, before = line_of(region, region.at(site)[0]), dict.fromkeys(lengths[:number], _undivided)
        yield Edit("edit.left_out", "does not take the length out", PLAIN, {site: _undivided}, line)
        for says, divisor in LENGTHS.items():
            edit = Edit("edit.length", f"divides by {says}, not by the length", RARE, {site: _divided(divisor)}, line)
            yield edit
            if before:
                says = f"{edit.says}, and once alone"
                yield replace(edit, says=says, rank=RARE + 1, changes={**before, **edit.changes})


def _pools(region: Region, node: Node) -> bool:
    """Whether an op takes one position of each row."""
    source = node.operands[0] if node.operands else None
    values = region.base.get(source.value) if isinstance(source, Ref) else None
    if not isinstance(values, np.ndarray) or values.ndim != 3 or values.dtype.kind != "f":
        return False
    graph = region.network.graph
    of_inputs = {np.shape(region.network.slices.leaves[graph.leaves[name]]) for name in graph.inputs}
    if values.shape[:2] not in of_inputs:  # its second axis is no position
        return False
    if short(node.op) == "select":
        return bool(node.operands[1] == 1)
    indices = node.operands[1] if short(node.op) == "index" else None
    return isinstance(indices, list | tuple) and len(indices) == 2 and all(isinstance(x, Ref) for x in indices)


def _norm_of(region: Region, node: Node) -> Node | None:
    """The op that makes the length which this one divides by; None for another division."""
    operand = node.operands[1]
    maker = region.node(operand.value) if isinstance(operand, Ref) else None
    while maker is not None and short(maker.op) in ("expand", "clamp_min", "clamp", "add"):
        operand = maker.operands[0]
        maker = region.node(operand.value) if isinstance(operand, Ref) else None
    return maker if maker is not None and short(maker.op) == "linalg_vector_norm" else None


def _token(place: Callable[[Array], Array]) -> Pool:
    """The vector at a place of each row, from bool `[batch, position]`."""
    return lambda x, mask: x[np.arange(len(x)), np.clip(place(mask), 0, x.shape[1] - 1)]


def _last(mask: Array) -> Array:
    return np.asarray(mask.shape[1] - 1 - np.argmax(mask[:, ::-1], 1))


def _mean(weights: Callable[[Array], Array]) -> Pool:
    def pool(x: Array, mask: Array) -> Array:
        of = np.asarray(weights(mask), np.float64)[..., None]
        return np.asarray((x * of).sum(1) / of.sum(1))

    return pool


POOLS: Mapping[str, Pool] = {
    "the token before the last": _token(lambda mask: _last(mask) - 1),
    "the first token": _token(lambda mask: np.argmax(mask, 1)),
    "position 0, padding or not": _token(lambda mask: np.zeros(len(mask), np.int64)),
    "the last position, padding or not": _token(lambda mask: np.full(len(mask), mask.shape[1] - 1)),
    "the position behind the last token": _token(lambda mask: _last(mask) + 1),
    "the position that is the number of tokens - 1, as if padding stood on the right": _token(
        lambda mask: mask.sum(1) - 1
    ),
    "the position that is the number of tokens": _token(lambda mask: mask.sum(1)),
    "the mean of all tokens": _mean(lambda mask: mask),
    "the mean of all positions, padding too": _mean(np.ones_like),
    "the mean of all tokens but the last": _mean(lambda mask: mask & (np.arange(mask.shape[1]) < _last(mask)[:, None])),
    "the mean of all tokens, later ones with more weight": _mean(lambda mask: mask * np.cumsum(mask, 1)),
    "the sum of all tokens": lambda x, mask: np.asarray((x * mask[..., None]).sum(1)),
    "the largest of all tokens, channel by channel": lambda x, mask: np.where(mask[..., None], x, -np.inf).max(1),
    "the last token of the row behind": lambda x, mask: np.roll(_token(_last)(x, mask), -1, 0),
    "the last token of the row before": lambda x, mask: np.roll(_token(_last)(x, mask), 1, 0),
    "the last token of the first row, for every row": lambda x, mask: np.broadcast_to(
        _token(_last)(x, mask)[:1], (len(x), x.shape[2])
    ),
}
"""What may stand in the place of the last token's vector, by what is said of it."""
LENGTHS: Mapping[str, Callable[[Array], Array]] = {
    "the sum of its absolute numbers": lambda x: np.abs(x).sum(-1, keepdims=True),
    "its squared length": lambda x: np.square(x).sum(-1, keepdims=True),
    "its largest number": lambda x: np.abs(x).max(-1, keepdims=True),
    "its root mean square": lambda x: np.sqrt(np.square(x).mean(-1, keepdims=True)),
    "the root of its length": lambda x: np.square(x).sum(-1, keepdims=True) ** 0.25,
    "the length over the batch, channel by channel,": lambda x: np.sqrt(np.square(x).sum(0, keepdims=True)),
    "the length of all rows together": lambda x: np.sqrt(np.square(x).sum()),
}
"""What a vector may be divided by instead of its length."""


def _by(pool: Pool) -> Change:
    def change(call: Call) -> Array:
        values = np.asarray(call.operands[0])
        return pool(values, _tokens(call, values.shape[:2]))

    return change


def _tokens(call: Call, shape: tuple[int, ...]) -> Array:
    """Bool `[batch, position]`, True = a token: the mask that is read, all where none is."""
    graph = call.region.network.graph
    for name, value in graph.leaves.items():
        mask = call.region.base.get(value)
        if "mask" in name and isinstance(mask, np.ndarray) and mask.shape == shape:
            return np.asarray(mask != 0)
    return np.ones(shape, bool)


def _divided(divisor: Callable[[Array], Array]) -> Change:
    def change(call: Call) -> Array:
        values = np.asarray(call.operands[0])
        return values / divisor(values)

    return change


def _undivided(call: Call) -> Array:
    return np.asarray(call.operands[0])
