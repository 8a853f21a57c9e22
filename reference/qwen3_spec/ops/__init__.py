"""Every op, one file each: forward in any arithmetic, its rounding unit, its gradient, and how it reads its place.

`forward` casts its inputs to `arithmetic.dtype` and computes there. Hugging Face ("HF") computes in the model's dtype
and casts to float32 in three places: norm statistics, RoPE tables and softmax. Those casts are the only ones, and the
docstrings say which floats would differ without them; in a float32 model they change nothing. Here nothing is cast on
the way: float64 stays float64, which `model.double()` in HF does not.
"""

from collections.abc import Mapping

from qwen3_spec.op import Op
from qwen3_spec.ops import (
    activation,
    argmax,
    cache,
    context,
    copy,
    embedding,
    head_gradient,
    inv_freq,
    layer_norm,
    linear,
    loss,
    mask,
    next_token_probs,
    position_ids,
    repeat_kv,
    residual,
    rms_norm,
    rope,
    rope_table,
    scaled_sum,
    scores,
    softmax,
    split_heads,
    swiglu,
)

_FILES = (
    *(
        position_ids,
        inv_freq,
        rope_table,
        embedding,
        copy,
        rms_norm,
        linear,
        rope,
        cache,
        mask,
        scores,
        softmax,
        context,
    ),
    *(residual, swiglu, next_token_probs, argmax, layer_norm, activation, scaled_sum, split_heads, loss, head_gradient),
)
OPS: Mapping[str, Op] = {op.name: op for file in _FILES for op in file.OPS}
"""Every op of the network tables by its name there, but for `input`, which is given."""

__all__ = [
    "OPS",
    "activation",
    "argmax",
    "cache",
    "context",
    "copy",
    "embedding",
    "head_gradient",
    "inv_freq",
    "layer_norm",
    "linear",
    "loss",
    "mask",
    "next_token_probs",
    "position_ids",
    "repeat_kv",
    "residual",
    "rms_norm",
    "rope",
    "rope_table",
    "scaled_sum",
    "scores",
    "softmax",
    "split_heads",
    "swiglu",
]
