"""Every KV head for each of the query heads that share it."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array


def forward(x: Array, groups: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[batch, kv_heads, key, head_dim] -> [batch, kv_heads * groups, key, head_dim]`, head h a copy of h // groups.

    Source: Ainslie et al. 2023 (GQA), HF `repeat_kv`. Exact, no cast.
    """
    return np.repeat(arithmetic.cast(x), groups, axis=1)


def unit(x: Array, groups: int) -> Array:
    """Zero, `[batch, kv_heads * groups, key, head_dim]`: heads are copied."""
    return np.zeros((x.shape[0], x.shape[1] * groups, *x.shape[2:]))


def backward(dy: Array, groups: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """By one copy: the sum over the `groups` query heads that share a KV head, `[batch, heads, ...]` to `kv_heads`."""
    batch, heads, *rest = dy.shape
    return arithmetic.sum(np.moveaxis(arithmetic.cast(dy).reshape(batch, heads // groups, groups, *rest), 2, -1))
