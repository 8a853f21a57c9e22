"""How numbers are stored: the schema's dtypes and their NumPy counterparts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError

Array = npt.NDArray[Any]

# BF16 has no NumPy type: its bits are served as uint16, `to_float32` gives the values.
NUMPY: dict[int, np.dtype[Any]] = {
    pb.F64: np.dtype("<f8"),
    pb.F32: np.dtype("<f4"),
    pb.F16: np.dtype("<f2"),
    pb.BF16: np.dtype("<u2"),
    pb.I64: np.dtype("<i8"),
    pb.I32: np.dtype("<i4"),
    pb.U8: np.dtype("u1"),
    pb.BOOL: np.dtype("?"),
}
FLOATS = frozenset({pb.F64, pb.F32, pb.F16, pb.BF16})
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
    return pb.DType.ValueType(code)


def to_float32(bits: Array) -> npt.NDArray[np.float32]:
    """The exact float32 values of bfloat16 bits given as uint16, any shape."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat16(values: Array) -> npt.NDArray[np.uint16]:
    """The bits of float32 values rounded to bfloat16, to nearest, ties to even; a NaN stays a NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
