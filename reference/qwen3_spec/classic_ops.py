"""The ops that the classic encoder has and Qwen3 has not, one function each, as `ops`; their rounding units below them.

Scores, softmax, context, residual sums, linears and embeddings are those of `ops`.
"""

import numpy as np

from qwen3_spec import ops, units
from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.sums import dot_products, same_sign_sum
from qwen3_spec.units import FLOAT32_ROUNDOFF

PARTS = ("q", "k", "v")
"""The thirds of a fused projection, in their order."""


def layer_norm(x: Array, weight: Array, bias: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`weight * (x - mean) / sqrt(variance + eps) + bias` over the last axis; `x[..., n]`, `weight[n]`, `bias[n]`.

    The variance is the mean of squared deviations (divided by n, not n - 1), eps is inside the root. Source: Ba et al.
    2016, torch `LayerNorm`.
    """
    x = arithmetic.cast(x)
    size = x.shape[-1]
    centred = x - arithmetic.sum(x)[..., None] / arithmetic.dtype(size)
    variance = arithmetic.sum(centred * centred)[..., None] / arithmetic.dtype(size)
    normalised: Array = centred * (1 / np.sqrt(variance + arithmetic.dtype(eps)))
    return np.asarray(arithmetic.cast(weight) * normalised + arithmetic.cast(bias))


def activation(x: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`act(x)`, the input of linear2; the names are those of `ops.swiglu`, which this is with an `up` of 1.

    Source: torch `TransformerEncoderLayer`, whose gelu is the exact one, with erf. Raises `ValueError` for other names.
    """
    return ops.swiglu(x, np.ones_like(x), hidden_act, arithmetic=arithmetic)


def scaled_sum(tokens: Array, positions: Array, scale: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`tokens * scale + positions`, equal shapes `[batch, seq, hidden]`; scale is 1 or the root of hidden.

    Source: Vaswani et al. 2017, section 3.4.
    """
    return np.asarray(arithmetic.cast(tokens) * arithmetic.dtype(scale) + arithmetic.cast(positions))


def split_heads(qkv: Array, part: str, heads: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """A third of a fused projection `[batch, seq, 3 * hidden]` -> `[batch, heads, seq, head_dim]`; exact.

    `part` is "q", "k" or "v": all of q stands first, head by head, then all of k, then all of v. Source: torch
    `MultiheadAttention.in_proj_weight`.
    """
    batch, length, width = qkv.shape
    parts = arithmetic.cast(qkv).reshape(batch, length, len(PARTS), heads, width // (len(PARTS) * heads))
    return np.swapaxes(parts[:, :, PARTS.index(part)], 1, 2)


def layer_norm_unit(
    y: Array, x: Array, weight: Array, bias: Array, eps: float, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
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
    of_deviations, of_squares = (same_sign_sum(np.square(one))[..., None] / 2 for one in (x - mean, x))
    through = np.maximum(of_deviations, of_squares * cancelled + np.maximum(cancelled - 1, 0))
    averaged = np.sqrt(dot_products(x.reshape(-1, size), np.ones((size, 1)))[1]).reshape(mean.shape) / size
    deviation = np.hypot(x - mean, np.hypot(mean, averaged)) * np.abs(weight) / np.sqrt(variance)
    weighted = np.abs(FLOAT64.cast(y) - FLOAT64.cast(bias)) * np.hypot(1, through)
    return np.asarray(roundoff * np.hypot(np.hypot(weighted, deviation), np.abs(y)) + 2.0**-126)


def activation_unit(y: Array, x: Array, hidden_act: str, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """That of `units.swiglu_unit` with an `up` of 1."""
    return units.swiglu_unit(y, x, np.ones_like(x), hidden_act, roundoff=roundoff)


def scaled_sum_unit(tokens: Array, positions: Array, scale: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`2 |tokens scale| + |positions|`: the scale, the product and the sum are rounded; a scale of 1 is not."""
    first = np.abs(FLOAT64.cast(tokens) * scale) * (1 if scale == 1 else 2)
    return np.asarray(roundoff * (first + np.abs(FLOAT64.cast(positions))) + 2.0**-126)
