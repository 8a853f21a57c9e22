"""Channels of a fused projection that are taken part by part, where they lie head by head, are told.

It runs `grammar.fused`.
"""

from __future__ import annotations

import numpy as np
from by_taps import firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Edit, Site
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network

CASE, MODULE = "model/qwen3_next", "model.layers.0.linear_attn"
SIZES = (5, 5, 12, 12)
SAYS = (
    "takes channels as if they lay part by part, 2 × 5, 2 × 5, 2 × 12, 2 × 12, where they lie head by head, "
    "2 × (5 + 5 + 12 + 12)"
)


def by_parts(call: Call) -> Array:
    """A projection whose channels are permuted: read head by head, they are what lay part by part."""
    x = np.asarray(call.plain())
    parts = np.split(x, np.cumsum([2 * size for size in SIZES])[:-1], -1)
    each = [part.reshape(*part.shape[:-1], 2, -1) for part in parts]
    return np.concatenate(each, -1).reshape(x.shape)


def test_parts_that_lie_head_by_head_may_be_taken_as_if_each_came_for_all_heads() -> None:
    case = golden(CASE)
    region = target(network(case, case, weights(CASE)), f"{MODULE}.norm", 0)
    assert region is not None
    projection = Site("", 0, "layers.*.linear_attn.in_proj_qkvz")
    wrong = region.predicted(Edit("edit.order", "", PLAIN, {projection: by_parts}))
    assert wrong is not None and not np.allclose(wrong, region.truth)
    first, *_ = firsts(CASE, {f"{MODULE}.norm": wrong})
    assert first.startswith(f"edit.order: {SAYS}, at modeling_qwen3_next.py:")
