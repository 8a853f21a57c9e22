"""The metrics against a plain float64 implementation, and the cases where clever arithmetic goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qwen3_golden import to_bfloat16, to_float32
from qwen3_parity.judge.compare import compare, exact
from qwen3_parity.judge.tiles import TILE, WIDE

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)
PAIRS = SHAPES.flatmap(lambda s: st.tuples(*(hnp.arrays(np.float32, s, elements=FINITE) for _ in range(2))))
AXES = ("batch", "heads", "query", "head_dim")


def noisy(*shape, seed=0):
    draw = np.random.default_rng(seed)
    expected = draw.standard_normal(shape, dtype=np.float32)
    return expected + np.float32(1e-6) * draw.standard_normal(shape, dtype=np.float32), expected


def rms(values):
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


@given(PAIRS)
@settings(max_examples=150)
def test_rms_and_maximum_are_those_of_float64(pair):
    actual, expected = pair
    error = actual.astype(np.float64) - expected
    metrics = compare(actual, expected)
    assert metrics.rms == pytest.approx(rms(error), rel=1e-5)
    assert metrics.max == pytest.approx(float(np.abs(error).max()), rel=1e-6)
    assert abs(error[metrics.index]) == pytest.approx(metrics.max, rel=1e-6)


@example((np.float32([0.125]), np.float32([2.563864])))  # a difference of squares cancels
@given(PAIRS)
@settings(max_examples=150)
def test_relative_error_and_cosine_are_those_of_float64(pair):
    actual, expected = (values.astype(np.float64) for values in pair)
    metrics = compare(*pair)
    norm, error = np.linalg.norm(expected), np.linalg.norm(actual - expected)
    if norm > 1e-150:
        assert metrics.relative == pytest.approx(error / norm, rel=1e-5)
        if np.linalg.norm(actual) > 1e-150:
            plain = float((actual * expected).sum() / norm / np.linalg.norm(actual))
            assert metrics.cosine == pytest.approx(plain, abs=1e-6)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("factor", [-1, -1e-3, 1e-3, 0.12, 0.13, 0.4, 1 - 1e-3, 1 + 1e-3, 8, 1e3])
@pytest.mark.parametrize("shape", [(1,), (3 * TILE // WIDE, WIDE), (2 * TILE + 7,)])
def test_what_points_the_same_way_has_cosine_one_at_any_length(dtype, factor, shape):
    expected = np.random.default_rng(3).integers(1, 9, shape).astype(dtype)
    actual = (expected.astype(np.float64) * factor).astype(dtype)
    assert compare(actual, expected).cosine == pytest.approx(np.sign(factor), abs=1e-6)
    assert compare(expected, actual).cosine == pytest.approx(np.sign(factor), abs=1e-6)


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_a_cosine_of_float64_neither_underflows_nor_overflows(scale):
    assert compare(scale * np.array([1.0, 1]), scale * np.array([0, 2.0])).cosine == pytest.approx(2**-0.5)


def test_a_cosine_looks_at_judged_elements_alone_and_is_nan_where_there_is_no_angle():
    scope = np.array([True, True, False])
    assert compare(np.float32([1, 1, 9]), np.float32([3, 3, -9]), scope).cosine == pytest.approx(1)
    assert np.isnan(compare(np.float32([0, 0]), np.float32([1, 1])).cosine)
    assert np.isnan(compare(np.float32([1, 1]), np.float32([0, 0])).cosine)
    for bad in (np.nan, np.inf, -np.inf):
        assert np.isnan(compare(np.float32([bad, 1]), np.float32([3, 1])).cosine)
    far = np.full(2 * TILE, np.inf, np.float32)
    far[TILE:] = -np.inf
    assert np.isnan(compare(far, np.ones_like(far)).cosine)


@given(PAIRS)
@settings(max_examples=150)
def test_ulps_are_steps_between_representable_numbers(pair):
    def rank(value):
        bits = int(np.float32(value).view(np.uint32))
        return -(bits - 2**31) if bits >= 2**31 else bits

    actual, expected = pair
    steps = max(abs(rank(a) - rank(b)) for a, b in zip(actual.ravel(), expected.ravel(), strict=True))
    assert compare(actual, expected).ulp == steps


@given(PAIRS)
@settings(max_examples=100)
def test_differing_counts_other_bits(pair):
    actual, expected = pair
    assert compare(actual, expected).differing == np.count_nonzero(actual.view("u4") != expected.view("u4"))


@given(hnp.array_shapes(min_dims=4, max_dims=4, max_side=5), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_rows_and_heads_are_the_worst_slices(shape, seed):
    actual, expected = noisy(*shape, seed=seed)
    error = actual.astype(np.float64) - expected
    metrics = compare(actual, expected, axes=AXES)
    rows = np.sqrt(np.square(error).mean(axis=(1, 3)))
    heads = np.sqrt(np.square(error).mean(axis=(0, 2, 3)))
    assert metrics.row == pytest.approx(rows.max(), rel=1e-5)
    assert rows[metrics.row_index] == pytest.approx(rows.max(), rel=1e-5)
    assert metrics.head == pytest.approx(heads.max(), rel=1e-5)
    assert heads[metrics.head_index] == pytest.approx(heads.max(), rel=1e-5)


@given(PAIRS, st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_a_scope_is_the_same_as_choosing_the_elements(pair, seed):
    scope = np.random.default_rng(seed).random(pair[0].shape) < 0.6
    judged, chosen = compare(*pair, scope), compare(pair[0][scope], pair[1][scope])
    assert (judged.count, judged.differing, judged.ulp) == (chosen.count, chosen.differing, chosen.ulp)
    assert judged.rms == pytest.approx(chosen.rms, rel=1e-5)
    assert judged.max == chosen.max


@pytest.mark.parametrize(
    "shape", [(2 * TILE + 7,), (5, TILE + 3), (3 * TILE // WIDE, WIDE), (300, 2 * WIDE), (1, 2, 700, 600)]
)
def test_many_tiles_and_threads_give_what_one_pass_gives(shape):
    actual, expected = noisy(*shape)
    axes = {2: ("query", "vocab"), 4: AXES}.get(len(shape), ())
    metrics = compare(actual, expected, axes=axes)
    error = actual.astype(np.float64) - expected
    assert metrics.rms == pytest.approx(rms(error), rel=1e-5)
    assert metrics.index == np.unravel_index(np.abs(error).argmax(), shape)
    if axes:
        square = np.square(error).mean(axis=(1, 3) if len(shape) == 4 else 1)
        assert metrics.row == pytest.approx(float(np.sqrt(square.max())), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-12, 1e18, 1e30])
def test_squares_neither_underflow_nor_overflow(scale):
    actual, expected = (np.float32(scale) * values for values in noisy(64))
    assert compare(actual, expected).rms == pytest.approx(rms(actual.astype(np.float64) - expected), rel=1e-5)


def test_equal_arrays_are_at_distance_zero():
    metrics = compare(*(noisy(9)[0],) * 2)
    assert (metrics.rms, metrics.max, metrics.ulp, metrics.differing, metrics.cosine) == (0, 0, 0, 0, 1)


def test_zeros_of_both_signs_are_equal_numbers_with_other_bits():
    metrics = compare(np.float32([-0.0, 1]), np.float32([0.0, 1]))
    assert (metrics.max, metrics.ulp, metrics.differing) == (0, 0, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_makes_the_error_infinite(bad):
    metrics = compare(np.float32([1, bad, 3]), np.float32([1, 2, 3]))
    assert (metrics.rms, metrics.max, metrics.index, metrics.nonfinite_actual) == (np.inf, np.inf, (1,), 1)


def test_a_nan_of_the_expected_alone_is_counted_there():
    assert compare(np.float32([1, 2]), np.float32([1, np.nan])).nonfinite_expected == 1


def test_a_nan_on_both_sides_is_counted_and_never_equal():
    metrics = compare(np.float32([np.nan]), np.float32([np.nan]))
    assert (metrics.nonfinite_both, metrics.max) == (1, np.inf)


def test_equal_infinities_are_counted_as_not_finite():
    assert compare(np.float32([np.inf]), np.float32([np.inf])).nonfinite_both == 1


def test_a_nan_outside_the_scope_is_counted_and_does_not_touch_the_error():
    metrics = compare(np.float32([1, np.nan]), np.float32([1, 2]), np.array([True, False]))
    assert (metrics.nonfinite_actual, metrics.rms, metrics.count) == (1, 0, 1)


def test_ulps_are_those_of_the_narrower_type():
    expected = np.float16([1.0])
    assert compare(np.float32([1 + 2**-10]), expected).ulp == 1


def test_ulps_of_bfloat16_are_counted_in_bfloat16():
    expected = to_float32(to_bfloat16(np.float32([1.0])))
    assert compare(np.float32([1 + 2**-7]), expected, bfloat16=True).ulp == 1


def test_float64_neighbours_of_zero_are_two_ulps_apart():
    tiny = np.array([5e-324])
    assert compare(tiny, -tiny).ulp == 2


def test_empty_arrays_have_nothing_to_compare():
    assert compare(np.empty((0, 3), np.float32), np.empty((0, 3), np.float32)).count == 0


def test_a_scalar_is_one_element():
    metrics = compare(np.array(1.5, np.float32), np.array(1.0, np.float32))
    assert (metrics.count, metrics.max, metrics.index) == (1, 0.5, ())


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        compare(np.zeros(3, np.float32), np.zeros((3, 1), np.float32))


def test_exact_tells_zeros_apart_by_their_sign():
    assert exact(np.float32([-0.0]), np.float32([0.0])).differing == 1


def test_exact_takes_a_nan_of_the_same_bits_for_equal():
    assert exact(np.float32([np.nan]), np.float32([np.nan])).differing == 0


def test_exact_reads_a_wider_type_as_its_value():
    assert exact(np.float64([0.5]), np.float32([0.5])).differing == 0


def test_exact_sees_one_unit_in_large_integers():
    metrics = exact(np.array([2**62 + 1]), np.array([2**62]))
    assert (metrics.differing, metrics.index) == (1, (0,))


def test_exact_names_the_first_bool_that_differs():
    assert exact(np.array([[True, False]]), np.array([[True, True]])).index == (0, 1)


def test_exact_looks_at_judged_elements_alone():
    assert exact(np.array([1, 2]), np.array([1, 3]), np.array([True, False])).differing == 0
