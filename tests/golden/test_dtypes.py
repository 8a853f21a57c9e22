"""The dtypes of the schema, and bfloat16 to and from float32, against its definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen3_golden import ParityError, pb, tensor, to_bfloat16, to_float32
from qwen3_golden.dtypes import FLOATS, NUMPY

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}


def floats(*bits: int) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


def test_every_dtype_of_the_schema_has_its_numpy_type() -> None:
    assert {pb.DType.Name(code): dtype.itemsize for code, dtype in NUMPY.items()} == SIZES
    assert set(NUMPY) == set(pb.DType.values()) - {pb.DTYPE_UNSPECIFIED}
    assert {pb.DType.Name(code) for code in FLOATS} == {"F64", "F32", "F16", "BF16"}


@pytest.mark.parametrize("name", sorted(set(SIZES) - {"BF16"}))
def test_an_array_of_either_byte_order_has_its_dtype(name: str) -> None:
    dtype = NUMPY[pb.DType.Value(name)]
    for order in "<>":
        assert tensor("t", np.zeros(2, dtype.newbyteorder(order))).info.dtype == pb.DType.Value(name)


@pytest.mark.parametrize("dtype", ["c8", "u2", "u4", "i1", "O", "U3", "M8[s]", "g", [("a", "f4")]])
def test_an_array_of_another_dtype_is_refused(dtype: object) -> None:
    with pytest.raises(ParityError, match="this dtype has no place in the schema"):
        tensor("t", np.zeros(2, dtype))


def test_every_bfloat16_is_widened_to_the_float32_with_the_same_upper_bits() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    assert np.array_equal(to_float32(bits).view(np.uint32), bits.astype(np.uint32) << 16)


def test_every_bfloat16_survives_the_way_there_and_back_but_for_signalling_nans() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    signalling = ((bits & 0x7F80) == 0x7F80) & ((bits & 0x7F) != 0) & ((bits & 0x40) == 0)
    back = to_bfloat16(to_float32(bits))
    assert np.array_equal(back[~signalling], bits[~signalling])
    assert np.array_equal(back[signalling], bits[signalling] | 0x40)


def test_a_tie_goes_to_the_even_neighbour_and_all_else_to_the_nearest() -> None:
    values = floats(0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF808000, 0xBF818000)
    assert to_bfloat16(values).tolist() == [0x3F80, 0x3F82, 0x3F81, 0x3F80, 0xBF80, 0xBF82]


def test_what_rounds_beyond_the_largest_bfloat16_is_infinite() -> None:
    values = floats(0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000)
    assert to_bfloat16(values).tolist() == [0x7F7F, 0x7F80, 0x7F80, 0xFF80, 0x7F80]


def test_a_nan_stays_a_nan_with_its_sign() -> None:
    values = floats(0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7FC00000)
    assert to_bfloat16(values).tolist() == [0x7FC0, 0x7FFF, 0xFFC0, 0xFFFF, 0x7FC0]


def test_subnormals_and_signed_zeros_are_rounded_like_the_rest() -> None:
    values = floats(0x00000000, 0x80000000, 0x00008000, 0x00008001, 0x00018000, 0x007FFFFF)
    assert to_bfloat16(values).tolist() == [0, 0x8000, 0, 1, 2, 0x0080]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**127), max_value=2.0**127))
def test_no_bfloat16_is_nearer_than_the_rounded_one(value: float) -> None:
    bits = int(to_bfloat16(np.array([value], np.float32))[0])
    distance = abs(Fraction(value) - Fraction(float(to_float32(np.array(bits, np.uint16)))))
    for other in (bits - 1, bits + 1):
        if 0 <= other < 0x7F80 or 0x8000 <= other < 0xFF80:
            neighbour = Fraction(float(to_float32(np.array(other, np.uint16))))
            gap = abs(Fraction(value) - neighbour)
            assert distance < gap or (distance == gap and bits % 2 == 0)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_conversion_keeps_the_shape(shape: tuple[int, ...]) -> None:
    values = np.full(shape, np.nan, np.float32)
    assert to_bfloat16(values).shape == to_float32(to_bfloat16(values)).shape == shape
    assert to_bfloat16(values.T).shape == shape[::-1]


def test_conversion_takes_arrays_of_any_memory_order() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (values.T, values[:, ::2], values.astype(">f4")):
        assert np.array_equal(to_float32(to_bfloat16(view)), view)


def test_only_float32_is_rounded_to_bfloat16() -> None:
    with pytest.raises(ParityError, match="only float32"):
        to_bfloat16(np.ones(2))
