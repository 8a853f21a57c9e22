"""What is read or added that nobody recorded is found among the values within a layer.

It runs `grammar.reads`, too.
"""

from __future__ import annotations

from dataclasses import replace

from by_taps import golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis import diagnose

CASE, LAYER = "model/qwen3_moe", "model.layers.0"
RECORDED = (LAYER, f"{LAYER}.self_attn.o_proj", "model.embed_tokens")


def by_its_result(values: Array) -> list[str]:
    """What is said of a layer of which its attention and its result were recorded."""
    whole = golden(CASE)
    tensors = [
        replace(item, array=values) if item.info.name == LAYER else item
        for item in whole
        if not item.info.step and (item.info.name.startswith("input.") or item.info.name in RECORDED)
    ]
    (fault,) = diagnose(whole, replace(whole, tensors=tensors), weights(CASE), partial=True).faults
    return [explanation.says for explanation in fault.explanations[:1]]


def test_a_value_within_a_layer_that_is_added_once_too_often_is_said() -> None:
    values = golden(CASE)[LAYER, 0].array + golden(CASE)[f"{LAYER}.post_attention_layernorm", 0].array
    (says,) = by_its_result(values)
    assert says.startswith("adds layers.*.post_attention_layernorm, too, in add, at modeling_qwen3_moe.py:")
