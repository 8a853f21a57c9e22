"""RoPE, GQA, scores, softmax and context at values worked out by hand."""

import math

import numpy as np
import pytest

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops

RNG = np.random.default_rng(12)
BOTH = pytest.mark.parametrize("arithmetic", [FLOAT64, SEQUENTIAL_FLOAT32], ids=["float64", "sequential"])


@BOTH
def test_inv_freq_falls_from_one_by_powers_of_theta_over_head_dim(arithmetic: Arithmetic) -> None:
    expected = [1, 1 / 10, 1 / 100, 1 / 1000]
    np.testing.assert_allclose(ops.inv_freq.forward(8, 10000.0, arithmetic=arithmetic), expected, rtol=3e-7)


def test_rope_table_repeats_the_pairs_once_over() -> None:
    cos, sin = ops.rope_table.forward(np.array([[2]]), np.array([0.5, 0.25]))
    np.testing.assert_allclose(cos, [[[math.cos(1), math.cos(0.5), math.cos(1), math.cos(0.5)]]], rtol=1e-15)
    np.testing.assert_allclose(sin, [[[math.sin(1), math.sin(0.5), math.sin(1), math.sin(0.5)]]], rtol=1e-15)


def test_float32_angles_are_rounded_before_the_cosine() -> None:
    # 16777217 has no float32: the position itself becomes 16777216.
    cos, _ = ops.rope_table.forward(np.array([[16777217]]), np.array([1.0]), arithmetic=SEQUENTIAL_FLOAT32)
    np.testing.assert_allclose(cos[0, 0], np.full(2, math.cos(16777216.0)), rtol=1e-6)


def test_rotate_half_moves_halves_not_neighbours() -> None:
    np.testing.assert_array_equal(ops.rope.rotate_half(np.array([1, 2, 3, 4])), [-3, -4, 1, 2])


@BOTH
def test_rope_at_position_0_is_the_identity(arithmetic: Arithmetic) -> None:
    x = RNG.standard_normal((2, 3, 1, 4)).astype(np.float32)
    cos, sin = ops.rope_table.forward(np.zeros((2, 1), int), ops.inv_freq.forward(4, 1e6), arithmetic=arithmetic)
    np.testing.assert_array_equal(ops.rope.forward(x, cos, sin, arithmetic=arithmetic), x)


def test_rope_by_a_quarter_turn_sends_a_half_to_the_other() -> None:
    cos, sin = ops.rope_table.forward(np.array([[1]]), np.array([math.pi / 2, math.pi / 6]))
    y = ops.rope.forward(np.array([[[[1.0, 2.0, 0.0, 0.0]]]]), cos, sin)
    np.testing.assert_allclose(y, [[[[0, 2 * math.sqrt(3) / 2, 1, 2 * 0.5]]]], atol=1e-15)


def test_rope_keeps_the_norm_of_each_pair() -> None:
    x = RNG.standard_normal((1, 2, 5, 6))
    y = ops.rope.forward(x, *ops.rope_table.forward(np.arange(5)[None] * 7919, ops.inv_freq.forward(6, 1e6)))
    np.testing.assert_allclose(np.hypot(y[..., :3], y[..., 3:]), np.hypot(x[..., :3], x[..., 3:]), rtol=1e-13)


def test_rope_scores_depend_on_the_distance_alone() -> None:
    q, k = RNG.standard_normal((2, 1, 1, 1, 8))
    table = ops.inv_freq.forward(8, 1e4)

    def score(i: int, j: int) -> float:
        turned_q, turned_k = (
            ops.rope.forward(x, *ops.rope_table.forward(np.array([[p]]), table)) for x, p in ((q, i), (k, j))
        )
        return float(ops.scores.forward(turned_q, turned_k, 1.0).item())

    assert score(1005, 1000) == pytest.approx(score(5, 0), rel=1e-11)
    assert score(0, 5) != pytest.approx(score(5, 0), rel=1e-3)


def test_rope_positions_belong_to_their_batch_row_and_slot() -> None:
    x = np.ones((2, 2, 2, 2))
    positions = np.array([[0, 1], [2, 3]])
    y = ops.rope.forward(x, *ops.rope_table.forward(positions, np.array([1.0])))
    expected = np.cos(positions) - np.sin(positions)
    np.testing.assert_allclose(y[..., 0], np.repeat(expected[:, None], 2, axis=1), rtol=1e-14)


def test_repeat_kv_repeats_each_head_in_place() -> None:
    labelled = np.array([10.0, 20.0])[None, :, None, None]
    np.testing.assert_array_equal(ops.repeat_kv.forward(labelled, 3)[0, :, 0, 0], [10, 10, 10, 20, 20, 20])


@BOTH
def test_scores_are_scaled_products_of_each_query_head_with_its_kv_head(arithmetic: Arithmetic) -> None:
    q = np.array([1, 2, 3, 4])[None, :, None, None] * np.ones((1, 4, 1, 2))
    k = np.array([[[5, 0], [7, 1]], [[100, 0], [0, 100]]])[None]  # 2 KV heads, 2 keys
    expected = 0.5 * np.array([[[[5, 8]], [[10, 16]], [[300, 300]], [[400, 400]]]])
    np.testing.assert_array_equal(ops.scores.forward(q, k, 0.5, arithmetic=arithmetic), expected)


ALL_3 = np.ones((1, 1, 3), bool)


@BOTH
def test_softmax_of_equal_scores_is_uniform(arithmetic: Arithmetic) -> None:
    probs = ops.softmax.forward(np.full((1, 2, 1, 4), 88.0), np.ones((1, 1, 4), bool), arithmetic=arithmetic)
    np.testing.assert_array_equal(probs, np.full((1, 2, 1, 4), 0.25))


@BOTH
def test_softmax_of_logarithms_is_rational(arithmetic: Arithmetic) -> None:
    probs = ops.softmax.forward(np.log([[[[1, 2, 5]]]]), ALL_3, arithmetic=arithmetic)
    np.testing.assert_allclose(probs, [[[[1 / 8, 2 / 8, 5 / 8]]]], rtol=3e-7)


def test_softmax_normalises_over_visible_keys_alone() -> None:
    mask = np.array([[[True, False, True]]])
    probs = ops.softmax.forward(np.log([[[[1, 2, 5]]]]), mask)
    np.testing.assert_allclose(probs, [[[[1 / 6, 0, 5 / 6]]]], rtol=1e-15)


def test_hidden_scores_get_exactly_zero_however_large() -> None:
    mask = np.array([[[True, False, True]]])
    np.testing.assert_array_equal(ops.softmax.forward(np.array([[[[0, 1e30, 0]]]]), mask), [[[[0.5, 0, 0.5]]]])


def test_hidden_scores_that_are_not_numbers_do_not_matter() -> None:
    mask = np.array([[[True, False, True]]])
    np.testing.assert_array_equal(ops.softmax.forward(np.array([[[[0, np.nan, 0]]]]), mask), [[[[0.5, 0, 0.5]]]])


def test_a_visible_score_that_is_no_number_is_not_hidden() -> None:
    assert np.isnan(ops.softmax.forward(np.array([[[[0, np.nan, 0]]]]), ALL_3)).all()


@BOTH
def test_a_row_without_a_visible_key_is_zero(arithmetic: Arithmetic) -> None:
    mask = np.array([[[False, False], [True, True]]])
    probs = ops.softmax.forward(np.zeros((1, 1, 2, 2)), mask, arithmetic=arithmetic)
    np.testing.assert_array_equal(probs, [[[[0, 0], [0.5, 0.5]]]])


def test_softmax_does_not_overflow() -> None:
    np.testing.assert_array_equal(
        ops.softmax.forward(np.array([[[[1e4, -1e4]]]]), np.ones((1, 1, 2), bool)), [[[[1, 0]]]]
    )


def test_each_batch_row_has_its_own_mask() -> None:
    mask = np.array([[[True, False]], [[False, True]]])
    np.testing.assert_array_equal(ops.softmax.forward(np.zeros((2, 1, 1, 2)), mask)[:, 0, 0], [[1, 0], [0, 1]])


@BOTH
def test_context_puts_heads_side_by_side_in_order(arithmetic: Arithmetic) -> None:
    probs = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]])[None, :, None]  # 4 heads, 1 query, 2 keys
    v = np.array([[[8, 1], [16, 2]], [[80, 10], [160, 20]]])[None]  # 2 KV heads, 2 keys, head_dim 2
    expected = [[[[8, 1], [16, 2], [120, 15], [140, 17.5]]]]
    np.testing.assert_array_equal(ops.context.forward(probs, v, arithmetic=arithmetic), expected)
