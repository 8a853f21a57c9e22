"""Channels of projections that are fused, or that a loader joins, and are cut otherwise than they lie, are told.

It runs `grammar.fused`.
"""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import faults_of, first_of, firsts, golden, weights

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


DENSE, ATTENTION = "model/qwen3_moe_dense_layers", "model.layers.0.self_attn"
PARTS = ("q_proj", "k_proj", "v_proj")


@pytest.mark.parametrize(
    ("says", "begin"),
    [
        ("cuts q_proj, k_proj, v_proj, joined, as if they lay in the order k_proj, q_proj, v_proj, at ", None),
        (
            "takes q_proj, k_proj, v_proj, joined, as if they lay head by head, 2 × (12 + 4 + 4), where they lie ",
            2,
        ),
    ],
)
def test_projections_that_a_loader_joins_and_cuts_otherwise_are_told(says: str, begin: int | None) -> None:
    """As keys have it: q, k and v are 24, 8 and 8 wide."""
    each = [golden(DENSE)[f"{ATTENTION}.{part}", 0].values().astype(np.float64) for part in PARTS]
    joined = np.concatenate(each, -1)
    keys = joined[..., :8]
    if begin is not None:
        keys = joined.reshape(*joined.shape[:-1], 2, 20)[..., 12:16].reshape(*joined.shape[:-1], 8)
    answer = first_of(
        DENSE, {(f"{ATTENTION}.k_proj", 0): keys}, ("layers.0.input_layernorm", "layers.0.self_attn.k_proj")
    )
    assert answer.startswith(f"edit.order: {says}")


def test_an_order_gives_every_part_that_is_wrong_and_none_that_is_right() -> None:
    """Keys would be values in the order v, q, k as well: that queries are right, and values keys, tells it."""
    keys, values = (golden(DENSE)[f"{ATTENTION}.{part}", 0].values() for part in PARTS[1:])
    changed = {(f"{ATTENTION}.k_proj", 0): values, (f"{ATTENTION}.v_proj", 0): keys}
    ends = "layers.0.input_layernorm", *(f"{ATTENTION}.{part}" for part in PARTS)
    every = [fault.explanations[0].says for fault in faults_of(DENSE, changed, ends)]
    says = "cuts q_proj, k_proj, v_proj, joined, as if they lay in the order q_proj, v_proj, k_proj, at "
    assert len(every) == 2 and all(each.startswith(says) for each in every)
