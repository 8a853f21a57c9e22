"""Keys that no line rotates, and the blocks and masks of one softmax, are told."""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.grammar.unturned import unturned
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.slices.network import network

CASE, ATTENTION = "model/gemma3", "model.layers.0.self_attn"
PROBS, CONTEXT = f"{ATTENTION}.probs", f"{ATTENTION}.context"


def test_a_line_that_does_not_rotate_gives_what_it_reads() -> None:
    region = target(network(golden(CASE), golden(CASE), weights(CASE)), f"{ATTENTION}.query", 0)
    assert region is not None
    edits = {edit.says: edit for edit in unturned(region.region)}
    assert edits.keys() == {"does not rotate q_embed", "rotates q_embed the other way"}
    normed = golden(CASE)[f"{ATTENTION}.q_norm", 0].values()
    np.testing.assert_allclose(region.predicted(edits["does not rotate q_embed"]), normed, rtol=1e-6)
    turned = region.predicted(edits["rotates q_embed the other way"])
    assert turned is not None
    np.testing.assert_allclose((turned + region.truth)[..., :1, :], 2 * normed[..., :1, :], rtol=1e-6)  # position 0


def largest_so_far(probs: Array, size: int) -> Array:
    """The largest of each block of keys and of those before it."""
    blocks = np.split(probs, range(size, probs.shape[-1], size), -1)
    largest = np.maximum.accumulate(np.stack([block.max(-1) for block in blocks], -1), -1)
    return np.repeat(largest, [block.shape[-1] for block in blocks], -1)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("size", [1, 2])
def test_blocks_of_keys_that_are_not_rescaled_are_told(size: int) -> None:
    probs = golden(CASE)[PROBS, 0].values().astype(np.float64)
    largest, last = largest_so_far(probs, size), probs.max(-1, keepdims=True)
    each = np.divide(probs, largest, out=np.zeros_like(probs), where=largest > 0)
    inverse = np.divide(each * last, largest, out=np.zeros_like(probs), where=largest > 0) * last
    for wrong, says in (
        (each / each.sum(-1, keepdims=True), "rescales neither its sum nor its accumulator"),
        (each * last, "does not rescale its accumulator"),
        (inverse, "divides its accumulator by the factor that rescales it"),
    ):
        first, *_ = firsts(CASE, {PROBS: wrong}, CONTEXT)
        assert first.startswith(f"edit.sibling: {says} where a later block of {size} keys has a larger score, at ")
