"""Wrong ways back through grouped heads: not the sum over the query heads that share a KV head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_spec.ops.scores import half
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site


def groups(site: Site) -> Iterator[Hypothesis]:
    """Keys and values that several query heads read: not the sum of all of them."""
    if site.case.config.num_attention_heads == site.case.config.num_key_value_heads:
        return
    fix = "a key or value head gets the sum over the query heads that share it"
    ways: tuple[tuple[str, str, _Way], ...] = (
        ("gradient.group_first", "takes the first query head of each group alone",
         lambda h, kv: _split(h, kv)[:, :, 0]),
        ("gradient.group_last", "takes the last query head of each group alone",
         lambda h, kv: _split(h, kv)[:, :, -1]),
        ("gradient.group_mean", "takes the mean over the query heads of a group",
         lambda h, kv: _split(h, kv).mean(2)),
        ("gradient.group_tiled", "sums query heads as if they were tiled over the KV heads: by h modulo their number",
         lambda h, kv: _tiled(h, kv).sum(1)),
    )  # fmt: skip
    for name, says, way in ways:
        yield Hypothesis(name, says, fix, partial(_grouped, way), everywhere=True)


_Way = Callable[[Array, int], Array]
"""`[batch, heads, …]` and how many KV heads there are -> `[batch, kv_heads, …]`."""


def _split(heads: Array, kv_heads: int) -> Array:
    return heads.reshape(heads.shape[0], kv_heads, -1, *heads.shape[2:])


def _tiled(heads: Array, kv_heads: int) -> Array:
    return heads.reshape(heads.shape[0], -1, kv_heads, *heads.shape[2:])


def _grouped(way: _Way, site: Site) -> Result | None:
    if site.place.op == "context_gradient" and not site.place.name.endswith("probs"):
        dy = np.swapaxes(np.asarray(site.inputs[0], np.float64), 1, 2)
        heads = np.swapaxes(np.asarray(site.inputs[1], np.float64), -1, -2) @ dy
    elif site.names[0].endswith(".scores") and not site.place.name.endswith("q_rope"):
        queries = site.values.value(site.sibling("q_rope").removeprefix("gradient."), 0)
        if queries is None:
            return None
        heads = np.swapaxes(site.inputs[0] * site.scaling, -1, -2) @ queries
    else:
        return None
    kv_heads, size = site.case.config.num_key_value_heads, np.abs(heads)
    noise = as_unit(8 * np.maximum(_split(size, kv_heads).sum(2), _tiled(size, kv_heads).sum(1)))
    return _in_layout(site, way(heads, kv_heads)), _in_layout(site, noise)


def _in_layout(site: Site, values: Array) -> Array:
    """`[batch, kv_heads, all keys, head_dim]` -> the tap's part, in the tap's layout."""
    part = half(site, values)
    if "head_dim" in site.place.axes:
        return np.swapaxes(part, 1, 2) if site.place.axes[2] == "kv_heads" else part
    return np.swapaxes(part, 1, 2).reshape(part.shape[0], part.shape[2], -1)
