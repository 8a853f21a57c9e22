"""LayerNorm, of the classic encoder."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.classic_config import classic_config
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, SMALLEST_NORMAL
from qwen3_spec.site import Site
from qwen3_spec.sums import dot_products, same_sign_sum


def forward(
    x: Array, weight: Array, bias: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged
) -> Array:
    """`weight * (x - mean) / sqrt(variance + eps) + bias` over the last axis; `x[..., n]`, `weight[n]`, `bias[n]`.

    The variance is the mean of squared deviations (divided by n, not n - 1), eps is inside the root. Source: Ba et al.
    2016, torch `LayerNorm`.
    """
    x = at("input", arithmetic.cast(x))
    size = x.shape[-1]
    centred = at("deviations", x - arithmetic.sum(x)[..., None] / arithmetic.dtype(size))
    variance = at("variance", arithmetic.sum(centred * centred)[..., None] / arithmetic.dtype(size))
    root = at("reciprocal root", 1 / np.sqrt(variance + arithmetic.dtype(eps)))
    normalised = at("normalised row", centred * root)
    return np.asarray(at("output", at("weight", arithmetic.cast(weight)) * normalised + arithmetic.cast(bias)))


def unit(y: Array, x: Array, weight: Array, bias: Array, eps: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """Of `y` = g + bias, g the weighted deviation: the root of three squares, in roundoffs, the shape of `x`.

    `|g| sqrt(1 + (r / 2)^2)`, r the roundings of the sum of squared deviations, or those of the sum of squares times
    mean square / variance, and one more of what cancels (some libraries subtract the squared mean from the mean
    square), whichever are more; what the mean's rounding and the subtraction move a deviation by, times weight / root;
    and |y|, the last sum's.
    """
    x, weight = FLOAT64.cast(x), FLOAT64.cast(weight)
    size = x.shape[-1]
    mean = x.mean(axis=-1, keepdims=True)
    variance = np.square(x - mean).mean(axis=-1, keepdims=True) + eps
    cancelled = np.square(x).mean(axis=-1, keepdims=True) / variance
    of_deviations, of_squares = (same_sign_sum(np.square(values))[..., None] / 2 for values in (x - mean, x))
    through = np.maximum(of_deviations, of_squares * cancelled + np.maximum(cancelled - 1, 0))
    averaged = np.sqrt(dot_products(x.reshape(-1, size), np.ones((size, 1)))[1]).reshape(mean.shape) / size
    deviation = np.hypot(x - mean, np.hypot(mean, averaged)) * np.abs(weight) / np.sqrt(variance)
    weighted = np.abs(FLOAT64.cast(y) - FLOAT64.cast(bias)) * np.hypot(1, through)
    return np.asarray(roundoff * np.hypot(np.hypot(weighted, deviation), np.abs(y)) + SMALLEST_NORMAL)


def _operands(site: Site) -> tuple[Array, Array, Array, float]:
    return site.inputs[0], site.parameters["weight"], site.parameters["bias"], classic_config(site).layer_norm_eps


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The norm of a place's input by the place's own weight and bias."""
    return forward(*_operands(site), arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, y: Array) -> Array:
    return unit(y, *_operands(site))


STEPS = (
    "input",
    "deviations",
    "variance",
    "reciprocal root",
    "normalised row",
    "weight",
    "output",
)

OPS = (Op("layer_norm", at_site, _unit_at_site, steps=STEPS),)
