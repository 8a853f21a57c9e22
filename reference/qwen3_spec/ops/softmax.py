"""Softmax over the keys that the mask shows."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit, magnitude
from qwen3_spec.site import Site
from qwen3_spec.sums import same_sign_sum


def forward(scores: Array, mask: Array, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """Softmax over the visible keys of `scores[batch, heads, query, key]` -> the same shape.

    `mask[batch, query, key]` is bool, True = visible. A hidden entry is exactly 0. **A row without a visible key is
    all zeros** (HF's backends give 0 or the mean of v there, so such rows are judged for finiteness only).
    Source: HF `eager_attention_forward`, which adds a mask of `finfo.min`: the same numbers wherever a key is visible.
    HF casts scores to float32 for the softmax and the result back: without it bfloat16 exponentials carry 2^-9 each and
    the sum over many keys stops growing at 256 equal terms.
    """
    visible = mask[:, None]
    masked = np.where(visible, at("scores", arithmetic.cast(scores)), -np.inf)
    has_key = visible.any(axis=-1, keepdims=True)
    peak = np.where(has_key, masked.max(axis=-1, keepdims=True), arithmetic.dtype(0))
    weight = at("exponentials", np.exp(at("scores less their maximum", masked - peak)))
    total = at("sum", np.where(has_key, arithmetic.sum(weight)[..., None], arithmetic.dtype(1)))
    return np.asarray(at("output", weight / total))


def unit(y: Array, scores: Array, mask: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`p sqrt((1 + |s| + max |s|)^2 + r^2)` for `y` = p, r the roundings of the row's sum; `mask[batch, query, key]`.

    The scores' own rounding is amplified by the exponential; the maximum is over the row's visible keys. Hidden entries
    must be exactly 0: unit 0.
    """
    visible = np.broadcast_to(mask[:, None], scores.shape)
    s = np.where(visible, magnitude(scores), 0)
    amplified = 1 + s + s.max(axis=-1, keepdims=True, initial=0)
    p = magnitude(y)
    return np.where(visible, as_unit(p * np.hypot(amplified, row_sum(p)), roundoff), 0)


def row_sum(p: Array) -> Array:
    """Roundings of the sum by which a softmax divided, `[..., 1]`: of exponentials, the largest of which is 1."""
    peak = p.max(axis=-1, keepdims=True, initial=0)
    return same_sign_sum(np.divide(p, peak, out=np.zeros_like(p), where=peak > 0))[..., None]


def backward(dy: Array, probs: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By the scores, from the softmax's own output: `probs * (dy - sum(dy * probs))`.

    Where a key is hidden the probability is 0, and so is this: a row without a visible key passes nothing back.
    """
    dy, probs = arithmetic.cast(dy), arithmetic.cast(probs)
    return np.asarray(probs * (dy - arithmetic.sum(dy * probs)[..., None]))


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The probabilities of a place's scores; a row with a number that is none has none either."""
    scores, mask = site.inputs
    y = forward(scores, mask, arithmetic=arithmetic, at=at)
    # A hidden NaN reaches the row wherever masks are added; what follows from it is nobody's fault here.
    return np.where(np.isfinite(scores).all(axis=-1, keepdims=True), y, arithmetic.dtype(np.nan))


def _unit_at_site(site: Site, y: Array) -> Array:
    return unit(y, *site.inputs)


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    return backward(*site.inputs, arithmetic=arithmetic)


def _gradient_unit(site: Site, _y: Array) -> Array:
    dy, probs = (np.asarray(values, np.float64) for values in site.inputs)
    products = dy * probs
    along = np.abs(products.sum(axis=-1, keepdims=True))
    drift = np.sqrt((np.cumsum(products, axis=-1) ** 2 + products**2).sum(axis=-1, keepdims=True))
    return as_unit(np.abs(probs) * (2 * np.abs(dy) + 2 * along + drift))


STEPS = (
    "scores",
    "scores less their maximum",
    "exponentials",
    "sum",
    "output",
)

OPS = (
    Op("softmax", at_site, _unit_at_site, steps=STEPS, masked=True),
    Op("softmax_gradient", _gradient, _gradient_unit),
)
