"""The op tier by the specification: what each op makes of its operands and numbers, by `qwen3_golden.op_table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_golden.op_table import OP_TABLE
from qwen3_spec import Arithmetic, RopeScaling, ops
from qwen3_spec.ops.next_token_probs import Sampling, seen_ids

Arrays = Mapping[str, Array]
Numbers = Mapping[str, float]


def rope_numbers(numbers: Numbers) -> tuple[int, float, RopeScaling | None]:
    """head_dim, theta and YaRN's numbers, which `truncate` comes with, of a case of inv_freq."""
    yarn = OP_TABLE["inv_freq"].numbers(numbers)
    size, theta = yarn.pop("head_dim"), yarn.pop("theta")
    return size, theta, RopeScaling("yarn", **yarn) if "truncate" in yarn else None


def _inv_freq(*, arithmetic: Arithmetic, **numbers: float) -> Array:
    return ops.inv_freq.forward(*rope_numbers(numbers), arithmetic=arithmetic)


def _rope_table(
    position_ids: Array, inv_freq: Array, *, arithmetic: Arithmetic, attention_factor: float = 1.0
) -> tuple[Array, Array]:
    # The angle is HF's float32 product: that rounding is part of the reference.
    angle = position_ids[..., None].astype(np.float32) * inv_freq
    angle = arithmetic.cast(np.concatenate([angle, angle], axis=-1))
    factor = arithmetic.dtype(attention_factor)
    return np.cos(angle) * factor, np.sin(angle) * factor


def _rope(q: Array, k: Array, cos: Array, sin: Array, *, arithmetic: Arithmetic) -> tuple[Array, ...]:
    return tuple(ops.rope.forward(x, cos, sin, arithmetic=arithmetic) for x in (q, k))


def _repeat_kv(x: Array, *, arithmetic: Arithmetic, groups: int) -> Array:
    return ops.repeat_kv.forward(x, groups)


def _swiglu(gate: Array, up: Array, *, arithmetic: Arithmetic) -> Array:
    return ops.swiglu.forward(gate, up, "silu", arithmetic=arithmetic)


def _mask(encoder: Array | None, decoder: Array | None, *, arithmetic: Arithmetic, query: int, window: int) -> Array:
    if decoder is None:
        assert encoder is not None
        return ops.mask.encoder_mask(encoder, window or None)
    return ops.mask.merged(decoder, encoder, query, window or None)


def _next_token_probs(logits: Array, ids: Array, *, arithmetic: Arithmetic, **filters: float) -> Array:
    previous = seen_ids(ids, np.ones(ids.shape, bool), logits.shape[-1])
    return ops.next_token_probs.forward(logits, previous, Sampling(**filters), arithmetic=arithmetic)  # type: ignore[arg-type]


_FUNCTIONS: Mapping[str, Callable[..., Array | tuple[Array, ...]]] = {
    "rms_norm": ops.rms_norm.forward,
    "head_norm": ops.rms_norm.forward,
    "linear": ops.linear.forward,
    "embedding": ops.embedding.forward,
    "inv_freq": _inv_freq,
    "rope_table": _rope_table,
    "rope": _rope,
    "repeat_kv": _repeat_kv,
    "scores": ops.scores.forward,
    "softmax": ops.softmax.forward,
    "context": ops.context.forward,
    "swiglu": _swiglu,
    "mask": _mask,
    "next_token_probs": _next_token_probs,
}
EXACT = frozenset({"embedding", "repeat_kv", "mask"})
"""The ops whose outputs are the same bits wherever they are computed: they have no floor."""


def specified(op: str, arrays: Arrays, numbers: Numbers, arithmetic: Arithmetic) -> Arrays:
    """The outputs of an op by name, from its input.* and parameter.* tensors and its numbers."""
    return OP_TABLE[op].computed(_FUNCTIONS[op], arrays, numbers, arithmetic=arithmetic)
