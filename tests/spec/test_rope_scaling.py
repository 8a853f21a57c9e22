"""YaRN in closed form: what stays, what is divided, what lies between, and what multiplies cos and sin."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, RopeScaling, SpecConfig, ops
from qwen3_spec.rope_scaling import KINDS, yarn_ramp, yarn_range

QWEN3 = RopeScaling("yarn", 4.0, 32768, 0.1 * math.log(4) + 1)
PLAIN = ops.inv_freq.forward(128, 1e6)
SCALED = ops.inv_freq.forward(128, 1e6, QWEN3)
TURNS = 32768 * PLAIN / (2 * math.pi)
BOTH = pytest.mark.parametrize("arithmetic", [FLOAT64, SEQUENTIAL_FLOAT32], ids=["float64", "sequential"])


@BOTH
def test_a_factor_of_1_is_plain_rope(arithmetic: Arithmetic) -> None:
    found = ops.inv_freq.forward(128, 1e6, replace(QWEN3, factor=1.0), arithmetic=arithmetic)
    np.testing.assert_allclose(found, ops.inv_freq.forward(128, 1e6, arithmetic=arithmetic), rtol=2e-7)


def test_the_highest_frequency_is_untouched_and_the_lowest_is_divided_by_the_factor() -> None:
    assert SCALED[0] == PLAIN[0] == 1
    assert SCALED[-1] == pytest.approx(PLAIN[-1] / 4, rel=1e-15)


def test_pairs_beyond_the_betas_are_kept_or_divided_as_the_paper_says() -> None:
    exact = ops.inv_freq.forward(128, 1e6, replace(QWEN3, truncate=False))
    assert (TURNS > 32).sum() == 24 and (TURNS < 1).sum() == 24
    np.testing.assert_allclose(exact[TURNS >= 32], PLAIN[TURNS >= 32], rtol=1e-15)
    np.testing.assert_allclose(exact[TURNS <= 1], PLAIN[TURNS <= 1] / 4, rtol=1e-15)


def test_pairs_between_the_betas_lie_between_and_fall_steadily() -> None:
    ratio = SCALED / PLAIN
    assert (np.diff(ratio) <= 1e-15).all() and ratio.min() == pytest.approx(0.25)
    between = (TURNS < 32) & (TURNS > 1)
    assert between.sum() == 16 and ((ratio > 0.25) & (ratio < 1))[between].all()


def test_qwen3s_ramp_runs_from_pair_23_to_pair_40_in_equal_steps() -> None:
    assert yarn_range(128, 1e6, QWEN3) == (23, 40)
    ramp = yarn_ramp(PLAIN, 1e6, QWEN3)
    np.testing.assert_allclose(ramp[23:41], np.arange(18) / 17, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(SCALED[30], PLAIN[30] * (10 / 17 + 7 / 17 / 4), rtol=1e-14)


def test_the_ends_of_the_ramp_are_where_the_turns_are_the_betas() -> None:
    low, high = yarn_range(128, 1e6, replace(QWEN3, truncate=False))
    for pair, turns in ((low, 32), (high, 1)):
        assert 32768 * 1e6 ** (-pair / 64) / (2 * math.pi) == pytest.approx(turns, rel=1e-12)


def test_equal_ends_are_a_step() -> None:
    step = replace(QWEN3, beta_fast=4.0, beta_slow=4.0, truncate=False)
    ratio = ops.inv_freq.forward(128, 1e6, step) / PLAIN
    np.testing.assert_allclose(ratio, np.where(TURNS > 4, 1, 0.25), rtol=1e-14)


@BOTH
def test_the_attention_factor_multiplies_cos_and_sin(arithmetic: Arithmetic) -> None:
    ids = np.array([[0, 3, 131071]])
    for scaled, plain in zip(
        ops.rope_table.forward(ids, SCALED, 1.3, arithmetic=arithmetic),
        ops.rope_table.forward(ids, SCALED, arithmetic=arithmetic),
        strict=True,
    ):
        np.testing.assert_allclose(scaled, 1.3 * plain, rtol=1e-6 if arithmetic is SEQUENTIAL_FLOAT32 else 1e-15)


def test_an_attention_factor_of_1_changes_no_bit() -> None:
    ids = np.arange(50)[None] * 2711
    for one, other in zip(ops.rope_table.forward(ids, PLAIN, 1.0), ops.rope_table.forward(ids, PLAIN), strict=True):
        np.testing.assert_array_equal(one, other)


def test_scores_carry_the_square_of_the_attention_factor() -> None:
    q, k = np.random.default_rng(3).standard_normal((2, 1, 1, 1, 128))

    def score(factor: float) -> float:
        tables = ops.rope_table.forward(np.array([[70_000]]), SCALED, factor)
        return float(ops.scores.forward(ops.rope.forward(q, *tables), ops.rope.forward(k, *tables), 1.0).item())

    assert score(1.25) == pytest.approx(1.25**2 * score(1.0), rel=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rope_type": "linear"}, "rope_type 'linear'"),
        ({"factor": 0.5}, "factor 0.5"),
        ({"factor": math.nan}, "factor nan"),
        ({"original_max_position_embeddings": 0}, "original_max_position_embeddings 0"),
        ({"attention_factor": 0.0}, "attention_factor 0.0"),
        ({"beta_fast": math.inf}, "beta_fast inf"),
        ({"beta_slow": -1.0}, "beta_slow -1.0"),
        ({"beta_fast": 1.0, "beta_slow": 32.0}, "beta_fast 1.0 is less than beta_slow 32.0"),
    ],
)
def test_an_impossible_scaling_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RopeScaling(**(asdict(QWEN3) | wrong))


def test_a_base_whose_powers_do_not_fall_cannot_be_scaled() -> None:
    sizes = (6, 9, 2, 4, 2, 4, 11)
    assert SpecConfig(*sizes, rms_norm_eps=1e-6, rope_theta=1.0).attention_factor == 1
    with pytest.raises(ValueError, match=r"rope_theta 1\.0"):
        SpecConfig(*sizes, rms_norm_eps=1e-6, rope_theta=1.0, rope_scaling=QWEN3)


def worst(actual: np.ndarray, expected: np.ndarray, unit: np.ndarray) -> float:
    return float((np.abs(actual.astype(np.float64) - expected) / unit).max())


scalings = st.builds(
    lambda factor, length, a, slow, ratio, whole: RopeScaling("yarn", factor, length, a, slow * ratio, slow, whole),
    st.floats(1, 64),
    st.integers(1024, 300_000),
    st.floats(0.5, 2.0),
    st.floats(0.5, 4.0),
    st.floats(1.5, 64.0),
    st.booleans(),
)


@settings(max_examples=200)
@given(scalings, st.integers(1, 64).map(lambda pairs: 2 * pairs), st.sampled_from([1e4, 250_000.0, 1e6, 5e6]))
def test_honest_frequencies_are_within_units(scaling: RopeScaling, head_dim: int, theta: float) -> None:
    y = ops.inv_freq.forward(head_dim, theta, scaling)
    unit = ops.inv_freq.unit(y, theta, scaling)
    assert worst(ops.inv_freq.forward(head_dim, theta, scaling, arithmetic=SEQUENTIAL_FLOAT32), y, unit) < 4
    plain = ops.inv_freq.forward(head_dim, theta, arithmetic=SEQUENTIAL_FLOAT32)
    ramp = KINDS[scaling.rope_type].ramp(plain, theta, scaling, arithmetic=SEQUENTIAL_FLOAT32)
    in_one_product = plain * (1 - ramp * np.float32(1 - 1 / scaling.factor))
    assert worst(in_one_product, y, unit) < 4


@settings(max_examples=100)
@given(st.lists(st.integers(0, 131_071), min_size=1, max_size=9), st.floats(0.5, 2.0))
def test_honest_tables_are_within_units(positions: list[int], factor: float) -> None:
    ids, table = np.array([positions]), SCALED.astype(np.float32)
    unit = ops.rope_table.unit(ids, table, factor)
    honest = ops.rope_table.forward(ids, table, factor, arithmetic=SEQUENTIAL_FLOAT32)
    for actual, truth in zip(honest, ops.rope_table.forward(ids, table, factor), strict=True):
        assert worst(actual, truth, unit) < 2


def test_the_units_are_far_below_a_wrong_factor_a_wrong_ramp_and_a_missing_attention_factor() -> None:
    unit = ops.inv_freq.unit(SCALED, 1e6, QWEN3)
    for wrong in (replace(QWEN3, factor=4.001), replace(QWEN3, truncate=False), replace(QWEN3, beta_slow=1.5)):
        assert worst(ops.inv_freq.forward(128, 1e6, wrong), SCALED, unit) > 100
    ids = np.arange(9)[None]
    right = ops.rope_table.forward(ids, SCALED, QWEN3.attention_factor)[0]
    assert worst(ops.rope_table.forward(ids, SCALED, 1.1387)[0], right, ops.rope_table.unit(ids, SCALED, 1.1387)) > 100
