"""The probe of a weight: the sum that golden.proto states, another one for every wrong reading of the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array, ParityError, pb, to_bfloat16, to_float32
from qwen3_golden.probe import Probe, probe

SHAPES = [(1,), (10,), (300,), (1, 1), (7, 5), (61, 67), (62, 68), (300, 200), (3, 70_000), (70_000, 3)]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype("<f4")


def stated(array: Array) -> Probe:
    """The sum as golden.proto words it, in Python's integers and exact floats."""
    matrix = array.reshape(1, -1) if array.ndim == 1 else array
    i, j = np.indices(matrix.shape)
    terms = matrix.astype(np.longdouble) * ((1 + i % 61) * (1 + j % 67))
    return Probe(float(terms.sum()), float(np.abs(terms).sum()))


def differ(one: Array, two: Array) -> bool:
    """Whether the probes tell two arrays apart, either way."""
    return not probe(one).agrees(probe(two).value) and not probe(two).agrees(probe(one).value)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_probe_is_the_sum_that_the_schema_states(shape: tuple[int, ...]) -> None:
    array = draw(*shape)
    found, wanted = probe(array), stated(array)
    assert found.agrees(wanted.value) and found.scale == pytest.approx(wanted.scale, rel=1e-12)


def test_a_small_probe_by_hand() -> None:
    assert probe(np.array([[1, 2], [3, 4]], "<f4")) == (1 * 1 + 2 * 2 + 3 * 2 + 4 * 4, 27)
    assert probe(np.array([1, -2, 3], "<f4")) == (1 - 4 + 9, 14)


def test_the_weights_of_rows_and_columns_begin_again_after_61_and_67() -> None:
    for shape, at, weight in (
        ((62, 1), (60, 0), 61),
        ((62, 1), (61, 0), 1),
        ((1, 68), (0, 66), 67),
        ((1, 68), (0, 67), 1),
    ):
        one = np.zeros(shape, "<f4")
        one[at] = 1
        assert probe(one).value == weight


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2"])
def test_every_dtype_is_summed_in_float64(dtype: str) -> None:
    array = draw(40, 50).astype(dtype)
    assert probe(array).agrees(stated(array).value)


def test_bfloat16_is_summed_by_its_values_not_its_bits() -> None:
    bits = to_bfloat16(draw(40, 50))
    assert probe(bits, pb.BF16) == probe(to_float32(bits))
    assert probe(bits) != probe(bits, pb.BF16)


def test_a_sum_over_other_terms_in_another_order_agrees() -> None:
    array = draw(500, 400)
    i, j = np.indices(array.shape)
    terms = (array.astype("f8") * (1 + i % 61) * (1 + j % 67)).ravel()
    forwards, backwards = (float(np.add.accumulate(one)[-1]) for one in (terms, terms[::-1]))
    assert forwards != backwards
    assert probe(array).agrees(forwards) and probe(array).agrees(backwards)


def test_one_changed_element_is_seen() -> None:
    array = draw(300, 200)
    other = array.copy()
    other[299, 199] *= np.float32(1.001)
    assert differ(array, other)


@pytest.mark.parametrize(
    ("mistake", "reading"),
    [
        ("WLD-02 transposed, square", lambda w: w.T),
        ("WLD-01 read as [in, out] of the same bytes", lambda w: w.reshape(w.shape[::-1]).T),
        ("WLD-09 bytes exchanged", lambda w: w.byteswap()),
        ("WLD-14 bytes of a transposed view", lambda w: np.frombuffer(w.T.tobytes(), w.dtype).reshape(w.shape)),
        ("rows in another order", lambda w: w[::-1]),
        ("heads in another order", lambda w: w.reshape(4, -1, w.shape[1])[[1, 0, 2, 3]].reshape(w.shape)),
        ("halves of each head interleaved", lambda w: w.reshape(-1, 2, 8, w.shape[1]).swapaxes(1, 2).reshape(w.shape)),
        ("one row late", lambda w: np.roll(w, 1, axis=0)),
        ("half the precision", lambda w: w.astype("<f2").astype("<f4")),
    ],
)
@pytest.mark.parametrize("shape", [(64, 64), (128, 64), (64, 192)], ids=str)
def test_every_wrong_reading_of_a_matrix_has_another_probe(
    mistake: str, reading: object, shape: tuple[int, int]
) -> None:
    array = draw(*shape)
    other = np.ascontiguousarray(reading(array))  # type: ignore[operator]
    if other.shape == array.shape and np.array_equal(other, array):
        pytest.skip("on a square matrix this is the right reading")
    with np.errstate(all="ignore"):
        assert differ(array, other), mistake


def test_swapped_keys_and_values_have_each_others_probes() -> None:
    k, v = draw(32, 48, seed=1), draw(32, 48, seed=2)
    assert differ(k, v)


def test_wld_10_tensors_read_in_another_order_have_other_probes() -> None:
    layers = [draw(10, seed=seed) for seed in range(6)]
    by_layer = np.concatenate(layers)
    by_kind = np.concatenate([*layers[::2], *layers[1::2]])
    assert differ(by_layer, by_kind)
    assert sum(differ(one, two) for one, two in zip(by_layer.reshape(6, 10), by_kind.reshape(6, 10), strict=True)) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_where_an_element_is_not_finite_only_a_sum_that_is_not_finite_agrees(value: float) -> None:
    array = draw(9, 9)
    array[3, 4] = value
    found = probe(array)
    assert found.agrees(found.value) and found.agrees(np.nan)
    assert not found.agrees(0.0) and not found.agrees(probe(draw(9, 9)).value)
    assert not probe(draw(9, 9)).agrees(found.value)


def test_a_signalling_nan_is_a_nan() -> None:
    bits = np.array([0x7F800001, 0x3F800000], "<u4")
    assert np.isnan(probe(bits.view("<f4")).value)


def test_zeros_have_the_probe_0_and_nothing_else_agrees() -> None:
    assert probe(np.zeros((5, 5), "<f4")) == (0, 0)
    assert not probe(np.zeros((5, 5), "<f4")).agrees(1e-30)
    assert probe(np.zeros((0, 5), "<f4")) == (0, 0) == probe(np.zeros((5, 0), "<f4"))


def test_a_weight_of_three_dimensions_is_refused() -> None:
    with pytest.raises(ParityError, match="one dimension or two"):
        probe(np.zeros((2, 2, 2), "<f4"))
