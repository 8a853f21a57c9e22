"""Sequential float32 sums are those of a plain loop, and float64 those of NumPy."""

from collections.abc import Iterable

import numpy as np
import pytest

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32

RNG = np.random.default_rng(11)


def loop_sum(terms: Iterable[np.float32]) -> np.float32:
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + np.float32(term))
    return total


def loop_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = loop_sum([np.float32(a[i, k] * b[k, j]) for k in range(a.shape[1])])
    return out


def test_sequential_sum_equals_a_loop_bit_for_bit() -> None:
    a = RNG.standard_normal((3, 777)).astype(np.float32)
    np.testing.assert_array_equal(SEQUENTIAL_FLOAT32.sum(a), [loop_sum(row) for row in a])


def test_sequential_sum_loses_the_small_terms_that_a_pairwise_sum_keeps() -> None:
    # From 2^24 on, float32 has no odd numbers: each single 1 is rounded away, their pairwise sum is not.
    a = np.array([2.0**24] + [1.0] * 1023, np.float32)
    assert SEQUENTIAL_FLOAT32.sum(a) == 2.0**24
    assert np.sum(a) > 2.0**24


def test_sequential_matmul_equals_a_loop_bit_for_bit() -> None:
    a = RNG.standard_normal((3, 200)).astype(np.float32)
    b = RNG.standard_normal((200, 5)).astype(np.float32)
    np.testing.assert_array_equal(SEQUENTIAL_FLOAT32.matmul(a, b), loop_matmul(a, b))


def test_sequential_matmul_rounds_products_before_adding() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a fused multiply-add would keep the last term, a rounded product loses it.
    x = np.float32(1 + 2.0**-12)
    result = SEQUENTIAL_FLOAT32.matmul(np.array([[-1, x]], np.float32), np.array([[1], [x]], np.float32))
    assert result.item() == 2.0**-11


def test_sequential_matmul_is_the_same_in_blocks_of_columns() -> None:
    a = RNG.standard_normal((300, 3)).astype(np.float32)
    b = RNG.standard_normal((3, 1000)).astype(np.float32)
    whole = SEQUENTIAL_FLOAT32.matmul(a, b)
    for column in (0, 217, 218, 999):
        np.testing.assert_array_equal(whole[:, [column]], SEQUENTIAL_FLOAT32.matmul(a, b[:, [column]]))


@pytest.mark.parametrize("batch", [((2, 3), (2, 3)), ((2, 3), ()), ((2, 3), (3,))])
def test_sequential_matmul_broadcasts_like_numpy(batch: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a = RNG.integers(-9, 9, (*batch[0], 4, 5)).astype(np.float32)
    b = RNG.integers(-9, 9, (*batch[1], 5, 6)).astype(np.float32)
    np.testing.assert_array_equal(SEQUENTIAL_FLOAT32.matmul(a, b), a @ b)


def test_each_arithmetic_keeps_its_dtype() -> None:
    a = np.ones((2, 2), np.float16)
    for arithmetic in (FLOAT64, SEQUENTIAL_FLOAT32):
        x = arithmetic.cast(a)
        assert {x.dtype, arithmetic.matmul(x, x).dtype, arithmetic.sum(x).dtype} == {np.dtype(arithmetic.dtype)}
