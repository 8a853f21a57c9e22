"""How numbers are stored: the schema's dtypes and their NumPy counterparts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError

Array = npt.NDArray[Any]

# BF16 has no NumPy type: its bits are served as uint16, `to_float32` gives the values.
NUMPY: dict[pb.DType, np.dtype[Any]] = {
    pb.F64: np.dtype("<f8"),
    pb.F32: np.dtype("<f4"),
    pb.F16: np.dtype("<f2"),
    pb.BF16: np.dtype("<u2"),
    pb.I64: np.dtype("<i8"),
    pb.I32: np.dtype("<i4"),
    pb.U8: np.dtype("u1"),
    pb.BOOL: np.dtype("?"),
}
ARITHMETIC = {
    pb.F64: pb.ARITHMETIC_F64,
    pb.F32: pb.ARITHMETIC_F32,
    pb.F16: pb.ARITHMETIC_F16,
    pb.BF16: pb.ARITHMETIC_BF16,
}
"""What a run in a float dtype is called."""
FLOATS = frozenset(ARITHMETIC)
_BY_NUMPY = {dtype: code for code, dtype in NUMPY.items() if code != pb.BF16}


def dtype_of(array: Array) -> pb.DType:
    """The schema's dtype of a NumPy array; raises `ParityError` for one that the schema does not have."""
    code = _BY_NUMPY.get(array.dtype.newbyteorder("<"))
    if code is None:
        raise ParityError(
            "array",
            "this dtype has no place in the schema",
            expected="one of " + ", ".join(pb.DType.Name(c) for c in NUMPY),
            got=array.dtype,
            next_step="convert it, or pass bfloat16 bits as uint16 with dtype=BF16",
        )
    return code


def to_float32(bits: Array) -> npt.NDArray[np.float32]:
    """The exact float32 values of bfloat16 bits given as uint16, any shape."""
    wide = np.empty(bits.shape, np.uint32)
    np.left_shift(bits, np.uint32(16), out=wide, dtype=np.uint32)
    return wide.view(np.float32)


def to_bfloat16(values: Array) -> npt.NDArray[np.uint16]:
    """The bits of float32 values of any shape rounded to bfloat16, to nearest, ties to even; a NaN stays a NaN.

    Values beyond the largest bfloat16 become infinite, as everywhere. Raises `ParityError` for another dtype, which
    would be rounded twice.
    """
    if values.dtype.newbyteorder("=") != np.float32:
        raise ParityError(
            "array",
            "only float32 is rounded to bfloat16",
            expected="float32",
            got=values.dtype,
            next_step="convert it to float32 first, in the way that is meant",
        )
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    quiet = upper | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet, rounded).astype(np.uint16).reshape(values.shape)
