"""The gradient of every op and of the loss: central differences of the op itself, and values worked out by hand."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops
from qwen3_spec.config import ACTIVATIONS
from qwen3_spec.ops.loss import IGNORED_LABEL, cross_entropy, cross_entropy_gradient

BOTH = pytest.mark.parametrize("arithmetic", [FLOAT64, SEQUENTIAL_FLOAT32], ids=["float64", "sequential"])
STEP = 1e-5
RELATIVE = 1e-6
ROUNDING = 1e-9
"""What the difference of two results of order 1 loses, divided by the step."""

few = settings(max_examples=25)
draws = st.integers(0, 2**32 - 1).map(np.random.default_rng)
sizes = st.integers(1, 3)


def check(
    op: Callable[..., np.ndarray], inputs: Sequence[np.ndarray], dy: np.ndarray, actual: Sequence[object]
) -> None:
    """`actual` are the gradients of `sum(dy * op(*inputs))`: central differences at every element of every input."""
    assert len(actual) == len(inputs)
    for index, (x, gradient) in enumerate(zip(inputs, actual, strict=True)):
        assert isinstance(gradient, np.ndarray) and gradient.shape == x.shape
        expected = np.empty(x.shape)
        for place in np.ndindex(x.shape):
            sides = []
            for step in (STEP, -STEP):
                moved = x.copy()
                moved[place] += step
                sides.append(np.sum(dy * op(*inputs[:index], moved, *inputs[index + 1 :])))
            expected[place] = (sides[0] - sides[1]) / (2 * STEP)
        assert np.abs(gradient - expected).max() <= max(RELATIVE * np.abs(expected).max(), ROUNDING)


@few
@given(draws, sizes, st.integers(1, 5))
def test_embedding_sums_what_each_id_was_given(rng: np.random.Generator, batch: int, length: int) -> None:
    ids = rng.integers(0, 3, (batch, length))  # of 4: some repeat, the last is never read
    weight, dy = rng.normal(size=(4, 2)), rng.normal(size=(batch, length, 2))
    check(lambda w: ops.embedding.forward(ids, w), [weight], dy, [ops.embedding.backward(dy, ids, 4)])


def test_looking_up_the_padding_row_trains_nothing() -> None:
    gradient = ops.embedding.backward(np.ones((1, 3, 2)), np.array([[0, 2, 0]]), 3, 0)
    np.testing.assert_array_equal(gradient, [[0, 0], [0, 0], [1, 1]])


@few
@given(draws, st.lists(sizes, min_size=1, max_size=3), st.integers(2, 5), st.sampled_from([1e-6, 0.3]))
def test_rms_norm_moves_its_own_scale(rng: np.random.Generator, rows: list[int], width: int, eps: float) -> None:
    x, dy, weight = rng.normal(size=(*rows, width)), rng.normal(size=(*rows, width)), rng.normal(size=width)
    actual = ops.rms_norm.by_input(dy, x, weight, eps), ops.rms_norm.by_weight(dy, x, eps)
    check(lambda x, weight: ops.rms_norm.forward(x, weight, eps), [x, weight], dy, actual)


@few
@given(draws, st.lists(sizes, min_size=1, max_size=2), sizes, st.integers(1, 4))
def test_linear_has_the_transposed_weight_and_the_sum_of_rows(
    rng: np.random.Generator, rows: list[int], outputs: int, inputs: int
) -> None:
    x, weight, bias = rng.normal(size=(*rows, inputs)), rng.normal(size=(outputs, inputs)), rng.normal(size=outputs)
    dy = rng.normal(size=(*rows, outputs))
    actual = ops.linear.by_input(dy, weight), ops.linear.by_weight(dy, x), ops.linear.sum_of_rows(dy)
    check(ops.linear.forward, [x, weight, bias], dy, actual)


@few
@given(draws, sizes, sizes, st.integers(1, 4), st.sampled_from([2, 4, 6]))
def test_rope_turns_back(rng: np.random.Generator, batch: int, heads: int, length: int, width: int) -> None:
    x, dy = rng.normal(size=(2, batch, heads, length, width))
    cos, sin = rng.normal(size=(2, batch, length, width))  # not of one angle: each is multiplied where it belongs
    check(lambda x: ops.rope.forward(x, cos, sin), [x], dy, [ops.rope.backward(dy, cos, sin)])


@few
@given(draws, sizes, sizes, sizes, sizes)
def test_repeated_heads_are_summed(
    rng: np.random.Generator, batch: int, kv_heads: int, groups: int, length: int
) -> None:
    x, dy = rng.normal(size=(batch, kv_heads, length, 2)), rng.normal(size=(batch, kv_heads * groups, length, 2))
    check(lambda x: ops.repeat_kv.forward(x, groups), [x], dy, [ops.repeat_kv.backward(dy, groups)])


@few
@given(draws, sizes, sizes, sizes, sizes, sizes)
def test_scores_reach_queries_and_shared_keys(
    rng: np.random.Generator, batch: int, kv_heads: int, groups: int, queries: int, keys: int
) -> None:
    q, k = rng.normal(size=(batch, kv_heads * groups, queries, 2)), rng.normal(size=(batch, kv_heads, keys, 2))
    dy = rng.normal(size=(batch, kv_heads * groups, queries, keys))
    actual = ops.scores.by_queries(dy, k, 0.3), ops.scores.by_keys(dy, q, kv_heads, 0.3)
    check(lambda q, k: ops.scores.forward(q, k, 0.3), [q, k], dy, actual)


@few
@given(draws, sizes, sizes, sizes, st.integers(2, 5))
def test_softmax_couples_the_visible_keys(
    rng: np.random.Generator, batch: int, heads: int, queries: int, keys: int
) -> None:
    scores, dy = rng.normal(size=(2, batch, heads, queries, keys))
    mask = rng.random((batch, queries, keys)) < 0.7
    mask[..., :2] |= mask.sum(axis=-1, keepdims=True) == 1  # alone, a key's probability is 1 whatever its score
    actual = ops.softmax.backward(dy, ops.softmax.forward(scores, mask))
    check(lambda scores: ops.softmax.forward(scores, mask), [scores], dy, [actual])
    assert not actual[~np.broadcast_to(mask[:, None], actual.shape)].any()


@few
@given(draws, sizes, sizes, sizes, sizes, sizes)
def test_context_reaches_probabilities_and_shared_values(
    rng: np.random.Generator, batch: int, kv_heads: int, groups: int, queries: int, keys: int
) -> None:
    probs, v = rng.random((batch, kv_heads * groups, queries, keys)), rng.normal(size=(batch, kv_heads, keys, 2))
    dy = rng.normal(size=(batch, queries, kv_heads * groups, 2))
    actual = ops.context.by_probs(dy, v), ops.context.by_values(dy, probs, kv_heads)
    check(ops.context.forward, [probs, v], dy, actual)


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
@few
@given(rng=draws, rows=sizes, width=sizes)
def test_swiglu_has_the_slope_of_its_activation(
    hidden_act: str, rng: np.random.Generator, rows: int, width: int
) -> None:
    gate, up, dy = 2 * rng.normal(size=(3, rows, width))
    gate += 0.01 * np.sign(gate)  # relu has no slope at 0
    actual = ops.swiglu.backward(dy, gate, up, hidden_act)
    check(lambda gate, up: ops.swiglu.forward(gate, up, hidden_act), [gate, up], dy, actual)


@few
@given(draws, sizes, sizes, st.integers(2, 6))
def test_cross_entropy_counts_the_labels_that_are_not_ignored(
    rng: np.random.Generator, batch: int, length: int, vocab: int
) -> None:
    logits, labels = 3 * rng.normal(size=(batch, length, vocab)), rng.integers(0, vocab, (batch, length))
    labels[rng.random(labels.shape) < 0.3] = IGNORED_LABEL
    actual = cross_entropy_gradient(logits, labels)
    check(lambda logits: cross_entropy(logits, labels), [logits], np.ones(()), [actual])
    assert not actual[labels == IGNORED_LABEL].any()


@BOTH
def test_a_row_without_a_visible_key_passes_nothing_back(arithmetic: Arithmetic) -> None:
    mask = np.array([[[False, False], [True, True]]])
    probs = ops.softmax.forward(np.zeros((1, 1, 2, 2)), mask, arithmetic=arithmetic)
    gradient = ops.softmax.backward(np.array([[[[1.0, 3.0], [1.0, 3.0]]]]), probs, arithmetic=arithmetic)
    np.testing.assert_array_equal(gradient, [[[[0, 0], [-0.5, 0.5]]]])


@BOTH
def test_the_slope_of_silu_at_log_3_is_rational(arithmetic: Arithmetic) -> None:
    # sigmoid(log 3) = 3/4, so 3/4 + log 3 * 3/16.
    slope = ops.swiglu.slope(np.array([math.log(3)]), "silu", arithmetic=arithmetic)
    np.testing.assert_allclose(slope, [3 / 4 + math.log(3) * 3 / 16], rtol=2e-7)


@BOTH
@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_far_from_0_the_slope_is_0_or_1(hidden_act: str, arithmetic: Arithmetic) -> None:
    slope = ops.swiglu.slope(np.array([-1e4, 1e4]), hidden_act, arithmetic=arithmetic)
    np.testing.assert_array_equal(slope, [0, 1])


def test_the_slope_of_relu_at_0_is_0() -> None:
    assert ops.swiglu.slope(np.zeros(1), "relu").tolist() == [0]


def test_another_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="'swish2'"):
        ops.swiglu.slope(np.ones(1), "swish2")


def test_linear_is_the_same_across_blocks_of_weights() -> None:
    outputs, inputs = 4, (1 << 20) + 3  # two blocks
    weight = np.arange(inputs, dtype=np.float32) * np.ones((outputs, 1), np.float32)
    dx = ops.linear.by_input(np.ones((1, outputs)), weight)
    np.testing.assert_array_equal(dx, [outputs * np.arange(inputs)])


@BOTH
def test_equal_logits_cost_the_logarithm_of_the_vocabulary(arithmetic: Arithmetic) -> None:
    logits = np.full((1, 2, 8), 7.0)
    labels = np.array([[3, IGNORED_LABEL]])
    np.testing.assert_allclose(cross_entropy(logits, labels, arithmetic=arithmetic), math.log(8), rtol=2e-7)
    gradient = cross_entropy_gradient(logits, labels, arithmetic=arithmetic)
    np.testing.assert_array_equal(gradient[0], [[1 / 8] * 3 + [-7 / 8] + [1 / 8] * 4, [0] * 8])


def test_the_loss_is_the_mean_over_the_labels_that_count() -> None:
    logits = np.log(np.array([[[1.0, 3.0], [1.0, 1.0], [9.0, 1.0]]]))
    loss = cross_entropy(logits, np.array([[0, IGNORED_LABEL, 0]]))  # probabilities 1/4 and 9/10
    np.testing.assert_allclose(loss, (math.log(4) + math.log(10 / 9)) / 2, rtol=1e-14)


def test_logits_of_any_size_cost_what_their_differences_say() -> None:
    logits = np.array([[[1e4, 0.0], [-1e4, 0.0]]])
    np.testing.assert_array_equal(cross_entropy(logits, np.array([[1, 0]])), 1e4)


@BOTH
def test_labels_that_are_all_ignored_cost_nothing(arithmetic: Arithmetic) -> None:
    logits, labels = np.ones((1, 2, 3)), np.full((1, 2), IGNORED_LABEL)
    assert cross_entropy(logits, labels, arithmetic=arithmetic) == 0
    np.testing.assert_array_equal(cross_entropy_gradient(logits, labels, arithmetic=arithmetic), np.zeros((1, 2, 3)))


@pytest.mark.parametrize("bad", [-1, 3])
def test_a_label_outside_the_vocabulary_is_refused(bad: int) -> None:
    with pytest.raises(IndexError, match=r"0\.\.2"):
        cross_entropy(np.ones((1, 2, 3)), np.array([[0, bad]]))


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(1, 3\)"):
        cross_entropy(np.ones((1, 2, 3)), np.zeros((1, 3), int))
