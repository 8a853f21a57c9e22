"""Errors that rounding leaves: beside a factor for each row they are said with it, alone they are said to scatter."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_tap import TRUTH, tap_of

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.numbers.roundings import rescaled_rows, scattered
from qwen3_parity.mistakes.rounding import bfloat16


def eight_bits(values: Array) -> tuple[Array, Array]:
    scale = np.abs(values).max(-1, keepdims=True) / 127
    return np.rint(values / scale), scale


def test_rows_with_the_scales_of_others_are_told_through_their_rounding() -> None:
    codes, scale = eight_bits(TRUTH)
    fits = rescaled_rows(tap_of(TRUTH, codes * np.roll(scale, 1, axis=1)))
    assert (
        fits is not None and fits.name == "fit.row_factor" and "as rounding would: scales of other rows?" in fits.says
    )
    of_some = TRUTH.copy()
    of_some[:, 3:5] *= np.array([0.5, 1.5])[:, None]
    with np.errstate(all="ignore"):  # as findings() asks
        assert rescaled_rows(tap_of(TRUTH, of_some)) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        eight_bits(TRUTH)[0] * eight_bits(TRUTH)[1],
        TRUTH + 0.1 * np.roll(TRUTH, 1, axis=-1),
        1.5 * TRUTH,
        np.tanh(TRUTH),
    ],
    ids=["rounded alone", "another row's part", "a factor for all", "a function"],
)
def test_other_errors_have_no_factor_of_a_row(wrong: Array) -> None:
    assert rescaled_rows(tap_of(TRUTH, wrong)) is None


def test_roundings_inside_a_step_scatter() -> None:
    squares = bfloat16(np.mean(TRUTH.astype(np.float32) ** 2, -1, keepdims=True))
    inside = bfloat16(TRUTH.astype(np.float32)) * (1 / np.sqrt(squares))
    norm = TRUTH / np.sqrt(np.mean(TRUTH**2, -1, keepdims=True))
    fits = scattered(tap_of(norm, inside))
    assert fits is not None and fits.name == "fit.scattered" and "bfloat16 makes 0.001 to 0.01" in fits.says


@pytest.mark.parametrize(
    "wrong",
    [
        1.002 * TRUTH,
        TRUTH + 0.002,
        np.where(np.arange(24) == 3, 1.1 * TRUTH, 1.0001 * TRUTH),
        TRUTH * (1 + 0.01 * (np.arange(7)[:, None] == 2) * np.cos(np.arange(24))),
        0.5 * TRUTH + 0.5 * np.roll(TRUTH, 1, axis=-1),
    ],
    ids=["a factor", "a constant", "a channel", "a row", "large"],
)
def test_what_has_a_form_or_a_place_does_not_scatter(wrong: Array) -> None:
    assert scattered(tap_of(TRUTH, wrong)) is None
