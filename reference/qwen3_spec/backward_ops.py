"""The gradient of every op of `ops`, one function each: what a loss passes back through it.

`<op>_gradient(dy, ...)` takes the gradient `dy` of the loss by the op's output and the op's inputs (or, where that is
simpler, its output), and returns the gradients by its inputs, in their order and shapes. As in `ops`, everything is
cast to `arithmetic.dtype` and computed there.
"""

import math

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array

_WEIGHT_BLOCK = 1 << 22
"""Weight elements cast at a time, as in `ops`."""

_erf = np.frompyfunc(math.erf, 1, 1)


def embedding_gradient(
    dy: Array, ids: Array, vocab_size: int, padding_idx: int | None = None, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """By the weight `[vocab, hidden]`: row t is the sum of `dy[batch, seq, hidden]` over the slots whose id is t.

    Rows that no slot reads are 0, and so is the row `padding_idx`, whatever reads it (torch `Embedding`; HF's models
    give it `config.pad_token_id`).
    """
    dweight = np.zeros((vocab_size, dy.shape[-1]), arithmetic.dtype)
    np.add.at(dweight, ids, arithmetic.cast(dy))
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return dweight


def rms_norm_gradient(
    dy: Array, x: Array, weight: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """By x `[..., n]` and by the weight `[n]`, which every row (and head) shares.

    With r = 1 / sqrt(mean(x^2) + eps) and n = r x, r itself moves with x: `dx = r (dn - n mean(dn n))`, dn = weight dy.
    """
    x, dy = arithmetic.cast(x), arithmetic.cast(dy)
    mean_square = arithmetic.sum(x * x)[..., None] / x.shape[-1]
    scale = 1 / np.sqrt(mean_square + arithmetic.dtype(eps))
    normalised = x * scale
    by_normalised = arithmetic.cast(weight) * dy
    along = arithmetic.sum(by_normalised * normalised)[..., None] / x.shape[-1]
    return scale * (by_normalised - normalised * along), _sum_of_rows(dy * normalised, arithmetic)


def _sum_of_rows(x: Array, arithmetic: Arithmetic) -> Array:
    """`[..., n] -> [n]`."""
    return arithmetic.sum(np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T))


def linear_gradient(
    dy: Array, x: Array, weight: Array, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array, Array]:
    """By x, `dy @ weight`; by the weight `[out, in]`, `dy^T @ x` over all rows; by a bias `[out]`, the sum of rows."""
    rows, drows = (arithmetic.cast(a).reshape(-1, a.shape[-1]) for a in (x, dy))
    outputs, inputs = weight.shape
    dx = np.empty((rows.shape[0], inputs), arithmetic.dtype)
    block = max(1, _WEIGHT_BLOCK // outputs)
    for start in range(0, inputs, block):
        columns = slice(start, start + block)
        dx[:, columns] = arithmetic.matmul(drows, arithmetic.cast(weight[:, columns]))
    return dx.reshape(x.shape), arithmetic.matmul(drows.T, rows), _sum_of_rows(drows, arithmetic)


def rope_gradient(dy: Array, cos: Array, sin: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By x: the rotation backwards, `dy * cos - rotate_half(dy * sin)`; `dy[batch, heads, seq, head_dim]`.

    The transpose of `rotate_half` is its negative. cos and sin are constants.
    """
    dy, cos, sin = arithmetic.cast(dy), arithmetic.cast(cos)[:, None], arithmetic.cast(sin)[:, None]
    return np.asarray(dy * cos - ops.rotate_half(dy * sin, arithmetic=arithmetic))


def repeat_kv_gradient(dy: Array, groups: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By one copy: the sum over the `groups` query heads that share a KV head, `[batch, heads, ...]` to `kv_heads`."""
    batch, heads, *rest = dy.shape
    return arithmetic.sum(np.moveaxis(arithmetic.cast(dy).reshape(batch, heads // groups, groups, *rest), 2, -1))


def scores_gradient(
    dy: Array, q: Array, k: Array, scaling: float, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """By `q[batch, heads, query, head_dim]` and `k[batch, kv_heads, key, head_dim]`; dy as the scores."""
    groups = q.shape[1] // k.shape[1]
    keys = ops.repeat_kv(k, groups, arithmetic=arithmetic)
    scaled = arithmetic.cast(dy) * arithmetic.dtype(scaling)
    dkeys = arithmetic.matmul(np.swapaxes(scaled, -1, -2), arithmetic.cast(q))
    return arithmetic.matmul(scaled, keys), repeat_kv_gradient(dkeys, groups, arithmetic=arithmetic)


def softmax_gradient(dy: Array, probs: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By the scores, from the softmax's own output: `probs * (dy - sum(dy * probs))`.

    Where a key is hidden the probability is 0, and so is this: a row without a visible key passes nothing back.
    """
    dy, probs = arithmetic.cast(dy), arithmetic.cast(probs)
    return np.asarray(probs * (dy - arithmetic.sum(dy * probs)[..., None]))


def context_gradient(dy: Array, probs: Array, v: Array, *, arithmetic: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """By the probabilities and by `v[batch, kv_heads, key, head_dim]`; `dy[batch, query, heads, head_dim]`."""
    groups = probs.shape[1] // v.shape[1]
    values = ops.repeat_kv(v, groups, arithmetic=arithmetic)
    by_head = np.swapaxes(arithmetic.cast(dy), 1, 2)
    dvalues = arithmetic.matmul(np.swapaxes(arithmetic.cast(probs), -1, -2), by_head)
    dprobs = arithmetic.matmul(by_head, np.swapaxes(values, -1, -2))
    return dprobs, repeat_kv_gradient(dvalues, groups, arithmetic=arithmetic)


def residual_gradient(dy: Array, *, arithmetic: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """By the stream and by the branch: both get all of `dy`."""
    dy = arithmetic.cast(dy)
    return dy, dy


def swiglu_gradient(
    dy: Array, gate: Array, up: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """By the gate, `dy * up * act'(gate)`, and by up, `dy * act(gate)`."""
    dup = ops.swiglu(gate, dy, hidden_act, arithmetic=arithmetic)  # linear in its second argument
    slope = activation_slope(gate, hidden_act, arithmetic=arithmetic)
    return np.asarray(arithmetic.cast(dy) * arithmetic.cast(up) * slope), dup


def activation_slope(x: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The derivative of the activation at x; of relu at 0 it is 0, as torch has it.

    `silu` s + x s (1 - s) with s the sigmoid; `gelu` Phi(x) + x phi(x); `gelu_tanh`, with t = tanh(a (x + b x^3)),
    (1 + t) / 2 + x (1 - t^2) a (1 + 3 b x^2) / 2. Raises `ValueError` for another name.
    """
    x = arithmetic.cast(x)
    match hidden_act:
        case "silu":
            small = np.exp(-np.abs(x))
            sigmoid, other = (np.where(side, arithmetic.dtype(1), small) / (1 + small) for side in (x >= 0, x < 0))
            slope = sigmoid + x * sigmoid * other
        case "gelu":
            below = 0.5 * (1 + arithmetic.cast(_erf(x * arithmetic.dtype(math.sqrt(0.5)))))
            slope = below + x * arithmetic.dtype(1 / math.sqrt(2 * math.pi)) * np.exp(-0.5 * x * x)
        case "gelu_tanh":
            a = arithmetic.dtype(math.sqrt(2 / math.pi))
            t = np.tanh(a * (x + 0.044715 * x * x * x))
            slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 0.134145 * x * x)
        case "relu":
            slope = np.where(x > 0, arithmetic.dtype(1), arithmetic.dtype(0))
        case _:
            raise ValueError(f"hidden_act {hidden_act!r} is not one of silu, gelu, gelu_tanh, relu")
    return np.asarray(slope)
