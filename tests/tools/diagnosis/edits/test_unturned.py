"""Keys that no line rotates, and the blocks and parts of one softmax, are told."""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import first_of, firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.grammar.unturned import unturned
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.slices.network import network

CASE, ATTENTION = "model/gemma3", "model.layers.0.self_attn"
SINKS, OF_SINKS = "model/gpt_oss", "model.layers.1.self_attn.probs"
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


@pytest.mark.parametrize("size", [2, 4])
def test_blocks_of_keys_by_their_own_largest_score_are_told(size: int) -> None:
    probs = golden(CASE)[PROBS, 0].values().astype(np.float64)
    blocks = np.split(probs, range(size, probs.shape[-1], size), -1)
    each = [x / np.where((peak := x.max(-1, keepdims=True)) > 0, peak, 1) for x in blocks]
    wrong = np.concatenate(each, -1)
    first, *_ = firsts(CASE, {PROBS: wrong / np.maximum(wrong.sum(-1, keepdims=True), 1)}, CONTEXT)
    says = f"takes off each block of {size} keys its own largest score, and never rescales"
    assert first.startswith(f"edit.sibling: {says}, at modeling_gemma3.py:")


@pytest.mark.parametrize(("times", "word"), [(2, "twice"), (4, "four times")])
def test_a_sink_that_each_part_of_the_keys_counts_is_told(times: int, word: str) -> None:
    """Its probability is what those of the keys lack."""
    wrong = dict[tuple[str, int], Array]()
    for step in range(1, len(golden(SINKS).case.steps)):
        probs = golden(SINKS)[OF_SINKS, step].values().astype(np.float64)
        wrong[OF_SINKS, step] = probs / (1 + (times - 1) * (1 - probs.sum(-1, keepdims=True)))
    said = first_of(SINKS, wrong, ("query", "key", "probs"))
    parts = {2: "two", 4: "four"}[times]
    assert said.startswith(
        f"edit.sibling: counts the last in the sum {word}, as {parts} parts of the keys would, in every step but the "
        "first, at modeling_gpt_oss.py:"
    )
