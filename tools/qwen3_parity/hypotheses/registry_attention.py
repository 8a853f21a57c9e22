"""The hypotheses about attention, masks and caches, and about the wiring of every op."""

from __future__ import annotations

from qwen3_parity.hypotheses import (
    cache_contents,
    cache_sources,
    context,
    context_weights,
    masks,
    scores,
    softmax,
    softmax_masks,
    softmax_told,
)
from qwen3_parity.hypotheses.hypothesis import Library
from qwen3_parity.hypotheses.wiring import wiring
from qwen3_spec.ops import OPS

_OWN: dict[str, tuple[Library, ...]] = {
    "scores": (scores.scaled, scores.head_map, scores.other_order, scores.capped, scores.narrow, scores.biased),
    "softmax": (softmax.shaped, softmax.narrow, softmax_told.told, softmax_masks.other_mask),
    "context": (
        context.head_map,
        context.head_order,
        context_weights.other_values,
        context_weights.other_weights,
        context_weights.narrow,
    ),
    "mask": (masks.mask,),
    "cache": (cache_contents.contents, cache_sources.other_kind, cache_sources.again),
    "cache_once": (cache_contents.contents, cache_sources.other_kind, cache_sources.again),
}

LIBRARY: dict[str, tuple[Library, ...]] = {op: (*_OWN.get(op, ()), wiring) for op in OPS}
"""What is tried for each op; wiring comes last, because it is the slowest."""
