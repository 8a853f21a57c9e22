"""Numbers that are made of another: an epsilon divided by the width, or times it, and a factor in few bits."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from by_taps import firsts, golden, weights

from qwen3_parity.diagnosis.edits.edit import Edit, Site
from qwen3_parity.diagnosis.edits.grammar.constants import constants
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_parity.slices.network import network
from qwen3_spec.graph import Node, Ref

CASE, NORM = "model/gpt_oss", "model.layers.0.input_layernorm"
EPS, WIDTH = 3e-5, 16
TOLD = {
    "edit.constant: has 1.875e-06, it divided by hidden_size, for 3e-05 (rms_norm_eps), at ": EPS / WIDTH,
    "edit.constant: has 0.00048, it times hidden_size, for 3e-05 (rms_norm_eps), at ": EPS * WIDTH,
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("says", TOLD)
def test_an_epsilon_of_a_sum_is_told_by_its_width(says: str) -> None:
    embedded = golden(CASE)["model.embed_tokens", 0].values().astype(np.float64)
    squares = np.square(embedded).mean(-1, keepdims=True)
    first, *_ = firsts(CASE, {NORM: weights(CASE)[f"{NORM}.weight"] * embedded / np.sqrt(squares + TOLD[says])})
    assert first.startswith(says)


def test_a_factor_of_the_embeddings_that_is_rounded_is_told_with_both_numbers() -> None:
    case, embeddings = "model/gemma3", "model.embed_tokens"
    whole, factor = (
        golden(case)[embeddings, 0].values(),
        float(np.sqrt(np.float32(json.loads(golden(case).graph.config)["hidden_size"]))),
    )
    rounded = float(bfloat16(np.array([factor]))[0])
    first, *_ = firsts(case, {embeddings: whole.astype(np.float64) * (rounded / factor)})
    assert first.startswith(
        f"edit.rounded: rounds {factor:.7g} (hidden_size ** 0.5) to bfloat16: {rounded:.7g}, at modeling_gemma3.py:116"
    )


def test_a_projection_that_is_read_without_its_bias_is_told() -> None:
    attention = "model.layers.0.self_attn"
    values, bias = golden(CASE)[f"{attention}.value", 0].values(), weights(CASE)[f"{attention}.v_proj.bias"]
    by_heads = bias.reshape(1, values.shape[1], 1, -1)
    first, *_ = firsts(CASE, {f"{attention}.value": values - by_heads})
    assert first.startswith("edit.operand: reads layers.*.self_attn.v_proj without its bias, at modeling_gpt_oss.py:")


def test_an_exponent_is_meant_for_an_exponent_and_an_epsilon_for_an_epsilon() -> None:
    """Widths and counts of the config in their place are no mistake that anybody makes, and take their time."""
    region = target(network(golden(CASE), golden(CASE), weights(CASE)), NORM, 0)
    assert region is not None
    says = [edit.says for edit in constants(region.region) if isinstance(edit, Edit) and edit.name == "edit.constant"]
    of_power, of_epsilon = ([word for word in says if f" for {value}" in word] for value in (2, f"{EPS:g}"))
    assert {float(word.split()[1]) for word in of_power} == {-2, 1, 3, 4}
    assert of_epsilon[:2] == [f"has {value:g} for {EPS:g} (rms_norm_eps)" for value in (1e-6, 1e-5)]
    assert all(float(word.split()[1].rstrip(",")) < 0.1 for word in of_epsilon)


def test_a_root_or_an_inverse_of_a_key_is_rarer_than_a_number_that_is_left_out() -> None:
    """1 / theta is as good as 0 in 1 + weight, and nobody writes it there."""
    case, norm = "model/gemma3", "model.norm"
    region = target(network(golden(case), golden(case), weights(case)), norm, 0)
    assert region is not None
    edits = [edit for edit in constants(region.region) if isinstance(edit, Edit)]
    left_out = [edit.rank for edit in edits if edit.says == "leaves out add of 1"]
    inverse = [edit.rank for edit in edits if "(1 / " in edit.says and edit.says.endswith(") for 1")]
    assert left_out and inverse and max(left_out) < min(inverse)


def test_a_factor_that_several_lines_have_is_left_out_in_all_of_them() -> None:
    """A residual's multiplier stands behind attention and behind the MLP."""
    node = Node("mul.Tensor", (0.22, Ref(0)), {}, "float32", (1,), "layer", ())
    sites = {Site("modeling_x.py", number, "mul.Tensor"): [number] for number in (7, 9)}
    of_config = SimpleNamespace(config={"residual_multiplier": 0.22}, is_smallest=lambda _: False)
    region = SimpleNamespace(
        network=of_config, sites=sites, node=lambda _: node, at=sites.__getitem__, base={}, names={}, users={}
    )
    first, *_ = constants(cast(Any, region))
    assert isinstance(first, Edit)
    assert first.says == "leaves out the factor 0.22 (residual_multiplier), 2 times" and len(first.changes) == 2
