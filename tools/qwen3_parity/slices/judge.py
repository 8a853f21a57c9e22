"""One tap alone: what the reference's graph makes of the nearest values that the candidate recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen3_golden import Array, Tensor, pb
from qwen3_parity.judge.budgets import Headroom, headroom
from qwen3_parity.judge.op_verdict import NONE, Errors, OpVerdict
from qwen3_parity.judge.tap_verdict import last_rows_of
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.ordered import follows_a_choice
from qwen3_spec import cells
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.aten.noise import holds
from qwen3_spec.graph import Node, Ref
from qwen3_spec.slices import chooser

ROWS = frozenset({"batch", "query", *cells.ROWS})
"""The axes of a tap that its rows are counted along: a position of a batch row."""
_MOST_OPS = 4
_HIDDEN = -1e30
"""A score from which down on a key is hidden."""
_SURELY_RIGHT = 0.35
"""The share of a headroom by few draws up to which no more are needed: by all of them it is at most twice as large."""


_HALVES = ("bfloat16", "float16")
_BITS = 64
"""So improbable, as a power of 1/2, is it that numbers that were not rounded look as if they were."""
_NARROW = Errors(math.inf, math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Alone:
    """A tap's verdict with its errors in units, cell by cell, 0 where nothing is judged."""

    verdict: OpVerdict
    cells: Array


def judge(item: Tensor, expected: Tensor, counts: Array, network: Network) -> Alone:
    """A candidate's tap by its slice, or the last rows of logits; `counts` are the judged cells of the golden's."""
    value, rows = network.value(expected), last_rows_of(item, expected)
    verdict = OpVerdict(*item.key, op_names(network, value))
    actual, every, none = item.values(), counts, np.zeros(item.array.shape)
    if rows:
        counts = counts[:, -rows:]
    elif actual.shape != expected.array.shape:
        return Alone(replace(verdict, reason=f"another shape, {list(actual.shape)}"), none)
    if any(read in network.broken for read in network.slices.reads(value)):
        return Alone(replace(verdict, reason="what it is computed from is not finite"), none)
    maker = chooser(network.graph, value)
    if maker is not None and network.candidate.run.golden_choices:
        errors = np.where(counts & (np.sort(actual, -1) != np.sort(expected.array, -1)), np.inf, 0.0)
    elif maker is not None:
        errors = _regret(actual, maker, counts, network)
    else:
        truth = network.slices.value(value)
        if truth.dtype.kind == "f":
            dtype = _rounded_to(value, item, expected, actual[counts], expected.values()[every], network)
            if dtype is None:
                return Alone(replace(verdict, errors=_NARROW, share=math.inf), np.where(counts, np.inf, 0.0))
            for unit in network.slices.units(value, truth, every, dtype):
                last, its_unit = (part[:, -rows:] if rows else part for part in (truth, unit))
                alone = _with_errors(verdict, in_units(actual, last, its_unit, counts), counts, expected, network)
                if alone.verdict.share <= _SURELY_RIGHT:
                    break
            return alone
        if truth.dtype.kind in "iu" and follows_a_choice(network.graph, value):
            actual, truth = np.sort(actual, -1), np.sort(truth, -1)
        errors = np.where(counts & (actual != truth), np.inf, 0.0)
    return _with_errors(verdict, errors, counts, expected, network)


def _rounded_to(
    value: int, item: Tensor, expected: Tensor, numbers: Array, golden: Array, network: Network
) -> str | None:
    """The type that a tap's numbers may be rounded to; None where they were, to half of what the reference has."""
    if not network.narrow:
        return "float32"
    if network.is_of_half_precision and expected.info.dtype == pb.F32:
        if (half := narrowed(network, value)) is not None:
            return half
        if in_few_bits(numbers, golden):
            return None
    elif network.half and not network.is_of_half_precision and holds(numbers, network.half).all():
        return network.half  # it may be stored wider than it is
    return network.dtype(item)


def in_few_bits(numbers: Array, golden: Array) -> bool:
    """Whether a half precision holds all numbers as they are, which as many of the golden's would not be by chance.

    What the reference has in float32, a stream or a state, was rounded then, however near it is.
    """
    for dtype in _HALVES:
        by_chance = (np.count_nonzero(holds(golden, dtype)) + 1) / (golden.size + 2)
        if numbers.size * -math.log2(by_chance) > _BITS and holds(numbers, dtype).all():
            return True
    return False


def narrowed(network: Network, value: int) -> str | None:
    """The half precision that whatever reads a value brings it into first: it may be so already. None of any other."""
    halves = {
        str(dtype) if (dtype := node.named.get("dtype")) in _HALVES else _moves(node) and narrowed(network, user)
        for user, node in network.users.get(value, {}).items()
    }
    half = halves.pop() if len(halves) == 1 else None
    return half or None


def _moves(node: Node) -> bool:
    kernel = kernel_of(node.op)
    return kernel is not None and kernel.kind is Kind.MOVE


def _with_errors(verdict: OpVerdict, errors: Array, counts: Array, expected: Tensor, network: Network) -> Alone:
    figures = measure(errors, counts, tuple(expected.info.axes))
    return Alone(replace(verdict, errors=figures, share=share_of(figures, network.narrow)), errors)


def in_units(actual: Array, truth: Array, unit: Array, counts: Array) -> Array:
    with np.errstate(all="ignore"):
        errors = np.asarray(np.abs(actual - truth) / unit)
    errors[(actual == truth) | (np.isnan(actual) & np.isnan(truth)) | ~counts] = 0
    errors[np.isnan(errors)] = np.inf
    return errors


def _regret(actual: Array, maker: int, counts: Array, network: Network) -> Array:
    """The regret of choices, in the units of the scores that the candidate recorded or that its own inputs give."""
    node = network.graph.node(maker)
    assert node is not None and isinstance(node.operands[0], Ref)
    source = node.operands[0].value
    axis = int(node.operands[2]) if len(node.operands) > 2 else int(node.named.get("dim", -1))
    largest = node.operands[3] if len(node.operands) > 3 else node.named.get("largest", not node.op.startswith("min"))
    if source in network.slices.recorded:
        scores = network.slices.recorded[source].astype(np.float64)
        unit = np.zeros_like(scores)
    else:
        scores = network.slices.value(source)
        unit = network.slices.unit(source, scores, np.ones(scores.shape, bool))
    scores, unit, taken = (np.moveaxis(x, axis, -1) for x in (scores if largest else -scores, unit, actual))
    return np.asarray(np.where(counts, np.moveaxis(regret(scores, unit, taken), -1, axis), 0.0))


def regret(scores: Array, unit: Array, taken: Array) -> Array:
    """How much larger the largest score that was left out is than each that was taken, in units, along the last axis.

    scores, unit: [..., size]; taken: [..., choices], indices, in any order. Infinite for an index twice or out of
    range, and where a score is NaN. Where all that are not hidden are taken, whatever else is chosen has no regret.
    """
    size = scores.shape[-1]
    inside = (taken >= 0) & (taken < size)
    index = np.where(inside, taken, size).astype(np.int64)  # behind the last, where nobody stands
    chosen = np.zeros((*scores.shape[:-1], size + 1), bool)
    np.put_along_axis(chosen, index, True, -1)
    twice = (np.sort(taken, -1)[..., 1:] == np.sort(taken, -1)[..., :-1]).any(-1, keepdims=True)
    best = np.where(chosen[..., :size], -np.inf, scores).max(-1, keepdims=True)
    scored = np.take_along_axis(np.concatenate([scores, np.zeros_like(scores[..., :1])], -1), index, -1)
    largest = np.abs(np.where(np.isfinite(scores), scores, 0)).max(-1, keepdims=True)  # what is left out may be -inf
    spread = np.hypot(unit.max(-1, keepdims=True), largest * 2.0**-24)
    with np.errstate(all="ignore"):  # scores may be all 0, or infinite
        errors = np.where(scored >= best, 0.0, (best - scored) / spread)
    wrong = ~inside & (best > _HIDDEN)
    return np.where(wrong | twice | np.isnan(errors), np.inf, np.where(inside, errors, 0.0))


def measure(errors: Array, counts: Array, axes: Sequence[str]) -> Errors:
    """The figures of errors of every cell, over the judged ones; a row is a position of a batch row."""
    if not counts.any():
        return NONE
    squares = errors * errors
    row_axes = [place for place, axis in enumerate(axes) if axis in ROWS]
    across = tuple(place for place in range(squares.ndim) if place not in row_axes)
    rows = squares.sum(across) / np.maximum(counts.sum(across), 1)
    total = float(squares.sum()) / int(counts.sum())
    return Errors(math.sqrt(total), float(errors.max()), math.sqrt(float(rows.max())), 0.0)


def share_of(errors: Errors, narrow: bool) -> float:
    """The largest share of the headroom; a single element of half precision has more of it than the mean."""
    allowed: Headroom = headroom("slice", "narrow" if narrow else "")
    shares = [error / limit for error, limit in zip(errors, allowed, strict=True)]
    return math.inf if any(math.isnan(share) for share in shares) else max(shares)


def op_names(network: Network, value: int) -> str:
    """The ops of a slice that compute something, in order, each once: "pow, mean, rsqrt, mul"."""
    short = list(dict.fromkeys(node.op.partition(".")[0] for node in network.slices.computing(value)))
    if not short:
        return "copy"
    return ", ".join(short[-_MOST_OPS:]) if len(short) <= _MOST_OPS else f"… {', '.join(short[-_MOST_OPS:])}"
