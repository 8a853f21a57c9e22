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
    ways: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
        ("gradient.group_first", "takes the first query head of each group alone", lambda grouped: grouped[:, :, 0]),
        ("gradient.group_last", "takes the last query head of each group alone", lambda grouped: grouped[:, :, -1]),
        ("gradient.group_mean", "takes the mean over the query heads of a group", lambda grouped: grouped.mean(axis=2)),
    )
    for name, says, way in ways:
        yield Hypothesis(name, says, fix, partial(_grouped, way), everywhere=True)


def _grouped(way: Callable[[Array], Array], site: Site) -> Result | None:
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
    split = heads.reshape(heads.shape[0], site.case.config.num_key_value_heads, -1, *heads.shape[2:])
    noise = as_unit(8 * np.abs(split).sum(axis=2))
    y, noise = _in_layout(site, way(split)), _in_layout(site, noise)
    return y, noise


def _in_layout(site: Site, values: Array) -> Array:
    """`[batch, kv_heads, all keys, head_dim]` -> the tap's part, in the tap's layout."""
    part = half(site, values)
    if "head_dim" in site.place.axes:
        return np.swapaxes(part, 1, 2) if site.place.axes[2] == "kv_heads" else part
    return np.swapaxes(part, 1, 2).reshape(part.shape[0], part.shape[2], -1)
