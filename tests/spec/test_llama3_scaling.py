"""Llama 3.1's RoPE in closed form: which pairs keep their frequency, which are divided, what lies between."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_spec import SEQUENTIAL_FLOAT32, RopeScaling, ops

LLAMA = RopeScaling("llama3", 8.0, 8192, low_freq_factor=1.0, high_freq_factor=4.0)
PLAIN = ops.inv_freq.forward(128, 5e5)
SCALED = ops.inv_freq.forward(128, 5e5, LLAMA)
TURNS = 8192 * PLAIN / (2 * math.pi)


def test_pairs_that_turn_four_times_over_the_original_length_keep_their_frequency() -> None:
    assert (TURNS >= 4).sum() == 29
    np.testing.assert_array_equal(SCALED[TURNS >= 4], PLAIN[TURNS >= 4])


def test_pairs_that_turn_less_than_once_are_divided_by_the_factor() -> None:
    assert (TURNS <= 1).sum() == 29
    np.testing.assert_allclose(SCALED[TURNS <= 1], PLAIN[TURNS <= 1] / 8, rtol=1e-15)


def test_between_the_share_that_is_kept_is_linear_in_the_turns() -> None:
    between = (TURNS > 1) & (TURNS < 4)
    kept = (SCALED / PLAIN - 1 / 8) / (1 - 1 / 8)
    np.testing.assert_allclose(kept[between], (TURNS[between] - 1) / 3, rtol=1e-13)
    assert between.sum() == 6


def test_no_factor_is_on_cos_and_sin() -> None:
    assert LLAMA.attention_factor == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low_freq_factor": 0.0}, "low_freq_factor 0.0"),
        ({"high_freq_factor": math.inf}, "high_freq_factor inf"),
        ({"low_freq_factor": 5.0}, "high_freq_factor 4.0 is less than low_freq_factor 5.0"),
        ({"low_freq_factor": 4.0}, "high_freq_factor 4.0 is no more than low_freq_factor 4.0"),
    ],
)
def test_impossible_bands_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LLAMA, **wrong)  # type: ignore[arg-type]


SCALINGS = st.builds(
    lambda factor, length, low, width: RopeScaling(
        "llama3", factor, length, low_freq_factor=low, high_freq_factor=low + width
    ),
    st.floats(1, 64),
    st.integers(64, 300_000),
    st.floats(0.25, 4.0),
    st.floats(0.25, 16.0),
)


def as_hugging_face_computes_it(plain: np.ndarray, s: RopeScaling) -> np.ndarray:
    """By wavelengths, in float32, in the order of `_compute_llama3_parameters`."""
    length, factor = np.float32(s.original_max_position_embeddings), np.float32(s.factor)
    low, high = np.float32(s.low_freq_factor), np.float32(s.high_freq_factor)
    wavelength = np.float32(2 * math.pi) / plain
    divided = np.where(wavelength > length / low, plain / factor, plain)
    smooth = (length / wavelength - low) / (high - low)
    medium = ~(wavelength < length / high) & ~(wavelength > length / low)
    return np.where(medium, (1 - smooth) * divided / factor + smooth * divided, divided)


@settings(max_examples=200)
@given(SCALINGS, st.integers(1, 64).map(lambda pairs: 2 * pairs), st.sampled_from([1e4, 250_000.0, 5e5]))
def test_honest_frequencies_are_within_units(scaling: RopeScaling, head_dim: int, theta: float) -> None:
    y = ops.inv_freq.forward(head_dim, theta, scaling)
    unit = ops.inv_freq.unit(y, theta, scaling)
    plain = ops.inv_freq.forward(head_dim, theta, arithmetic=SEQUENTIAL_FLOAT32)
    for found in (
        ops.inv_freq.forward(head_dim, theta, scaling, arithmetic=SEQUENTIAL_FLOAT32),
        as_hugging_face_computes_it(plain, scaling),
    ):
        assert float((np.abs(found.astype(np.float64) - y) / unit).max()) < 4
