"""Attention over blocks of keys: online softmax that does not rescale, splits that are merged with wrong weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import BLOCKS
from qwen3_parity.mistakes.ranks import RARE, Rank

_ONLINE = "with a new maximum multiply both the accumulator and the sum so far by exp(old - new)"
_MERGE = "weigh each split by its share of the sum of exponentials"

Change = Callable[[Array, Array, Array, int], Array]
"""`(probabilities, scores, visible, own keys)`, all `[batch, heads, query, key]`, to the weights that values get."""


RESCALED: Mapping[tuple[int, int], str] = {
    (1, 0): "does not rescale its accumulator",
    (0, 1): "does not rescale its sum",
    (1, 1): "rescales neither its sum nor its accumulator",
    (2, 0): "divides its accumulator by the factor that rescales it",
    (2, 2): "divides its sum and its accumulator by the factor that rescales them",
}
"""What becomes of the accumulator and of the sum: 0 rescaled, 1 as they were, 2 by the inverse factor."""


def ways(keys: int, *, rare: bool) -> Iterator[tuple[str, str, str, Change, Rank]]:
    """The end of a name, what is wrong, what is right, the change, its rank; `rare` ones where they are wanted."""
    for block in (size for size in BLOCKS[::-1] if size < keys):
        for (accumulator, total), subject in RESCALED.items():
            for finite in (False, True) if rare else (False,):
                says = f"{subject} when a later block of {block} keys has a larger score"
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
    block: int, accumulator: int, total: int, finite: bool, p: Array, scores: Array, visible: Array, own_length: int
) -> Array:
    s = np.where(visible, scores.astype(np.float64), _LOW if finite else -np.inf)
    return by_blocks(s, block, accumulator, total)


def by_blocks(s: Array, block: int, accumulator: int, total: int, *, running: bool = True) -> Array:
    """The weights `[…, key]` of an online softmax over blocks of scores, hidden ones -inf, rescaled by `RESCALED`.

    Without `running` each block has a maximum of its own.
    """
    starts = np.arange(0, s.shape[-1], block)
    peaks = np.maximum.reduceat(s, starts, axis=-1)
    peaks = np.maximum.accumulate(peaks, axis=-1) if running else peaks
    peak, last = np.repeat(peaks, np.diff([*starts, s.shape[-1]]), axis=-1), peaks.max(axis=-1, keepdims=True)
    counts = np.isfinite(s) & np.isfinite(peak)

    def rescaled(power: int) -> Array:
        """exp(s - last), times exp(last - peak) to a power, by one exponent: hidden scores may be as low as -1e9."""
        lowest = np.where(counts, peak, 0)
        exponent = np.where(counts, s, 0) - lowest - (1 - power) * (np.where(np.isfinite(last), last, 0) - lowest)
        return np.where(counts, np.exp(exponent), 0.0)

    with np.errstate(over="ignore", invalid="ignore"):
        divisor = rescaled(total).sum(axis=-1, keepdims=True)
        return np.asarray(rescaled(accumulator) / np.where(divisor > 0, divisor, 1))


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
