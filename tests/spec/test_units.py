"""Honest float32 stays within a few rounding units of truth on any input; a seeded bug is far outside."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops, sums

NUMPY_FLOAT32 = Arithmetic(np.float32, np.matmul, lambda a: np.asarray(np.sum(a, axis=-1, dtype=np.float32)))
FROM_THE_LAST = Arithmetic(
    np.float32,
    lambda a, b: SEQUENTIAL_FLOAT32.matmul(a[..., ::-1], b[..., ::-1, :]),
    lambda a: SEQUENTIAL_FLOAT32.sum(a[..., ::-1]),
)
IN_LANES = Arithmetic(
    np.float32,
    lambda a, b: np.sum([SEQUENTIAL_FLOAT32.matmul(a[..., i::8], b[..., i::8, :]) for i in range(8)], axis=0),
    lambda a: np.sum([SEQUENTIAL_FLOAT32.sum(a[..., i::8]) for i in range(min(8, a.shape[-1]))], axis=0),
)
HONEST = 4.0
"""Units within which float32 stays, whatever the width and in whatever order it sums."""
BUG = 100.0

Draw = Callable[..., np.ndarray]
Values = tuple[Draw, np.random.Generator]


def worst(actual: np.ndarray, expected: np.ndarray, unit: np.ndarray) -> float:
    """The largest error in units; where the unit is 0 any error is infinite."""
    error = np.abs(actual.astype(np.float64) - expected)
    assert error.shape == unit.shape and unit.dtype == np.float64
    return float(np.where(error == 0, 0, error / np.where(unit == 0, 1e-300, unit)).max())


@st.composite
def values(draw: st.DrawFn) -> Values:
    """A source of float32 arrays: plain, offset, one sign, outliers, cancelling pairs, magnitudes, sparse, alike."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(
        st.sampled_from(["normal", "offset", "positive", "outliers", "cancelling", "magnitudes", "sparse", "alike"])
    )
    factor = 2.0 ** draw(st.integers(-12, 3))

    def array(*shape: int) -> np.ndarray:
        x = rng.standard_normal(shape)
        if kind == "offset":
            x += 5
        elif kind == "positive":
            x = np.abs(x)
        elif kind == "outliers":
            x[..., :: max(1, shape[-1] // 2)] *= 300
        elif kind == "cancelling":
            half = shape[-1] // 2
            x[..., half : 2 * half] = -x[..., :half]
        elif kind == "magnitudes":
            x *= np.exp2(rng.integers(-10, 4, shape))
        elif kind == "sparse":
            x *= rng.random(shape) < 0.1
        elif kind == "alike":
            x = np.broadcast_to(rng.uniform(0.5, 2, (*shape[:-1], 1)), shape)
        return (factor * x).astype(np.float32)

    return array, rng


any_order = st.sampled_from([NUMPY_FLOAT32, SEQUENTIAL_FLOAT32, FROM_THE_LAST, IN_LANES])
property_test = settings(max_examples=60)


@property_test
@given(values(), any_order, st.sampled_from([1, 5, 40, 128, 1024, 4096]))
def test_rms_norm_is_within_units(source: Values, arithmetic: Arithmetic, width: int) -> None:
    draw, rng = source
    x, weight = draw(3, 2, width), rng.uniform(-1.5, 1.5, width).astype(np.float32)
    y = ops.rms_norm.forward(x, weight, 1e-6)
    assert worst(ops.rms_norm.forward(x, weight, 1e-6, arithmetic=arithmetic), y, ops.rms_norm.unit(y, x)) < HONEST


@property_test
@given(values(), any_order, st.sampled_from([1, 10, 63, 64, 65, 200, 3072]), st.booleans())
def test_linear_is_within_units(source: Values, arithmetic: Arithmetic, width: int, has_bias: bool) -> None:
    draw, rng = source
    x, weight = draw(1, 5, width), rng.normal(0, 0.05, (30, width)).astype(np.float32)
    if width == 200:
        weight[:] = np.abs(weight)
    bias = draw(30) if has_bias else None
    honest = ops.linear.forward(x, weight, bias, arithmetic=arithmetic)
    assert worst(honest, ops.linear.forward(x, weight, bias), ops.linear.unit(x, weight, bias)) < HONEST


@property_test
@given(values(), values(), any_order)
def test_rope_is_within_units(source: Values, tables: Values, arithmetic: Arithmetic) -> None:
    x, cos, sin = source[0](2, 3, 4, 6), tables[0](2, 4, 6), tables[0](2, 4, 6)
    honest = ops.rope.forward(x, cos, sin, arithmetic=arithmetic)
    assert worst(honest, ops.rope.forward(x, cos, sin), ops.rope.unit(x, cos, sin)) < HONEST


@property_test
@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=9), any_order)
def test_rope_tables_are_within_units(positions: list[int], arithmetic: Arithmetic) -> None:
    ids, table = np.array([positions]), ops.inv_freq.forward(10, 1e6).astype(np.float32)
    unit = ops.rope_table.unit(ids, table)
    for honest, truth in zip(
        ops.rope_table.forward(ids, table, arithmetic=arithmetic), ops.rope_table.forward(ids, table), strict=True
    ):
        assert worst(honest, truth, unit) < HONEST


@property_test
@given(st.integers(1, 100).map(lambda pairs: 2 * pairs), st.floats(2, 1e7), any_order)
def test_inv_freq_is_within_units(head_dim: int, theta: float, arithmetic: Arithmetic) -> None:
    theta = float(np.float32(theta))
    y = ops.inv_freq.forward(head_dim, theta)
    assert worst(ops.inv_freq.forward(head_dim, theta, arithmetic=arithmetic), y, ops.inv_freq.unit(y)) < HONEST


@property_test
@given(values(), values(), any_order, st.sampled_from([2, 10, 64, 128, 256]))
def test_scores_are_within_units(left: Values, right: Values, arithmetic: Arithmetic, head_dim: int) -> None:
    q, k, scaling = left[0](2, 6, 3, head_dim), right[0](2, 2, 7, head_dim), head_dim**-0.5
    honest = ops.scores.forward(q, k, scaling, arithmetic=arithmetic)
    assert worst(honest, ops.scores.forward(q, k, scaling), ops.scores.unit(q, k, scaling)) < HONEST


@st.composite
def score_rows(draw: st.DrawFn, keys: st.SearchStrategy[int]) -> np.ndarray:
    """Scores `[2, 6, 3, key]`: of all kinds, or so nearly equal that their exponentials round the same way."""
    source, rng = draw(values())
    shape = (2, 6, 3, draw(keys))
    if draw(st.booleans()):
        return source(*shape)
    scatter = 10.0 ** draw(st.integers(-8, -1))
    return np.asarray(rng.uniform(-3, 3, (2, 6, 3, 1)) + scatter * rng.standard_normal(shape), np.float32)


@property_test
@given(score_rows(st.sampled_from([1, 7, 64, 300, 2000])), any_order, st.booleans(), st.integers(0, 99))
def test_softmax_is_within_units(scores: np.ndarray, arithmetic: Arithmetic, some: bool, seed: int) -> None:
    visible = np.random.default_rng(seed).random((2, 3, scores.shape[-1])) < 0.7
    mask = visible if some else np.ones_like(visible)
    truth = ops.softmax.forward(scores, mask)
    unit = ops.softmax.unit(truth, scores, mask)
    assert worst(ops.softmax.forward(scores, mask, arithmetic=arithmetic), truth, unit) < HONEST


@property_test
@given(score_rows(st.sampled_from([1, 7, 129, 1000])), values(), any_order, st.booleans())
def test_context_is_within_units(scores: np.ndarray, right: Values, arithmetic: Arithmetic, repeated: bool) -> None:
    keys = scores.shape[-1]
    probs = ops.softmax.forward(scores, np.ones((2, 3, keys), bool)).astype(np.float32)
    v = np.repeat(right[0](2, 2, 1, 5), keys, axis=2) if repeated else right[0](2, 2, keys, 5)
    honest = ops.context.forward(probs, v, arithmetic=arithmetic)
    assert worst(honest, ops.context.forward(probs, v), ops.context.unit(probs, v, scores)) < HONEST


@property_test
@given(score_rows(st.sampled_from([7, 129, 1000])), values(), any_order, st.booleans())
def test_a_context_that_divides_last_is_within_units(
    scores: np.ndarray, right: Values, arithmetic: Arithmetic, repeated: bool
) -> None:
    keys = scores.shape[-1]
    probs = ops.softmax.forward(scores, np.ones((2, 3, keys), bool)).astype(np.float32)
    v = np.repeat(right[0](2, 2, 1, 5), keys, axis=2) if repeated else right[0](2, 2, keys, 5)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = np.swapaxes(arithmetic.sum(exponentials), 1, 2)[..., None]
    honest = ops.context.forward(exponentials, v, arithmetic=arithmetic) / total
    assert worst(honest, ops.context.forward(probs, v), ops.context.unit(probs, v, scores)) < HONEST


def test_a_fused_softmax_of_nearly_equal_scores_carries_its_sums_drift() -> None:
    rng = np.random.default_rng(18)
    scores = np.asarray(1 + 1e-6 * rng.standard_normal((1, 2, 3, 1000)), np.float32)
    v = np.asarray(5 + rng.standard_normal((1, 2, 1000, 5)), np.float32)
    probs = ops.softmax.forward(scores, np.ones((1, 3, 1000), bool)).astype(np.float32)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = np.swapaxes(SEQUENTIAL_FLOAT32.sum(exponentials), 1, 2)[..., None]
    honest = ops.context.forward(exponentials, v, arithmetic=SEQUENTIAL_FLOAT32) / total
    assert worst(honest, ops.context.forward(probs, v), ops.context.unit(probs, v, scores)) < HONEST


@property_test
@given(values(), values(), any_order)
def test_residual_is_within_units(left: Values, right: Values, arithmetic: Arithmetic) -> None:
    a, b = left[0](3, 4, 50), right[0](3, 4, 50)
    assert (
        worst(ops.residual.forward(a, b, arithmetic=arithmetic), ops.residual.forward(a, b), ops.residual.unit(a, b))
        < HONEST
    )


@property_test
@given(values(), values(), any_order, st.sampled_from(["silu", "gelu", "gelu_tanh", "relu"]))
def test_swiglu_is_within_units(left: Values, right: Values, arithmetic: Arithmetic, hidden_act: str) -> None:
    gate, up = left[0](3, 4, 50), right[0](3, 4, 50)
    y = ops.swiglu.forward(gate, up, hidden_act)
    unit = ops.swiglu.unit(y, gate, up, hidden_act)
    assert worst(ops.swiglu.forward(gate, up, hidden_act, arithmetic=arithmetic), y, unit) < HONEST


def test_a_silu_that_flushes_to_zero_is_within_units() -> None:
    # x / (1 + exp(-x)) in float32 overflows inside from -89 on: an honest 0 for -2e-37.
    gate, up = np.full((1, 1, 1), -89.0), np.full((1, 1, 1), 50.0)
    y = ops.swiglu.forward(gate, up, "silu")
    assert y != 0
    assert worst(np.zeros_like(y), y, ops.swiglu.unit(y, gate, up, "silu")) < HONEST


def test_a_sum_that_float32_holds_exactly_still_counts_the_additions_of_another() -> None:
    assert sums.same_sign_sum(np.ones(1000)) == pytest.approx(math.sqrt(999 / 12))


@pytest.mark.parametrize("lanes", [8, 16])
def test_terms_that_are_all_alike_count_what_they_lose_in_lanes(lanes: int) -> None:
    # A few of these come out right from the first to the last, by luck, and wrong in lanes, which add up in a few more.
    terms = np.broadcast_to(np.random.default_rng(19).uniform(1, 2, (500, 1)).astype(np.float32), (500, 1024))
    total = SEQUENTIAL_FLOAT32.sum(terms[:, ::lanes]) * np.float32(lanes)
    lost = np.abs(total / (1024 * terms[:, 0].astype(np.float64)) - 1) * 2.0**24
    assert (sums.same_sign_sum(terms) >= lost - 4).all()


@pytest.mark.parametrize(
    ("unit", "shape"),
    [
        (ops.embedding.unit(np.array([[1, 2, 0]]), np.ones((3, 5))), (1, 3, 5)),
        (ops.rope.rotate_half_unit(np.ones((1, 2, 3, 4))), (1, 2, 3, 4)),
        (ops.repeat_kv.unit(np.ones((1, 2, 3, 4)), 3), (1, 6, 3, 4)),
    ],
    ids=["embedding", "rotate_half", "repeat_kv"],
)
def test_copies_have_unit_0(unit: np.ndarray, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(unit, np.zeros(shape))


def test_hidden_probabilities_have_unit_0() -> None:
    mask = np.array([[[True, False]]])
    scores = np.array([[[[1.0, np.inf]]]])
    unit = ops.softmax.unit(ops.softmax.forward(scores, mask), scores, mask)
    assert unit[..., 1] == 0 and unit[..., 0] == pytest.approx(2.0**-24 * 3)


def test_a_row_without_a_visible_key_has_unit_0() -> None:
    mask = np.zeros((1, 1, 2), bool)
    scores = np.ones((1, 1, 1, 2))
    np.testing.assert_array_equal(
        ops.softmax.unit(ops.softmax.forward(scores, mask), scores, mask), np.zeros((1, 1, 1, 2))
    )


def test_hidden_scores_do_not_reach_the_contexts_unit() -> None:
    probs, v = np.array([[[[1.0, 0.0]]]]), np.ones((1, 1, 2, 1))
    unit = ops.context.unit(probs, v, np.array([[[[3.0, np.nan]]]]))
    assert unit.item() == pytest.approx(2.0**-24 * 4, rel=0.03)


def test_units_are_proportional_to_the_roundoff() -> None:
    y = np.array([3.0])
    assert ops.rms_norm.unit(y, np.array([7.0]), roundoff=2.0**-8) == pytest.approx(3 * 2.0**-8)


def test_the_linears_unit_is_the_root_of_its_squared_partial_sums_and_products() -> None:
    # 4096 products of 1: partial sums 1..4096. Eight looks join them by a polygon: 1 % apart.
    x, weight = np.ones((1, 4096)), np.ones((1, 4096))
    exact = math.sqrt(sum(n * n for n in range(1, 4097)) + 4096)
    assert ops.linear.unit(x, weight).item() == pytest.approx(2.0**-24 * exact, rel=1e-2)


def test_the_linears_unit_estimates_partial_sums_that_return_to_zero() -> None:
    rng = np.random.default_rng(14)
    products = rng.standard_normal((400, 64))
    products -= products.mean(axis=1, keepdims=True)
    exact = np.sqrt((np.cumsum(products, axis=1) ** 2).sum(axis=1) + (products**2).sum(axis=1))
    unit = ops.linear.unit(products, np.ones((1, 64)))[:, 0] * 2.0**24
    assert np.sqrt(np.mean(unit**2)) == pytest.approx(np.sqrt(np.mean(exact**2)), rel=0.1)


def test_the_linears_unit_counts_the_bias_in_every_partial_sum_and_the_result() -> None:
    x, weight = np.array([[2.0, 1.0]]), np.array([[3.0, 1.0]])
    with_bias = ops.linear.unit(x, weight, np.array([-5.0])).item() * 2.0**24
    without = ops.linear.unit(x, weight).item() * 2.0**24
    assert with_bias**2 - without**2 == pytest.approx(2 * 25 + 4)


@property_test
@given(values(), values(), st.sampled_from([10, 200, 3072]))
def test_a_linear_that_starts_from_its_bias_is_within_units(left: Values, right: Values, width: int) -> None:
    x, weight, bias = left[0](1, 5, width), right[1].normal(0, 0.05, (30, width)).astype(np.float32), right[0](30)
    honest = SEQUENTIAL_FLOAT32.matmul(
        np.concatenate([np.ones((1, 5, 1)), x], axis=-1), np.concatenate([bias[:, None], weight], axis=-1).T
    )
    y, unit = ops.linear.judged(x, weight, bias)
    assert worst(honest, y, unit) < HONEST


def test_the_linears_unit_is_the_same_from_either_end() -> None:
    # All of the sum in one product: its partial sums are large after it, or before it.
    x, weight = np.ones((1, 1024)), np.full((1, 1024), 1e-3)
    weight[0, 1000] = 1000
    assert ops.linear.unit(x, weight) == pytest.approx(ops.linear.unit(x, weight[:, ::-1]), rel=0.1)


def test_a_linear_and_its_unit_come_in_one_pass() -> None:
    rng = np.random.default_rng(17)
    x, weight, bias = rng.standard_normal((2, 3, 700)), rng.standard_normal((300, 700)), rng.standard_normal(300)
    y, unit = ops.linear.judged(x, weight, bias)
    np.testing.assert_allclose(y, ops.linear.forward(x, weight, bias), rtol=1e-13, atol=1e-12)
    np.testing.assert_array_equal(unit, ops.linear.unit(x, weight, bias))


@pytest.mark.parametrize(("left", "right"), [(1e-25, 1.0), (1e25, 1.0), (1e25, 1e-25), (1e-25, 1e25)])
def test_the_linears_unit_holds_where_squares_leave_float32(left: float, right: float) -> None:
    x, weight = np.full((1, 70), 1.0), np.full((1, 70), 3.0)
    unit = ops.linear.unit(left * x, right * weight).item()
    assert unit == pytest.approx(left * right * ops.linear.unit(x, weight).item(), rel=1e-5)


def test_a_sum_of_no_terms_has_unit_0_or_the_smallest_normal() -> None:
    assert ops.linear.unit(np.ones((1, 0)), np.ones((1, 0))).item() == 2.0**-126


def test_the_linears_unit_is_the_same_in_blocks_of_outputs() -> None:
    rng = np.random.default_rng(15)
    x, weight, bias = rng.standard_normal((3, 70)), rng.standard_normal((1030, 70)), rng.standard_normal(1030)
    whole = ops.linear.unit(x, weight, bias)
    for n in (0, 255, 256, 1029):
        np.testing.assert_allclose(whole[:, [n]], ops.linear.unit(x, weight[[n]], bias[[n]]), rtol=1e-6)


RNG = np.random.default_rng(16)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def rms_norm_bug() -> float:
    """eps 2e-6 for 1e-6, on a row of RMS 1e-3."""
    x, weight = 1e-3 * normal(1, 1, 72), np.ones(72)
    y = ops.rms_norm.forward(x, weight, 1e-6)
    return worst(ops.rms_norm.forward(x, weight, 2e-6), y, ops.rms_norm.unit(y, x))


def linear_bug() -> float:
    """Weights rounded to TF32's 10 bits."""
    x, weight = normal(1, 5, 1024), normal(30, 1024)
    rounded = (weight.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return worst(ops.linear.forward(x, rounded), ops.linear.forward(x, weight), ops.linear.unit(x, weight))


def rope_bug() -> float:
    """Angles of theta 0.1 % too large."""
    x, positions = normal(1, 2, 9, 8), np.arange(9)[None]
    right, wrong = (ops.rope_table.forward(positions, ops.inv_freq.forward(8, theta)) for theta in (1e6, 1.001e6))
    return worst(ops.rope.forward(x, *wrong), ops.rope.forward(x, *right), ops.rope.unit(x, *right))


def rope_table_bug() -> float:
    """Positions from 1."""
    positions, table = np.arange(9)[None], ops.inv_freq.forward(8, 1e6)
    unit = ops.rope_table.unit(positions, table)
    return worst(ops.rope_table.forward(positions + 1, table)[0], ops.rope_table.forward(positions, table)[0], unit)


def scores_bug() -> float:
    """The scale 1e-4 too large."""
    q, k = normal(2, 6, 5, 10), normal(2, 2, 7, 10)
    return worst(ops.scores.forward(q, k, 0.3163), ops.scores.forward(q, k, 0.3162), ops.scores.unit(q, k, 0.3162))


def softmax_bug() -> float:
    """One key too many in a window."""
    scores = normal(1, 2, 9, 9)
    right, wrong = ops.mask.sliding_causal(9, 0, 3), ops.mask.sliding_causal(9, 0, 4)
    y = ops.softmax.forward(scores, right)
    return worst(ops.softmax.forward(scores, wrong), y, ops.softmax.unit(y, scores, right))


def context_bug() -> float:
    """KV heads tiled instead of repeated."""
    scores, v = normal(1, 6, 3, 7), normal(1, 2, 7, 5)
    probs = ops.softmax.forward(scores, np.ones((1, 3, 7), bool))
    tiled = ops.context.forward(probs, np.tile(v, (1, 3, 1, 1)))
    return worst(tiled, ops.context.forward(probs, v), ops.context.unit(probs, v, scores))


def residual_bug() -> float:
    """The branch scaled by 1 + 1e-4."""
    a, b = normal(1, 5, 72), normal(1, 5, 72)
    return worst(ops.residual.forward(a, 1.0001 * b), ops.residual.forward(a, b), ops.residual.unit(a, b))


def swiglu_bug() -> float:
    """gelu_tanh for gelu."""
    gate, up = normal(1, 5, 72), normal(1, 5, 72)
    y = ops.swiglu.forward(gate, up, "gelu")
    return worst(ops.swiglu.forward(gate, up, "gelu_tanh"), y, ops.swiglu.unit(y, gate, up, "gelu"))


def inv_freq_bug() -> float:
    """The exponent over head_dim + 2."""
    y = ops.inv_freq.forward(8, 1e6)
    return worst(ops.inv_freq.forward(10, 1e6)[:4], y, ops.inv_freq.unit(y))


@pytest.mark.parametrize(
    "bug",
    [
        rms_norm_bug,
        linear_bug,
        rope_bug,
        rope_table_bug,
        scores_bug,
        softmax_bug,
        context_bug,
        residual_bug,
        swiglu_bug,
        inv_freq_bug,
    ],
)
def test_a_seeded_bug_is_far_outside(bug: Callable[[], float]) -> None:
    assert bug() > BUG


def test_truth_itself_is_within_a_unit_of_a_float32_rounding_of_it() -> None:
    x, weight = normal(1, 3, 64), normal(7, 64)
    truth = ops.linear.forward(x, weight, arithmetic=FLOAT64)
    assert worst(truth.astype(np.float32), truth, ops.linear.unit(x, weight)) <= 1
