"""Every op of the network, one function each; arrays in, arrays out, no state.

Each op casts its inputs to `arithmetic.dtype` and computes there. Hugging Face ("HF") computes in the model's dtype and
casts to float32 in three places: norm statistics, RoPE tables and softmax. Those casts are the only ones, and the
docstrings say which floats would differ without them; in a float32 model they change nothing. Here nothing is cast on
the way: float64 stays float64, which `model.double()` in HF does not.
"""

import math

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.config import RopeScaling

_WEIGHT_BLOCK = 1 << 22
"""Weight elements cast at a time: a vocabulary-sized float64 copy would not fit next to the model."""

_erf = np.frompyfunc(math.erf, 1, 1)


def embedding(ids: Array, weight: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Rows of `weight[vocab, hidden]` at `ids[batch, seq]` -> `[batch, seq, hidden]`; an exact copy, never scaled.

    Source: `Qwen3Model.embed_tokens` (torch `Embedding`). No cast. Raises `IndexError` for an id outside the
    vocabulary, a negative one included (NumPy alone would count it from the end).
    """
    if ids.size and (ids.min() < 0 or ids.max() >= weight.shape[0]):
        raise IndexError(f"ids span {ids.min()}..{ids.max()}, the embedding has rows 0..{weight.shape[0] - 1}")
    return arithmetic.cast(weight[ids])


def rms_norm(x: Array, weight: Array, eps: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`weight * x / sqrt(mean(x^2) + eps)` over the last axis; `x[..., n]`, `weight[n]` -> `[..., n]`.

    The input, post-attention and final norms take `[batch, seq, hidden]`; QK-norm is the same op on
    `[batch, seq, heads, head_dim]`, per head, before RoPE. The mean is not subtracted and eps is inside the root.
    Source: Zhang & Sennrich 2019, `Qwen3RMSNorm`. HF casts x to float32 for the statistics and casts the normalised x
    back before it multiplies by the weight: without the first, a half-precision mean of squares loses its low bits (and
    float16 overflows from |x| = 256 on); without the second, half-precision outputs flip by one ULP wherever rounding
    x-hat and rounding weight * x-hat disagree.
    """
    x = arithmetic.cast(x)
    mean_square = arithmetic.sum(x * x)[..., None] / x.shape[-1]
    normalised: Array = x * (1 / np.sqrt(mean_square + arithmetic.dtype(eps)))
    return arithmetic.cast(weight) * normalised


def linear(x: Array, weight: Array, bias: Array | None = None, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`x @ weight.T + bias`; `x[..., in]`, `weight[out, in]`, `bias[out]` -> `[..., out]`.

    Every projection and the LM head. Source: torch `Linear`. No cast.
    """
    rows = arithmetic.cast(x).reshape(-1, x.shape[-1])
    outputs, inputs = weight.shape
    out = np.empty((rows.shape[0], outputs), arithmetic.dtype)
    block = max(1, _WEIGHT_BLOCK // inputs)
    for start in range(0, outputs, block):
        columns = slice(start, start + block)
        out[:, columns] = arithmetic.matmul(rows, arithmetic.cast(weight[columns]).T)
    if bias is not None:
        out += arithmetic.cast(bias)
    return out.reshape(*x.shape[:-1], outputs)


def inv_freq(
    head_dim: int, theta: float, scaling: RopeScaling | None = None, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """Angle per position of each channel pair, `theta ** (-2 i / head_dim)` -> `[head_dim / 2]`.

    With `scaling` the pairs on the ramp's far side are divided by its factor, those on the ramp in part.

    Source: Su et al. 2021 (RoFormer), `Qwen3RotaryEmbedding.compute_default_rope_parameters`. HF computes it in float32
    whatever the model's dtype; in bfloat16 a frequency would be off by up to 2^-9 of itself, the angle at position 4095
    by radians. HF's float32 table is the reference: a run is given cos and sin made from it.
    """
    exponent = arithmetic.cast(np.arange(0, head_dim, 2)) / head_dim
    plain = np.asarray(1 / arithmetic.dtype(theta) ** exponent)
    if scaling is None:
        return plain
    ramp = yarn_ramp(head_dim, theta, scaling, arithmetic=arithmetic)
    return np.asarray(plain * (1 - ramp) + plain / arithmetic.dtype(scaling.factor) * ramp)


def yarn_range(head_dim: int, theta: float, scaling: RopeScaling) -> tuple[float, float]:
    """The pairs `(low, high)` between which YaRN goes over from plain frequencies to divided ones.

    Pair i turns `length theta ** (-2 i / head_dim) / (2 pi)` times over the original length: solved for i at
    `beta_fast` and `beta_slow` turns. `truncate` takes the whole numbers around the two, and both stay within 0 and
    head_dim - 1 (not head_dim / 2 - 1, Hugging Face has it so). Source: Peng et al. 2023 (YaRN), section 3.2.
    """

    def pair(turns: float) -> float:
        length = scaling.original_max_position_embeddings
        return head_dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    return low, high + 0.001 if low == high else high


def yarn_ramp(head_dim: int, theta: float, scaling: RopeScaling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """How much of the factor each pair is divided by, `[head_dim / 2]`: 0 nothing, 1 all of it, linear in i between.

    The paper's own ramp is linear in the turns; HF's, and its authors' code, in the pair's index. Both agree outside
    of the ramp.
    """
    low, high = yarn_range(head_dim, theta, scaling)
    steps = arithmetic.cast(np.arange(head_dim // 2)) - arithmetic.dtype(low)
    return np.asarray(np.clip(steps / arithmetic.dtype(high - low), 0, 1))


def rope_table(
    position_ids: Array, inv_freq: Array, attention_factor: float = 1.0, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """cos and sin of `position * inv_freq`, the pairs twice in a row, each `[batch, seq, head_dim]`.

    Both are multiplied by YaRN's `attention_factor`: scores of queries and keys that are turned by them carry its
    square.

    `position_ids[batch, seq]`, `inv_freq[pair]`. Channel i and channel i + head_dim / 2 form a pair (half split, not
    neighbours). Source: `Qwen3RotaryEmbedding.forward`. HF forces float32 here, autocast off: in bfloat16 positions 256
    and 257 are one number and share every angle. In float32 the angle itself is rounded, by 1e-3 at position 32768.
    HF then casts cos and sin to the model's dtype: in half precision, without that, products of float32 tables would
    differ in most last bits.
    """
    angle = arithmetic.cast(position_ids)[..., None] * arithmetic.cast(inv_freq)
    angle = np.concatenate([angle, angle], axis=-1)
    factor = arithmetic.dtype(attention_factor)
    return np.asarray(np.cos(angle) * factor), np.asarray(np.sin(angle) * factor)


def rotate_half(x: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[a, b] -> [-b, a]` with a, b the halves of the last axis; exact. Source: HF `rotate_half`. No cast."""
    x = arithmetic.cast(x)
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def apply_rope(x: Array, cos: Array, sin: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`x * cos + rotate_half(x) * sin`; `x[batch, heads, seq, head_dim]`, `cos, sin[batch, seq, head_dim]`.

    Source: HF `apply_rotary_pos_emb` for one of q and k. No cast.
    """
    cos, sin = arithmetic.cast(cos)[:, None], arithmetic.cast(sin)[:, None]
    return np.asarray(arithmetic.cast(x) * cos + rotate_half(x, arithmetic=arithmetic) * sin)


def repeat_kv(x: Array, groups: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[batch, kv_heads, key, head_dim] -> [batch, kv_heads * groups, key, head_dim]`, head h a copy of h // groups.

    Source: Ainslie et al. 2023 (GQA), HF `repeat_kv`. Exact, no cast.
    """
    return np.repeat(arithmetic.cast(x), groups, axis=1)


def scores(q: Array, k: Array, scaling: float, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`scaling * q k^T`, unmasked -> `[batch, heads, query, key]`; scaling is `head_dim ** -0.5`.

    `q[batch, heads, query, head_dim]`, `k[batch, kv_heads, key, head_dim]`, each KV head serving consecutive query
    heads. Source: Vaswani et al. 2017, HF `eager_attention_forward`. No cast: half-precision scores stay so until the
    softmax.
    """
    keys = repeat_kv(k, q.shape[1] // k.shape[1], arithmetic=arithmetic)
    products = arithmetic.matmul(arithmetic.cast(q), np.swapaxes(keys, -1, -2))
    return np.asarray(products * arithmetic.dtype(scaling))


def softmax(scores: Array, mask: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Softmax over the visible keys of `scores[batch, heads, query, key]` -> the same shape.

    `mask[batch, query, key]` is bool, True = visible. A hidden entry is exactly 0. **A row without a visible key is
    all zeros** (HF's backends give 0 or the mean of v there, so such rows are judged for finiteness only).
    Source: HF `eager_attention_forward`, which adds a mask of `finfo.min`: the same numbers wherever a key is visible.
    HF casts scores to float32 for the softmax and the result back: without it bfloat16 exponentials carry 2^-9 each and
    the sum over many keys stops growing at 256 equal terms.
    """
    visible = mask[:, None]
    masked = np.where(visible, arithmetic.cast(scores), -np.inf)
    some = visible.any(axis=-1, keepdims=True)
    peak = np.where(some, masked.max(axis=-1, keepdims=True), arithmetic.dtype(0))
    weight = np.exp(masked - peak)
    total = np.where(some, arithmetic.sum(weight)[..., None], arithmetic.dtype(1))
    return np.asarray(weight / total)


def context(probs: Array, v: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Values weighted by `probs[batch, heads, query, key]` -> `[batch, query, heads, head_dim]`.

    `v[batch, kv_heads, key, head_dim]`; the heads, laid side by side in this order, are o_proj's input, of width
    heads * head_dim (not hidden). Source: HF `eager_attention_forward`. No cast.
    """
    values = repeat_kv(v, probs.shape[1] // v.shape[1], arithmetic=arithmetic)
    return np.swapaxes(arithmetic.matmul(arithmetic.cast(probs), values), 1, 2)


def residual(a: Array, b: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`a + b`, the stream plus a branch, equal shapes. Source: `Qwen3DecoderLayer`. No cast."""
    return arithmetic.cast(a) + arithmetic.cast(b)


def swiglu(gate: Array, up: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`act(gate) * up`, the input of down_proj; equal shapes `[batch, seq, intermediate]`.

    `hidden_act`: `silu` x sigmoid(x); `gelu` x Phi(x) with erf; `gelu_tanh` its tanh approximation (HF:
    `gelu_pytorch_tanh`); `relu`. Source: Shazeer 2020 (GLU variants), `Qwen3MLP`. No cast of HF's own, though torch
    computes half-precision activations in float32 and rounds once. Raises `ValueError` for another name.
    """
    x = arithmetic.cast(gate)
    match hidden_act:
        case "silu":
            # exp of a negative number alone: neither side overflows.
            small = np.exp(-np.abs(x))
            activated = x * (np.where(x >= 0, arithmetic.dtype(1), small) / (1 + small))
        case "gelu":
            activated = 0.5 * x * (1 + arithmetic.cast(_erf(x * arithmetic.dtype(math.sqrt(0.5)))))
        case "gelu_tanh":
            activated = 0.5 * x * (1 + np.tanh(arithmetic.dtype(math.sqrt(2 / math.pi)) * (x + 0.044715 * x * x * x)))
        case "relu":
            activated = np.maximum(x, 0)
        case _:
            raise ValueError(f"hidden_act {hidden_act!r} is not one of silu, gelu, gelu_tanh, relu")
    return np.asarray(activated * arithmetic.cast(up))
