"""The rounding unit of every op: how far one rounding may move each element of its output, whatever the inputs.

`<op>_unit(...)` takes the op's inputs, its output `y` first where the unit is proportional to it, and returns float64
of the output's shape, evaluated on exactly these inputs. Honest float32 stays within a few units; a bug is hundreds
away. The linear's unit holds at every width, in whatever order it sums. Those of norm, scores, softmax and context do
for sums in pairs or lanes (3 to 8 units). Plain sequential sums drift from them with the root of the width (a norm: 12
units at 1024 elements, 30 at 4096), and in proportion to it where all terms round the same way (a softmax of nearly
equal scores: 34 units at 129 keys, 240 at 1000). `roundoff` is half the spacing of floats at 1: 2^-24 for float32,
2^-8 for bfloat16.

Below float32's smallest normal number an honest implementation may flush to zero, so units of ops whose result can get
there (softmax, activation, ...) never fall below it. Copies have unit 0: they must be exact.
"""

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, Array

FLOAT32_ROUNDOFF = 2.0**-24

_SMALLEST_NORMAL = 2.0**-126
_BLOCK = 64
"""Elements of the summed axis between two looks at a linear's partial sums."""
_OUTPUTS = 1024
"""Outputs of a linear treated at a time, so that partial sums stay in the cache."""


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


def rms_norm_unit(y: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y|`, of RMSNorm and QK-norm: a sum of squares has no cancellation."""
    return _unit(_magnitude(y), roundoff)


def inv_freq_unit(y: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| (1 + |ln y|)`, `[pair]`: a power multiplies the exponent's rounding by the logarithm."""
    return _unit(_magnitude(y) * (1 + np.abs(np.log(FLOAT64.cast(y)))), roundoff)


def rope_table_unit(position_ids: Array, inv_freq: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`1 + |angle|`, `[batch, seq, head_dim]`, one unit for cos and sin: the angle's rounding counts in full."""
    angle = _magnitude(position_ids)[..., None] * _magnitude(inv_freq)
    return _unit(1 + np.concatenate([angle, angle], axis=-1), roundoff)


def apply_rope_unit(x: Array, cos: Array, sin: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|x cos| + |rotate_half(x) sin|`, the shape of `x`."""
    cos, sin = _magnitude(cos)[:, None], _magnitude(sin)[:, None]
    return _unit(_magnitude(x) * cos + _magnitude(ops.rotate_half(x)) * sin, roundoff)


def scores_unit(q: Array, k: Array, scaling: float, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`scaling * sum |q k|`, `[batch, heads, query, key]`."""
    return _unit(np.abs(ops.scores(_magnitude(q), _magnitude(k), scaling)), roundoff)


def softmax_unit(y: Array, scores: Array, mask: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`p (1 + |s| + max |s|)` for `y` = p, the maximum over the row's visible keys; `mask[batch, query, key]`.

    The scores' own rounding is amplified by the exponential. Hidden entries must be exactly 0: unit 0.
    """
    visible = np.broadcast_to(mask[:, None], scores.shape)
    s = np.where(visible, _magnitude(scores), 0)
    scale = _magnitude(y) * (1 + s + s.max(axis=-1, keepdims=True, initial=0))
    return np.where(visible, _unit(scale, roundoff), 0)


def context_unit(probs: Array, v: Array, scores: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`sum p (1 + |s|) |v|` with s the recorded scores, `[batch, query, heads, head_dim]`.

    A fused kernel rounds p inside the sum, so the exponential's amplification of the scores counts here too.
    """
    p = _magnitude(probs)
    amplified = p * (1 + np.where(p > 0, _magnitude(scores), 0))
    return _unit(ops.context(amplified, _magnitude(v)), roundoff)


def residual_unit(a: Array, b: Array, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|a| + |b|`."""
    return _unit(_magnitude(a) + _magnitude(b), roundoff)


def swiglu_unit(y: Array, gate: Array, up: Array, hidden_act: str, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| (1 + |gate|)`, the exponential amplifying the gate's rounding.

    Both GELUs add `|gate up| / 2`: for a negative gate their 1 + erf (1 + tanh) cancels and keeps the rounding of 1.
    """
    gate, up = _magnitude(gate), _magnitude(up)
    scale = _magnitude(y) * (1 + gate)
    if hidden_act in ("gelu", "gelu_tanh"):
        scale = scale + gate * up / 2
    # A sigmoid may be flushed to zero before it is multiplied.
    return _unit(scale, roundoff) + _SMALLEST_NORMAL * gate * up


def linear_unit(x: Array, weight: Array, bias: Array | None = None, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`sqrt(sum of squared partial sums + sum of squared products)` -> `[..., out]`, at every size one scale.

    Each addition rounds its partial sum, each product rounds itself, independently. Partial sums are computed every 64
    elements (a block's matrix product, added up); between two of them they are taken as a straight line, whose squares
    sum to 64 (a^2 + ab + b^2) / 3, plus what a random walk between fixed ends adds, 64 / 6 of the products' squares.
    The bias is one product (with 1) and one partial sum more.
    """
    rows = FLOAT64.cast(x).reshape(-1, x.shape[-1])
    squares = rows * rows
    scale = np.empty((rows.shape[0], weight.shape[0]))
    for start in range(0, weight.shape[0], _OUTPUTS):
        outputs = slice(start, start + _OUTPUTS)
        w = np.ascontiguousarray(FLOAT64.cast(weight[outputs]).T)
        offset = None if bias is None else FLOAT64.cast(bias[outputs])
        scale[:, outputs] = np.sqrt(_squared_steps(rows, squares, w, offset))
    return _unit(scale.reshape(*x.shape[:-1], weight.shape[0]), roundoff)


def _squared_steps(x: Array, squares: Array, w: Array, bias: Array | None) -> Array:
    """Squared partial sums plus squared products of `x[rows, in] @ w[in, out] + bias`."""
    inputs = x.shape[-1]
    total = (1 + min(_BLOCK, inputs) / 6) * (squares @ (w * w))
    before = np.zeros_like(total)
    for start in range(0, inputs, _BLOCK):
        block = slice(start, min(start + _BLOCK, inputs))
        after = x[:, block] @ w[block]
        after += before
        total += (block.stop - block.start) / 3 * (before * (before + after) + after * after)
        before = after
    if bias is not None:
        total += bias * bias + (before + bias) ** 2
    return np.asarray(total)
