"""Numbers that a kernel makes of another: an epsilon that is divided by the width, or times it."""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import firsts, golden, weights

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
