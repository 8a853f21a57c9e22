"""Errors that scatter, as large as few bits leave them, have no place; those of a mistake in the same bits do."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.as_large import AS_LARGE, as_large

DRAWS = np.random.Generator(np.random.PCG64(5))
X, W = DRAWS.standard_normal((20, 128)), DRAWS.standard_normal((64, 128))
GROUP = DRAWS.permutation(128).reshape(-1, 32)
"""Which inputs share a scale: in an order of somebody's own, as GPTQ has them by g_idx."""


def in_groups(bits: int, shift: float = 0.0) -> Array:
    weight = np.empty_like(W)
    for group in GROUP:
        low = W[:, group].min(1, keepdims=True)
        step = np.ptp(W[:, group], axis=1)[:, None] / (2**bits - 1)
        weight[:, group] = low + (np.rint((W[:, group] - low) / step) + shift) * step
    return weight


def said(weight: Array, loaded: bool | None = None) -> tuple[str, str, float] | None:
    y = X @ weight.T
    return as_large(Product("w", X, W, np.zeros(len(W)), y, np.zeros(y.shape), 12.0, loaded=loaded))


def test_a_scheme_of_somebodys_own_is_said_by_its_size() -> None:
    for bits in (4, 6, 8):
        finding = said(in_groups(bits))
        assert finding is not None and finding[0] == AS_LARGE
        assert f"about {bits} bits" in finding[1]


def test_zero_points_that_are_off_are_no_rounding() -> None:
    assert said(in_groups(4, shift=1)) is None
    assert said(in_groups(4, shift=-1)) is None


def test_errors_of_a_few_rows_or_of_a_factor_are_no_rounding() -> None:
    few = W.copy()
    few[:6] = in_groups(4)[:6]
    assert said(few) is None
    assert said(1.07 * W) is None


def test_a_weight_in_two_bits_or_another_one_is_no_rounding() -> None:
    assert said(in_groups(2)) is None
    assert said(W[::-1]) is None


def test_a_weight_that_was_loaded_as_it_is_stored_was_not_rounded() -> None:
    assert said(in_groups(4), loaded=True) is None
