"""What is done in the place of a softmax, and what it is taken of: parts of the keys, other keys, sinks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change
from qwen3_parity.mistakes.split_keys import RESCALED, by_blocks
from qwen3_spec.aten import TRUTH, kernel_of
from qwen3_spec.graph import Node, Ref

_HIDING = -1e4
"""What is added to a score that is to be hidden is below it."""
_LOWEST = -1e30
"""Hides beside every finite score; rows without a visible key stay finite."""
_OWN_LARGEST = "takes off each block of {} keys its own largest score, and never rescales"


def kernel(op: str) -> Callable[..., Array]:
    """What computes an op, in float64."""
    function = kernel_of(op)
    assert function is not None
    return (lambda *x: function.compute(TRUTH, *x)) if function.takes_numbers else function.compute


softmax: Callable[..., Array] = kernel("softmax")
"""Of an array along an axis."""


def maker_of(call: Call, node: Node | None) -> Node | None:
    """The op of the region that makes the first operand of another one; None where there is none."""
    operand = node.operands[0] if node is not None else None
    return call.region.node(operand.value) if isinstance(operand, Ref) else None


def _of_all(call: Call) -> Array:
    """softmax of everything, then what was chosen of it, where the reference takes softmax of the chosen."""
    picked = maker_of(call, call.node)
    top = maker_of(call, picked)
    if picked is None or top is None or not top.op.startswith("topk") or not isinstance(top.operands[0], Ref):
        raise ValueError("nothing was chosen before")
    every, indices = call.env[top.operands[0].value], call.env[picked.operands[0].value][1]
    return np.take_along_axis(softmax(np.asarray(every), -1), np.asarray(indices), -1)


def _counted(times: int) -> Change:
    """A sink is the last of its row: whoever splits the keys must count it in the sum of a single part."""

    def change(call: Call) -> Array:
        axis, plain = int(call.operands[1]), np.asarray(call.plain())
        return np.asarray(plain / (1 + (times - 1) * plain.take([-1], axis)))

    return change


def _softmax_of_parts(count: int, divisor: int = 1) -> Change:
    """Parts as they are cut: all but the last of one length, of which most have two numbers or more."""

    def change(call: Call) -> Array:
        x, axis = np.asarray(call.operands[0]), int(call.operands[1])
        length = -(-x.shape[axis] // count)
        parts = np.split(x, range(length, x.shape[axis], length), axis)
        if 2 * sum(part.shape[axis] == 1 for part in parts) >= len(parts):
            raise ValueError("a part of one number is always 1")
        return np.concatenate([softmax(part, axis) / divisor for part in parts], axis)

    return change


def _unscaled(size: int, accumulator: int, total: int, *, running: bool = True) -> Change:
    """Blocks of keys one after the other, each by the largest score so far, or its own, rescaled as `RESCALED` says."""

    def change(call: Call) -> Array:
        x, axis = np.asarray(call.operands[0]), int(call.operands[1])
        if axis % x.ndim != x.ndim - 1:
            raise ValueError("no scores of keys")
        return by_blocks(np.where(x > _HIDING, x, -np.inf), size, accumulator, total, running=running)

    return change


def _hidden_behind(call: Call) -> Array:
    """softmax of the scores, times what the mask that is added to them shows."""
    added = maker_of(call, call.node)
    if added is None or not added.op.startswith("add"):
        raise ValueError("no mask is added before it")
    parts = [np.asarray(call.env[operand.value]) for operand in added.operands if isinstance(operand, Ref)]
    masks = [part for part in parts if part.size and part.min() < _HIDING and part.max() <= 0]
    if len(parts) != 2 or len(masks) != 1:
        raise ValueError("no mask is added before it")
    scores = parts[0] if masks[0] is parts[1] else parts[1]
    return np.asarray(call.plain(scores, *call.operands[1:]) * (masks[0] > _HIDING))


def _causal(call: Call) -> Any:
    scores = np.array(call.operands[0], np.float64)
    if scores.ndim < 4 or scores.shape[-1] < scores.shape[-2]:
        raise ValueError("no scores of keys")
    ahead = np.triu(np.ones(scores.shape[-2:], bool), 1 + scores.shape[-1] - scores.shape[-2])
    return call.plain(np.where(ahead, _LOWEST, scores), *call.operands[1:])


def _with_a_sink(call: Call) -> Array:
    x, axis = call.operands[0], call.operands[1]
    peak = np.maximum(x.max(axis, keepdims=True), 0)
    e = np.exp(x - peak)
    return np.asarray(e / (e.sum(axis, keepdims=True) + np.exp(-peak)))


def _by_its_sum(call: Call) -> Array:
    shares = np.asarray(kernel("sigmoid")(call.operands[0]))
    return np.asarray(shares / shares.sum(int(call.operands[1]), keepdims=True))


def _by_largest(count: int) -> Change:
    """Parts of the keys that are joined by their largest scores, as if each had one key alone."""

    def change(call: Call) -> Array:
        x, axis = np.asarray(call.operands[0]), int(call.operands[1])
        if x.shape[axis] <= count:
            raise ValueError("a part of one number is joined rightly")
        parts = np.array_split(x, count, axis)
        shares = softmax(np.concatenate([part.max(axis, keepdims=True) for part in parts], axis), axis)
        each = zip(parts, np.split(shares, count, axis), strict=True)
        return np.concatenate([softmax(part, axis) * share for part, share in each], axis)

    return change


BEHIND = "hides keys behind the softmax, not before it"
"""Where nobody judges hidden keys, it looks as if none were hidden, which is made more often."""
OF_SOFTMAX: Mapping[str, Change] = {
    "has sigmoid for softmax": lambda call: kernel("sigmoid")(call.operands[0]),
    "has sigmoid, divided by its sum, for softmax": _by_its_sum,
    "leaves softmax out": lambda call: call.operands[0],
    "takes softmax twice": lambda call: call.plain(call.plain(), *call.operands[1:]),
    "takes softmax to the base 2": lambda call: call.plain(call.operands[0] * math.log(2), *call.operands[1:]),
    "adds 1 to the sum of softmax": _with_a_sink,
    BEHIND: _hidden_behind,
    "hides the keys ahead of each query, as a decoder does": _causal,
    "takes exp, not divided by its sum": lambda call: np.exp(call.operands[0]),
    "takes softmax of all before it chooses": _of_all,
    **{
        f"{says} where a later block of {size} keys has a larger score": _unscaled(size, *powers)
        for size in (1, 2, 4, 8, 16, 32, 64)
        for powers, says in RESCALED.items()
    },
    **{_OWN_LARGEST.format(size): _unscaled(size, 1, 1, running=False) for size in (2, 4, 8, 16, 32, 64)},
    "counts the last in the sum twice, as two parts of the keys would": _counted(2),
    "counts the last in the sum four times, as four parts of the keys would": _counted(4),
    **{f"takes softmax of each of {count} parts by itself": _softmax_of_parts(count) for count in (2, 4)},
    **{
        f"joins {count} parts of softmax by their largest scores, without their sums": _by_largest(count)
        for count in (2, 4, 8)
    },
    **{
        f"takes softmax of each of {count} parts by itself, divided by {count}": _softmax_of_parts(count, count)
        for count in (2, 4)
    },
}
