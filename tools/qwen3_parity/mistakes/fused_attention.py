"""Attention in one kernel that holds what it multiplies, and what it adds up, in a narrower type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import rounded_at
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import asks_for_all, recorded
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec.ops import OPS, repeat_kv
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Result, Site

_NAME = "attention.half_precision"
_FIX = "hold queries, keys, values and the sum of weighted values in float32 (llama.cpp: the F32 path, or no -fa)"
_TYPES = (("float16", float16, 2.0**-10), ("bfloat16", bfloat16, 2.0**-7))
_EXACT, _SAME = 0.9, 1e-5
"""The part of the numbers that must be the kernel's but for float32's rounding; the others may be one narrow rounding
off, where that tipped a tie."""

Rounded = Callable[[Array], Array]


def accumulator(site: Site) -> Iterator[Hypothesis]:
    """At a context: values and their weighted sum in a narrower type, key by key with a running maximum."""
    for type_, rounded, step in _TYPES:
        for whole in (True, False):
            compute = partial(_weighed, rounded, step, whole)
            yield Hypothesis(
                _NAME, _says(type_, whole=whole), _FIX, compute, PLAIN + 1, cause=_cause(type_, whole=whole)
            )


def operands(site: Site) -> Iterator[Hypothesis]:
    """At hidden scores: what such a kernel reads. With a tap of their own scores say it by themselves."""
    if not asks_for_all() or recorded(site) is not None:
        return
    for type_, rounded, _ in _TYPES:
        compute = partial(_scored, rounded)
        yield Hypothesis(_NAME, _says(type_, whole=True), _FIX, compute, PLAIN + 1, cause=_cause(type_, whole=True))


def _says(type_: str, *, whole: bool) -> str:
    read = "queries, keys and values" if whole else "values"
    return f"holds {read} in {type_}, and the sum of weighted values too, key by key: a fused kernel's accumulator"


def _cause(type_: str, *, whole: bool) -> str:
    return f"a fused kernel in {type_}{'' if whole else ', queries and keys aside'}"


def _scored(rounded: Rounded, site: Site) -> Result:
    steps = OPS["scores"].steps[:2]
    return rounded_at(site, steps, rounded), OPS["scores"].truth(site)[1]


def _weighed(rounded: Rounded, step: float, whole: bool, site: Site) -> Result | None:
    scores = site.values.value(site.sibling("scores"), site.step)
    mask = site.values.value(site.sibling("mask"), site.step)
    shape = site.inputs[0].shape
    if scores is None or mask is None or scores.shape != shape or mask.shape != (shape[0], *shape[2:]):
        return None
    if whole and _scores_recorded(site):
        return None  # they are judged by themselves
    values = repeat_kv.forward(all_values(site), shape[1] // all_values(site).shape[1])
    y = _key_by_key(rounded, scores.astype(np.float64), mask[:, None].astype(bool), rounded(values))
    return _either_way(site, np.swapaxes(y, 1, 2), step), OPS["context"].truth(site)[1]


def _scores_recorded(site: Site) -> bool:
    """Whether the scores of a context have a tap."""
    return site.values.recorded(site.sibling("scores"), site.step) is not None


def _key_by_key(rounded: Rounded, scores: Array, visible: Array, values: Array) -> Array:
    """Online softmax, one key after the other: `[batch, heads, query, head_dim]`, added up in the narrower type."""
    peak = np.full(scores.shape[:3], -np.inf)
    total, sums = np.zeros(scores.shape[:3]), np.zeros((*scores.shape[:3], values.shape[-1]))
    for key in range(scores.shape[-1]):
        visible_key = np.broadcast_to(visible[..., key], peak.shape)
        new = np.where(visible_key, np.maximum(peak, scores[..., key]), peak)
        known = np.where(np.isfinite(new), new, 0.0)
        rescale, weight = np.exp(peak - known), np.where(visible_key, np.exp(scores[..., key] - known), 0.0)
        sums = np.where((new > peak)[..., None], rounded(sums * rescale[..., None]), sums)
        added = rounded(sums + weight[..., None] * values[:, :, None, key])
        sums = np.where(visible_key[..., None], added, sums).astype(np.float64)
        total, peak = total * np.where(np.isfinite(peak), rescale, 0.0) + weight, new
    return np.asarray(sums / np.where(total > 0, total, 1)[..., None])


def _either_way(site: Site, y: Array, step: float) -> Array:
    """The recorded numbers where float32 may have tipped a tie, if most are to the bit what such a kernel gives."""
    actual = recorded(site)
    if actual is None or actual.shape != y.shape:
        return y
    far = np.abs(actual - y)
    cells = np.isfinite(far) & (np.abs(y) > 0)
    if not cells.any() or np.mean((far <= _SAME * np.abs(y))[cells]) < _EXACT:
        return y
    return np.asarray(np.where(far <= 2 * step * np.abs(y).max(axis=-1, keepdims=True), actual, y))
