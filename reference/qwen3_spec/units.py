"""The rounding unit of every op: how far one rounding may move each element of its output, whatever the inputs.

`<op>_unit(...)` takes the op's inputs, its output `y` first where the unit is proportional to it, and returns float64
of the output's shape, evaluated on exactly these inputs. Honest float32 stays within a few units at every width, in
whatever order it sums, one term after the other included; a bug is far away. `roundoff` is half the spacing of floats
at 1: 2^-24 for float32, 2^-8 for bfloat16.

Below float32's smallest normal number an honest implementation may flush to zero, so units of ops whose result can get
there (softmax, activation, ...) never fall below it. Copies have unit 0: they must be exact.
"""

import math

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, Array
from qwen3_spec.config import RopeScaling
from qwen3_spec.sums import dot_products, same_sign_sum, twins

FLOAT32_ROUNDOFF = 2.0**-24

_SMALLEST_NORMAL = 2.0**-126
_OUTPUTS = 256
"""Outputs of a linear treated at a time, so that casts and partial sums stay in the cache."""


def _unit(scale: Array, roundoff: float) -> Array:
    return np.asarray(roundoff * scale + _SMALLEST_NORMAL)


def _magnitude(a: Array) -> Array:
    return np.asarray(np.abs(FLOAT64.cast(a)))


def embedding_unit(ids: Array, weight: Array) -> Array:
    """Zero, `[batch, seq, hidden]`: a row is copied."""
    return np.zeros((*ids.shape, weight.shape[1]))


def rotate_half_unit(x: Array) -> Array:
    """Zero, the shape of `x`: halves are moved and negated."""
    return np.zeros(x.shape)


def repeat_kv_unit(x: Array, groups: int) -> Array:
    """Zero, `[batch, kv_heads * groups, key, head_dim]`: heads are copied."""
    return np.zeros((x.shape[0], x.shape[1] * groups, *x.shape[2:]))


def rms_norm_unit(y: Array, x: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| sqrt(1 + (r / 2)^2)`, of RMSNorm and QK-norm: half the roundings r of the sum of squares come through.

    `y` and `x[..., n]` of one shape; the sum runs over the last axis.
    """
    through = same_sign_sum(np.square(FLOAT64.cast(x)))[..., None] / 2
    return _unit(_magnitude(y) * np.hypot(1, through), roundoff)


def inv_freq_unit(
    y: Array, theta: float = 1.0, scaling: RopeScaling | None = None, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`|y| (1 + |ln y|)`, `[pair]`: a power multiplies the exponent's rounding by the logarithm.

    With `scaling` (then `theta` is needed) the rounding of the ramp is added, `yarn_ramp_unit`.
    """
    scale = _magnitude(y) * (1 + np.abs(np.log(FLOAT64.cast(y))))
    return _unit(scale if scaling is None else scale + yarn_ramp_unit(2 * len(y), theta, scaling), roundoff)


def yarn_ramp_unit(head_dim: int, theta: float, scaling: RopeScaling) -> Array:
    """What the ramp's own rounding moves a frequency by, `[pair]`, in roundoffs: `plain (1 - 1 / factor)` times it.

    That is the ramp itself where its ends are whole numbers, which are exact; ends that are not are rounded, and i
    minus an end cancels: on the ramp `(low + high) / (high - low)`, which is never less.
    """
    ramp = ops.yarn_ramp(head_dim, theta, scaling)
    low, high = ops.yarn_range(head_dim, theta, scaling)
    rounded = ramp if scaling.truncate else np.where((ramp > 0) & (ramp < 1), (low + high) / (high - low), ramp)
    return np.asarray(ops.inv_freq(head_dim, theta) * (1 - 1 / scaling.factor) * rounded)


def rope_table_unit(
    position_ids: Array, inv_freq: Array, attention_factor: float = 1.0, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`1 + |angle|`, `[batch, seq, head_dim]`, one unit for cos and sin: the angle's rounding counts in full.

    An `attention_factor` multiplies it, and adds two roundings, its own and the product's.
    """
    angle = _magnitude(position_ids)[..., None] * _magnitude(inv_freq)
    roundings = 1 if attention_factor == 1 else 3
    return _unit(abs(attention_factor) * (roundings + np.concatenate([angle, angle], axis=-1)), roundoff)


def apply_rope_unit(x: Array, cos: Array, sin: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|x cos| + |rotate_half(x) sin|`, the shape of `x`."""
    cos, sin = _magnitude(cos)[:, None], _magnitude(sin)[:, None]
    return _unit(_magnitude(x) * cos + _magnitude(ops.rotate_half(x)) * sin, roundoff)


def scores_unit(q: Array, k: Array, scaling: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`scaling` times the linear's unit of `sum q k`, `[batch, heads, query, key]`."""
    keys = np.swapaxes(ops.repeat_kv(k, q.shape[1] // k.shape[1]), -1, -2)
    return _unit(abs(scaling) * np.sqrt(dot_products(q, keys)[1]), roundoff)


def softmax_unit(y: Array, scores: Array, mask: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`p sqrt((1 + |s| + max |s|)^2 + r^2)` for `y` = p, r the roundings of the row's sum; `mask[batch, query, key]`.

    The scores' own rounding is amplified by the exponential; the maximum is over the row's visible keys. Hidden entries
    must be exactly 0: unit 0.
    """
    visible = np.broadcast_to(mask[:, None], scores.shape)
    s = np.where(visible, _magnitude(scores), 0)
    amplified = 1 + s + s.max(axis=-1, keepdims=True, initial=0)
    p = _magnitude(y)
    return np.where(visible, _unit(p * np.hypot(amplified, _row_sum(p)), roundoff), 0)


def _row_sum(p: Array) -> Array:
    """Roundings of the sum by which a softmax divided, `[..., 1]`: of exponentials, the largest of which is 1."""
    peak = p.max(axis=-1, keepdims=True, initial=0)
    return same_sign_sum(np.divide(p, peak, out=np.zeros_like(p), where=peak > 0))[..., None]


def context_unit(probs: Array, v: Array, scores: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """The root of three squares, `[batch, query, heads, head_dim]`; `scores` (s) are the recorded ones.

    `sum p (1 + |s|) |v|`, since a fused kernel rounds p inside the sum; half of the linear's unit for `sum p v`, more
    where its products are alike (one token repeated); and y times the roundings of a row's sum, by which a fused kernel
    divides last.
    """
    p, values = _magnitude(probs), ops.repeat_kv(v, probs.shape[1] // v.shape[1])
    inside = (p * (1 + np.where(p > 0, _magnitude(scores), 0))) @ np.abs(values)
    y, drift = dot_products(p, values)
    alike = np.minimum(twins(p)[..., None], twins(np.swapaxes(values, -1, -2))[..., None, :])
    added = np.sqrt(drift) * (1 + alike * np.sqrt(p.shape[-1])) / 2
    divided = y * _row_sum(p)
    return _unit(np.swapaxes(np.sqrt(inside**2 + added**2 + divided**2), 1, 2), roundoff)


def residual_unit(a: Array, b: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|a| + |b|`."""
    return _unit(_magnitude(a) + _magnitude(b), roundoff)


def swiglu_unit(y: Array, gate: Array, up: Array, hidden_act: str, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| (1 + |gate|)`, the exponential amplifying the gate's rounding.

    For a negative gate 1 + erf, or 1 + tanh, cancels and keeps the rounding of 1: both GELUs add `|gate up| / 2`, and
    silu, which some libraries compute as `x / 2 (1 + tanh(x / 2))`, adds half of that.
    """
    gate, up = _magnitude(gate), _magnitude(up)
    scale = _magnitude(y) * (1 + gate)
    if hidden_act != "relu":
        scale = scale + gate * up / (4 if hidden_act == "silu" else 2)
    # A sigmoid may be flushed to zero before it is multiplied.
    return _unit(scale, roundoff) + _SMALLEST_NORMAL * gate * up


def linear_unit(x: Array, weight: Array, bias: Array | None = None, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`sqrt(sum of squared partial sums + sum of squared products)` -> `[..., out]`, at every size one scale.

    Each addition rounds its partial sum, each product rounds itself, independently; `sums.dot_products` says how the
    partial sums are had. The bias is one partial sum more; or, where a sum starts with it, part of all of them.
    """
    return linear_judged(x, weight, bias, roundoff=roundoff)[1]


def linear_judged(
    x: Array, weight: Array, bias: Array | None = None, *, roundoff: float = FLOAT32_ROUNDOFF
) -> tuple[Array, Array]:
    """`ops.linear` in float64 and `linear_unit`, each `[..., out]`, in one pass over `weight[out, in]`.

    Weights are cast a few outputs at a time: a memory-mapped checkpoint stays mapped.
    """
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    shape = (*x.shape[:-1], weight.shape[0])
    y, unit = (np.empty((rows.shape[0], weight.shape[0])) for _ in range(2))
    for start in range(0, weight.shape[0], _OUTPUTS):
        outputs = slice(start, start + _OUTPUTS)
        total, drift = dot_products(rows, weight[outputs].T)
        if bias is not None:
            offset = FLOAT64.cast(bias[outputs])
            total += offset
            drift += x.shape[-1] * offset * offset + total * total
        y[:, outputs] = total
        np.sqrt(drift, out=unit[:, outputs])
    return y.reshape(shape), _unit(unit, roundoff).reshape(shape)
