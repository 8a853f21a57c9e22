"""What wrong softmaxes are put together from: sums over some keys, their rounding unit, halves of a merged row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

Shaped = Callable[[Array, Array, Site], "tuple[Array, Array] | None"]
"""`(scores, mask, site)`, both `[batch, heads, query, key]`, to probabilities and the mask that their unit goes by."""


def parts(site: Site) -> tuple[Array, Array]:
    scores, mask = site.inputs
    return scores.astype(np.float64), np.broadcast_to(mask.astype(bool)[:, None], scores.shape)


def soft(s: Array, visible: Array, extra: float | Array = 0.0) -> Array:
    """A softmax over the visible keys, `extra` added to the denominator (of exponentials minus the row's maximum).

    A row that sees nothing is uniform, as adding finfo.min leaves it.
    """
    any_visible = visible.any(axis=-1, keepdims=True)
    s, visible = np.where(any_visible, s, 0.0), visible | ~any_visible
    masked = np.where(visible, s, -np.inf)
    weight = np.exp(masked - masked.max(axis=-1, keepdims=True))
    total = weight.sum(axis=-1, keepdims=True) + extra
    return np.asarray(weight / np.where(total > 0, total, 1.0))


def unit_of(y: Array, s: Array, visible: Array) -> Array:
    """The rounding unit of probabilities by a mask with heads; 0 where a hidden key has none."""
    size = np.where(visible, np.abs(s), 0)
    scale = np.abs(y) * (1 + size + size.max(axis=-1, keepdims=True, initial=0))
    return np.where(visible | (y != 0), FLOAT32_ROUNDOFF * scale + 2.0**-126, 0.0)


def softmax_hypothesis(name: str, says: str, fix: str, shaped: Shaped, rank: Rank = PLAIN) -> Hypothesis:
    def compute(site: Site) -> Result | None:
        s, visible = parts(site)
        result = shaped(s, visible, site)
        return None if result is None else (result[0], unit_of(result[0], s, result[1]))

    return Hypothesis(name, says, fix, compute, rank)


MASK_FIX = "hidden keys get -inf (or finfo.min) before the softmax, visible ones 0"


SUM_FIX = "exp(s - max) / sum over all visible keys, both halves together"


def everything(s: Array) -> Array:
    return np.ones(s.shape, bool)


def added(shown: float, hidden: float) -> Shaped:
    return lambda s, visible, _: (soft(s + np.where(visible, shown, hidden), everything(s)), everything(s))


def own_keys(site: Site, s: Array) -> int:
    return site.stop if site.stack == "decoder" else int(s.shape[-1])


def halves(join: Callable[[Array, Array], tuple[Array, Array]]) -> Shaped:
    def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
        own_length = own_keys(site, s)
        if own_length >= s.shape[-1]:
            return None
        halves = join(
            soft(s[..., :own_length], visible[..., :own_length]), soft(s[..., own_length:], visible[..., own_length:])
        )
        return np.concatenate(halves, axis=-1), visible

    return shaped


def peak(s: Array, visible: Array) -> Array:
    highest = np.where(visible, s, -np.inf).max(axis=-1, keepdims=True)
    return np.where(np.isfinite(highest), highest, 0.0)


def times(factor: Callable[[Site], float]) -> Shaped:
    return lambda s, visible, site: (soft(factor(site) * s, visible), visible)
