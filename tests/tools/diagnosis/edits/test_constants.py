"""Numbers that are made of another: an epsilon divided by the width, or times it, and a factor in few bits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from by_taps import firsts, golden, weights

from qwen3_parity.mistakes.rounding import bfloat16

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
