"""Errors that rounding leaves: beside a factor for each row they are said with it, alone they are said to scatter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn_tap import TRUTH, tap_of

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.numbers.grids import grid
from qwen3_parity.diagnosis.findings.numbers.inputs import rounded_input
from qwen3_parity.diagnosis.findings.numbers.roundings import rescaled_rows, scattered
from qwen3_parity.diagnosis.findings.product import Product
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


STEP = 0.03


@pytest.mark.parametrize(
    ("wrong", "name", "words"),
    [
        (np.rint(TRUTH / STEP) * STEP, "fit.grid", "whole multiples of 0.03, up to "),
        (np.rint(np.clip(TRUTH, -1, 1) / STEP) * STEP, "fit.grid", "is cut off there"),
        (np.clip(np.rint(TRUTH * 127 / 1.2), -127, 127) * (1.2 / 127), "fit.grid", "cut off there"),
    ],
    ids=["a scale of somebody else's", "and cut off", "a scale that was frozen"],
)
def test_a_grid_is_told_by_whatever_its_scale_is_of(wrong: Array, name: str, words: str) -> None:
    fits = grid(tap_of(TRUTH, wrong))
    assert fits is not None and fits.name == name and words in fits.says


@pytest.mark.parametrize(
    "wrong",
    [TRUTH + 0.02, 1.1 * TRUTH, np.tanh(TRUTH), np.clip(TRUTH, -1, 1)],
    ids=["moved", "scaled", "bent", "cut off"],
)
def test_what_stands_on_no_grid_is_said_to_stand_on_none(wrong: Array) -> None:
    assert grid(tap_of(TRUTH, wrong)) is None


def test_exponentials_that_are_rounded_before_their_product_are_told() -> None:
    """As a kernel has them that divides by their sum afterwards."""
    random = np.random.Generator(np.random.PCG64(3))
    probs, values = np.exp(2 * random.standard_normal((2, 7, 9))), random.standard_normal((9, 24))
    probs /= probs.sum(-1, keepdims=True)
    peak = probs.max(-1, keepdims=True)
    says = said_of(probs, values, bfloat16((probs / peak).astype(np.float32)) * peak)
    assert says.endswith("bfloat16, once each row is divided by its largest")


def test_an_input_that_is_rounded_by_scales_over_the_batch_is_told() -> None:
    """As activations are whose scale is a channel's of each token, whatever else is in the batch."""
    values = np.random.Generator(np.random.PCG64(3)).standard_normal((24, 24))
    scale = np.abs(TRUTH).max(0) / 127
    assert "each token's channel, over the batch" in said_of(TRUTH, values, np.rint(TRUTH / scale) * scale)


def said_of(x: Array, values: Array, rounded: Array, name: str = "x") -> str:
    """What is said of `rounded @ values` where `x @ values` belongs."""
    taps = {(name, 0): x}
    tap = replace(
        tap_of(x @ values, rounded @ values),
        reads=[(name, 0)],
        recorded=lambda name, step: taps.get((name, step)),
        again=lambda key, read: read @ values,
    )
    fits = rounded_input(tap)
    return "" if fits is None else fits.says


def test_an_input_that_only_a_number_names_is_called_by_its_whole_name() -> None:
    x = TRUTH[..., :5]
    said = said_of(x, TRUTH[0, :5], bfloat16(x.astype(np.float32)), "model.layers.0")
    assert said.startswith("it is right once model.layers.0 is rounded before it goes in")


@pytest.mark.parametrize("scaled", [1.0, 1.01])
def test_a_linear_that_reads_each_calls_scale_is_told_and_a_mistake_beside_it_is_not(scaled: float) -> None:
    """As torch's dynamic quantisation does: integers of its own, with a zero point, of a call's tensor with padding."""
    random = np.random.Generator(np.random.PCG64(3))
    weight = random.standard_normal((16, 24)).astype(np.float32)
    calls = [size * random.standard_normal((7, 24)).astype(np.float32) for size in (1, 3)]
    step = np.float32(np.abs(weight).max() / 127.5)
    held = np.clip(np.rint(weight / step), -128, 127) * step
    rows, read, ends = [], [], []
    for x in calls:
        low, high = x.min(), x.max()
        scale = np.float32((high - low) / 127)
        zero = np.rint(-low / scale)
        rows.append(x[2:])  # the first two are padding, which the scale is read off, too
        read.append(((np.clip(np.rint(x / scale) + zero, 0, 127) - zero) * scale)[2:])
        ends.append(np.broadcast_to(np.array([low, high]), (len(x) - 2, 2)))
    x, y = np.float64(np.concatenate(rows)), np.float64(np.concatenate(read)) @ np.float64(held).T
    y[:, 3] *= scaled
    y[:, 7] *= scaled
    product = Product("w", x, np.float64(weight), np.zeros(16), y, 0 * y, 4.0, ends=np.concatenate(ends))
    fits = rounded_input(replace(tap_of(product.truth[None], y[None]), product=lambda: product))
    assert (fits is None) == (scaled != 1)
    input_says = "its input is in 7 bits with a zero point, a scale for each call"
    assert fits is None or fits.says == f"its weight is in 8 bits (-128 to 127), a scale for all of it; {input_says}"
