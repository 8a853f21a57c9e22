"""Keys that no line rotates, and the blocks and parts of one softmax, are told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from by_taps import first_of, firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import LINE
from qwen3_parity.diagnosis.edits.edit import Block, Edit, Site
from qwen3_parity.diagnosis.edits.grammar.blocks import blocks
from qwen3_parity.diagnosis.edits.grammar.siblings import siblings
from qwen3_parity.diagnosis.edits.grammar.softmax import BEHIND
from qwen3_parity.diagnosis.edits.grammar.unturned import unturned
from qwen3_parity.diagnosis.edits.grammar.values import values
from qwen3_parity.diagnosis.edits.modules import _BESIDE
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network
from qwen3_spec.graph import Line, Ref

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


def test_halves_are_not_said_to_be_meant_as_pairs() -> None:
    """Of four channels one order is the other: the words are those of what lines cut. It runs `grammar.blocks`."""
    of_query = target(network(golden(CASE), golden(CASE), weights(CASE)), f"{ATTENTION}.query", 0)
    assert of_query is not None
    said = {edit.says.partition(" in line")[0] for edit in blocks(of_query.region) if edit.name == "edit.pairs"}
    assert said == {"takes neighbouring channels in pairs, where halves are meant"}


@pytest.mark.parametrize("step", [(2,), ()])
def test_pairs_are_meant_where_every_second_channel_is_taken(step: tuple[int, ...]) -> None:
    """A half that is taken alone is neither."""
    x = np.ones((1, 2, 8))
    half = ("slice.Tensor", (Ref(0), -1, 0, 8 if step else 4, *step), (0,))
    pairs = unmeant({1: half, 2: ("cat.default", (), (1, 1))}, {0: x, 1: x[..., ::2] if step else x[..., :4], 2: x})
    assert [each.partition(",")[0] for each in pairs] == ["takes halves of the channels"] * len(step)


def test_what_is_cut_into_parts_of_several_widths_is_neither() -> None:
    x = np.ones((1, 2, 8))
    nodes = {1: ("split_with_sizes.default", (), (0,)), 2: ("getitem", (Ref(1), 1), (1,)), 3: ("mul", (), (0,))}
    assert not unmeant(nodes, {0: x, 1: [x[..., :2], x[..., :6]], 2: x[..., :6], 3: x})


def unmeant(nodes: dict[int, tuple[Any, ...]], base: dict[int, Any]) -> list[str]:
    """What is said of pairs of channels in a line of these ops, the last of which it gives."""
    line = Line(file="modeling_x.py", number=7, function="turned")
    ops = {value: SimpleNamespace(op=op, operands=operands, reads=reads, lines=(line,), module="")
            for value, (op, operands, reads) in nodes.items()}  # fmt: skip
    site, last = Site(LINE, 7, "modeling_x.py:turned"), max(nodes)
    here = SimpleNamespace(
        blocks={site: [Block(0, last, tuple(nodes))]}, base=base, node=ops.get, users={1: [2]}, sites={},
        memory={_BESIDE: {}}, network=SimpleNamespace(call_of=lambda _: None, is_smallest=bool),
    )  # fmt: skip
    return [edit.says for edit in blocks(cast(Any, here)) if edit.name == "edit.pairs"]


ROUTER = "model.layers.0.mlp.router"


def test_what_a_router_makes_of_the_chosen_is_told() -> None:
    """It runs `grammar.softmax` and `grammar.siblings`."""
    scores, chosen = (golden(SINKS)[f"{ROUTER}{place}", 0].values() for place in ("", "[2]"))
    top = np.take_along_axis(scores.astype(np.float64), chosen, -1)
    shares, fewer = 1 / (1 + np.exp(-top)), np.exp(top) * (np.arange(top.shape[-1]) < top.shape[-1] - 1)
    for weighted, says in (
        (shares / shares.sum(-1, keepdims=True), "has sigmoid, divided by its sum, for softmax"),
        (fewer / fewer.sum(-1, keepdims=True), "chooses one fewer"),
    ):
        first, *_ = firsts(SINKS, {f"{ROUTER}[1]": weighted, f"{ROUTER}[2]": chosen})
        assert first.startswith(f"edit.sibling: {says}, at modeling_gpt_oss.py:")
    first, *_ = firsts(SINKS, {f"{ROUTER}[1]": np.ones_like(top), f"{ROUTER}[2]": chosen})
    assert "parts by itself" not in first  # each part of one number would be 1


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


def test_parts_of_the_keys_that_are_joined_without_their_sums_are_told() -> None:
    """A part whose keys are all hidden has no share."""
    probs = golden(CASE)[PROBS, 0].values().astype(np.float64)
    parts = np.array_split(probs, 2, -1)
    peaks = [part.max(-1, keepdims=True) for part in parts]
    shares = [peak / np.maximum(sum(peaks), 1e-30) for peak in peaks]
    each = [
        part / np.maximum(part.sum(-1, keepdims=True), 1e-30) * share for part, share in zip(parts, shares, strict=True)
    ]
    first, *_ = firsts(CASE, {PROBS: np.concatenate(each, -1)}, CONTEXT)
    says = "joins 2 parts of softmax by their largest scores, without their sums"
    assert first.startswith(f"edit.sibling: {says}, at modeling_gemma3.py:")


def test_keys_that_are_hidden_behind_the_softmax_are_rarer_than_a_mask_that_is_left_out() -> None:
    """Nobody judges hidden keys: of padding alone the two look alike."""
    region = target(network(golden(CASE), golden(CASE), weights(CASE)), PROBS, 0)
    assert region is not None
    ranks = {edit.says: edit.rank for table in (siblings, values) for edit in table(region.region)}
    masked = [rank for says, rank in ranks.items() if says.startswith("leaves out add of")]
    assert masked and max(masked) < ranks[BEHIND]


def test_queries_and_keys_in_one_bound_are_told() -> None:
    recorded = tuple(f"{ATTENTION}.{name}" for name in ("q_norm", "k_norm", "probs"))
    few = replace(
        golden(CASE), tensors=[item for item in golden(CASE) if item.info.name.startswith(("input.", *recorded))]
    )
    region = target(network(golden(CASE), few, weights(CASE)), PROBS, 0)
    assert region is not None
    normed = [Site("", 0, f"layers.*.self_attn.{part}_norm") for part in "qk"]
    bounded = Edit("", "", PLAIN, dict.fromkeys(normed, lambda call: np.clip(call.operands[0], -1.5, 1.5)))
    wrong = region.predicted(bounded)
    assert wrong is not None
    says = "clamps layers.*.self_attn.q_norm and layers.*.self_attn.k_norm at ±1.5"
    assert first_of(CASE, {(PROBS, 0): wrong}, recorded).startswith(f"edit.fitted: {says}, at modeling_gemma3.py:")


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
