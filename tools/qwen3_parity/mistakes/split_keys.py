"""Attention over blocks of keys: online softmax that does not rescale, splits that are merged with wrong weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import BLOCKS
from qwen3_parity.mistakes.ranks import RARE, Rank

_ONLINE = "with a new maximum multiply both the accumulator and the sum so far by exp(old - new)"
_MERGE = "weigh each split by its share of the sum of exponentials"

Change = Callable[[Array, Array, Array, int], Array]
"""`(probabilities, scores, visible, own keys)`, all `[batch, heads, query, key]`, to the weights that values get."""


def ways(keys: int, *, rare: bool) -> Iterator[tuple[str, str, str, Change, Rank]]:
    """The end of a name, what is wrong, what is right, the change, its rank; `rare` ones where they are wanted."""
    for block in (size for size in BLOCKS[::-1] if size < keys):
        for accumulator, total, subject in (
            (False, True, "its accumulator"),
            (True, False, "its sum"),
            (False, False, "neither its sum nor its accumulator"),
        ):
            for finite in (False, True) if rare else (False,):
                verb = "rescales" if not (accumulator or total) else "does not rescale"
                says = f"{verb} {subject} when a later block of {block} keys has a larger score"
                says += ", hidden keys having a low one" if finite else ""
                change = partial(_online, block, accumulator, total, finite)
                yield "unscaled_blocks", says, _ONLINE, change, RARE + finite
    cuts: dict[str, Callable[[int, int], int]] = {
        "halves of the keys": lambda n, own_length: (n + 1) // 2,
        "halves of the keys, the second the longer,": lambda n, own_length: n // 2,
        "the stack's own keys and the encoder's": lambda n, own_length: own_length,
    }
    for subject, cut in cuts.items():
        for says, weigh in (
            ("merges {} with each other's weights", lambda first, second: (second, first)),
            ("averages {}, whatever their sums", lambda first, second: (0.5, 0.5)),
            ("adds up {}, each as if it were all", lambda first, second: (1.0, 1.0)),
        ):
            yield "merged_splits", says.format(subject), _MERGE, partial(_merged, cut, weigh), RARE


_LOW = -1e9
"""What stands for a hidden score that is finite."""


def _online(
    block: int, accumulator: bool, total: bool, finite: bool, p: Array, scores: Array, visible: Array, own_length: int
) -> Array:
    hidden = _LOW if finite else -np.inf
    s = np.where(visible, scores.astype(np.float64), hidden)
    starts = np.arange(0, s.shape[-1], block)
    peaks = np.maximum.accumulate(np.maximum.reduceat(s, starts, axis=-1), axis=-1)
    peak = np.repeat(peaks, np.diff([*starts, s.shape[-1]]), axis=-1)
    last = peaks[..., -1:]
    raw = np.where(np.isfinite(peak), np.exp(s - np.where(np.isfinite(peak), peak, 0)), 0.0)
    scaled = np.where(np.isfinite(last), np.exp(s - np.where(np.isfinite(last), last, 0)), 0.0)
    weight = scaled if accumulator else raw
    divisor = (scaled if total else raw).sum(axis=-1, keepdims=True)
    return np.asarray(weight / np.where(divisor > 0, divisor, 1))


def _merged(
    cut: Callable[[int, int], int],
    weigh: Callable[[Array, Array], tuple[Array | float, Array | float]],
    p: Array,
    scores: Array,
    visible: Array,
    own_length: int,
) -> Array:
    at = cut(p.shape[-1], own_length)
    parts = p[..., :at], p[..., at:]
    sums = [part.sum(axis=-1, keepdims=True) for part in parts]
    weights = weigh(*sums)
    alone = [part / np.where(total > 0, total, 1) * w for part, total, w in zip(parts, sums, weights, strict=True)]
    return np.concatenate(alone, axis=-1)
