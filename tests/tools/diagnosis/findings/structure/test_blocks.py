"""A weight in few bits is told through the roundings of a run in half precision, and where a code stands on a tie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.blocks import blocks, rounded_both
from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec.aten.noise import ROUNDOFF

F32 = np.float32
NARROW: dict[str, Callable[[Array], Array]] = {"bfloat16": bfloat16, "float16": float16}


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(F32)


W, X = drawn(48, 128), drawn(24, 128, seed=1)


def four_bits(w: Array) -> Array:
    parts = w.reshape(len(w), -1, 32)
    scale = np.abs(parts).max(2, keepdims=True) / F32(7)
    return np.asarray(np.rint(parts / scale) * scale).reshape(w.shape)


def eight_bits(w: Array) -> Array:
    scale = np.abs(w).max(1, keepdims=True) / F32(127)
    return np.asarray(np.rint(w / scale) * scale)


def product(y: Array, x: Array, dtype: str = "float32") -> Product:
    """A linear whose weight should be `W`, with limits as a run in that type has them."""
    roundoff = ROUNDOFF[dtype] if dtype != "float32" else 0.0
    y = np.asarray(y, np.float64)
    return Product("w", x.astype(np.float64), W.astype(np.float64), np.zeros(len(W)), y, np.zeros(y.shape), 3, roundoff)


@pytest.mark.parametrize("dtype", NARROW)
def test_four_bits_that_are_read_back_in_half_precision_are_told(dtype: str) -> None:
    narrow = NARROW[dtype]
    x = narrow(X)
    fits = blocks(product(narrow(x @ narrow(four_bits(narrow(W))).T), x, dtype))
    assert fits is not None and fits[2] == 1.0
    assert "4 bits" in fits[1] and "each 32 numbers of a row" in fits[1]


def test_weights_and_inputs_of_eight_bits_are_told_in_bfloat16() -> None:
    x = bfloat16(X)
    fits = rounded_both(product(bfloat16(bfloat16(eight_bits(x)) @ bfloat16(eight_bits(bfloat16(W))).T), x, "bfloat16"))
    assert fits is not None and fits[2] == 1.0


def test_a_code_on_a_tie_that_is_rounded_to_the_other_side_is_no_other_weight() -> None:
    weight = W.copy()
    scale = np.abs(weight).max(1) / F32(127)
    rows = np.arange(0, len(weight), 6)
    weight[rows, 5] = 2.5 * scale[rows]
    held = eight_bits(weight)
    held[rows, 5] = np.where(np.abs(held[rows, 5] - 2 * scale[rows]) < scale[rows] / 2, 3, 2) * scale[rows]
    one_sided = replace(product(X.astype(np.float64) @ held.T, X), weight=weight.astype(np.float64))
    fits = blocks(one_sided)
    assert fits is not None and fits[2] == 1.0
    moved = held.copy()
    moved[:, 5] += scale  # one step farther is no tie
    assert blocks(replace(product(X.astype(np.float64) @ moved.T, X), weight=weight.astype(np.float64))) is None
