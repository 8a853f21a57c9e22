"""What edits say is what a reader of the reference's source would say: `edits.words` and those who use it."""

from __future__ import annotations

from by_taps import firsts, golden, weights

from qwen3_parity.diagnosis.edits.grammar.blocks import blocks
from qwen3_parity.diagnosis.edits.grammar.crossed import crossed
from qwen3_parity.diagnosis.edits.grammar.layouts import layouts
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.diagnosis.edits.words import named, short
from qwen3_parity.slices.network import network

GEMMA, GPT_OSS, ATTENTION = "model/gemma3", "model/gpt_oss", "model.layers.0.self_attn"


def region(case: str, tap: str) -> Region:
    of_tap = target(network(golden(case), golden(case), weights(case)), tap, 0)
    assert of_tap is not None
    return of_tap.region


def test_a_norm_without_its_1_leaves_that_out_and_loads_what_is_stored() -> None:
    name = "model.layers.0.input_layernorm"
    weight = weights(GEMMA)[f"{name}.weight"]
    (first,) = firsts(GEMMA, {name: golden(GEMMA)[name, 0].values() / (1 + weight) * weight})
    assert first.startswith("edit.left_out: leaves out add of 1, at modeling_gemma3.py:")


def test_a_softmax_without_its_sinks_leaves_them_out() -> None:
    assert "leaves sinks out of the softmax" in {edit.says for edit in crossed(region(GPT_OSS, f"{ATTENTION}.probs"))}


def test_parts_and_lines_that_are_alike_are_said_by_what_they_are_of() -> None:
    experts = region(GPT_OSS, "model.layers.0.mlp.experts")
    assert "leaves each clamp of _apply_gate out" in {edit.says for edit in blocks(experts)}
    assert any(edit.says.startswith("takes the other part of proj_out") for edit in layouts(experts))


def test_a_parameter_beside_a_number_is_said_with_it() -> None:
    norm = region(GEMMA, f"{ATTENTION}.q_norm")
    sums = [value for value in norm.order if (node := norm.node(value)) is not None and short(node.op) == "add"]
    assert "layers.*.self_attn.q_norm.weight + 1" in {named(norm, value) for value in sums}
