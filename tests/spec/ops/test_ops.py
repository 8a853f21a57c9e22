"""Embedding, norm, linear, residual and activation at values worked out by hand."""

import math

import numpy as np
import pytest

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops

BOTH = pytest.mark.parametrize("arithmetic", [FLOAT64, SEQUENTIAL_FLOAT32], ids=["float64", "sequential"])


def test_embedding_copies_rows() -> None:
    weight = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    np.testing.assert_array_equal(ops.embedding.forward(np.array([[2, 0]]), weight), [[[5, 6], [1, 2]]])


@pytest.mark.parametrize("bad", [-1, 3])
def test_embedding_refuses_an_id_outside_the_vocabulary(bad: int) -> None:
    with pytest.raises(IndexError, match=r"0\.\.2"):
        ops.embedding.forward(np.array([[0, bad]]), np.ones((3, 2)))


@BOTH
def test_rms_norm_of_3_4_with_eps_inside_the_root(arithmetic: Arithmetic) -> None:
    # mean(9, 16) = 12.5, plus eps 12.5 = 25, root 5.
    y = ops.rms_norm.forward(np.array([3.0, 4.0]), np.array([1.0, 1.0]), 12.5, arithmetic=arithmetic)
    np.testing.assert_allclose(y, [3 / 5, 4 / 5], rtol=2e-7)


def test_rms_norm_multiplies_by_the_weight_itself() -> None:
    np.testing.assert_allclose(
        ops.rms_norm.forward(np.array([3.0, 4.0]), np.array([-2.0, 0.0]), 12.5), [-6 / 5, 0], rtol=1e-15
    )


def test_rms_norm_does_not_subtract_the_mean() -> None:
    np.testing.assert_allclose(ops.rms_norm.forward(np.array([7.0, 7.0, 7.0]), np.ones(3), 0.0), [1, 1, 1], rtol=1e-15)


def test_rms_norm_of_a_zero_row_is_zero() -> None:
    np.testing.assert_array_equal(ops.rms_norm.forward(np.zeros(4), np.ones(4), 1e-6), np.zeros(4))


def test_rms_norm_of_a_tiny_row_is_divided_by_the_root_of_eps() -> None:
    # mean square 3e-6 and eps 1e-6: root 2e-3.
    x = np.full(4, math.sqrt(3e-6))
    np.testing.assert_allclose(ops.rms_norm.forward(x, np.ones(4), 1e-6), np.full(4, math.sqrt(3) / 2), rtol=1e-14)


def test_qk_norm_treats_every_head_alone() -> None:
    heads = np.array([[[[3.0, 4.0], [-30.0, 40.0]]]])  # [batch, seq, heads, head_dim]
    expected = np.array([[[[3.0, 4.0], [-3.0, 4.0]]]]) / math.sqrt(12.5)
    np.testing.assert_allclose(ops.rms_norm.forward(heads, np.ones(2), 0.0), expected, rtol=1e-14)


@BOTH
def test_linear_with_integers_is_exact(arithmetic: Arithmetic) -> None:
    x = np.array([[[1, 2, 3]]])
    weight = np.array([[1, 0, 0], [1, 1, 1], [0, -1, 2], [5, 0, 1]])
    np.testing.assert_array_equal(ops.linear.forward(x, weight, arithmetic=arithmetic), [[[1, 6, 4, 8]]])


@BOTH
def test_linear_adds_the_bias(arithmetic: Arithmetic) -> None:
    y = ops.linear.forward(np.array([[1, 2]]), np.array([[3, 4], [5, 6]]), np.array([100, -200]), arithmetic=arithmetic)
    np.testing.assert_array_equal(y, [[111, -183]])


def test_linear_is_the_same_across_blocks_of_weights() -> None:
    inputs, outputs = 2048, 4101  # two blocks and a rest
    weight = np.arange(outputs)[:, None] * np.ones((1, inputs), np.float32)
    np.testing.assert_array_equal(ops.linear.forward(np.ones((1, inputs)), weight), [inputs * np.arange(outputs)])


def test_residual_adds() -> None:
    np.testing.assert_array_equal(ops.residual.forward(np.array([1.5, -2.0]), np.array([0.25, 4.0])), [1.75, 2.0])


@BOTH
def test_silu_of_log_numbers_is_rational(arithmetic: Arithmetic) -> None:
    # sigmoid(ln 3) = 3/4, sigmoid(-ln 3) = 1/4.
    gate = np.array([math.log(3), -math.log(3), 0.0])
    expected = [0.75 * math.log(3) * 4, -0.25 * math.log(3) * 8, 0]
    np.testing.assert_allclose(
        ops.swiglu.forward(gate, np.array([4, 8, 5]), "silu", arithmetic=arithmetic), expected, rtol=3e-7
    )


@BOTH
@pytest.mark.parametrize("hidden_act", ["silu", "gelu", "gelu_tanh", "relu"])
def test_activations_far_out_are_the_gate_or_nothing(arithmetic: Arithmetic, hidden_act: str) -> None:
    y = ops.swiglu.forward(np.array([1000.0, -1000.0]), np.array([3.0, 3.0]), hidden_act, arithmetic=arithmetic)
    np.testing.assert_array_equal(np.abs(y), [3000, 0])


def test_gelu_is_x_times_the_normal_distribution() -> None:
    # Phi(1) and Phi(-1) from tables, 15 digits.
    y = ops.swiglu.forward(np.array([1.0, -1.0]), np.array([2.0, 2.0]), "gelu")
    np.testing.assert_allclose(y, [2 * 0.841344746068543, -2 * 0.158655253931457], rtol=1e-14)


def test_gelu_tanh_at_one() -> None:
    expected = 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))
    np.testing.assert_allclose(
        ops.swiglu.forward(np.array([1.0]), np.array([1.0]), "gelu_tanh"), [expected], rtol=1e-15
    )


def test_relu_keeps_the_positive_part() -> None:
    np.testing.assert_array_equal(ops.swiglu.forward(np.array([2.0, -2.0]), np.array([3.0, 3.0]), "relu"), [6, 0])


def test_the_activation_is_on_the_gate_not_on_up() -> None:
    np.testing.assert_array_equal(ops.swiglu.forward(np.array([2.0]), np.array([-3.0]), "relu"), [-6])


def test_an_unknown_activation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'swish2'"):
        ops.swiglu.forward(np.ones(1), np.ones(1), "swish2")
