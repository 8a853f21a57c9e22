"""The parameters that a run held, from the tensors of its checkpoint: in the run's dtype, or as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from qwen3_golden import Array, pb
from qwen3_golden.dtypes import FLOATS
from qwen3_reference.checkpoints.stored import Stored
from qwen3_reference.checkpoints.widened import Widened

_NARROW = (pb.BF16, pb.F16)


class ParametersOfRun(Mapping[str, Array]):
    """Parameter name -> values as the run loaded them, widened to float32, each made at its access and not kept."""

    def __init__(self, parts: Mapping[str, tuple[Sequence[Stored], tuple[int, ...], pb.DType]]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Array:
        return _joined(*self._parts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def before_rounding(self, name: str) -> Array | None:
        """The float32 values of a parameter that the run rounded to half precision; None of any other."""
        tensors, shape, dtype = self._parts[name]
        if dtype not in _NARROW or any(tensor.dtype != pb.F32 for tensor in tensors):
            return None
        return _joined(tensors, shape, pb.F32)


def _joined(tensors: Sequence[Stored], shape: tuple[int, ...], dtype: pb.DType) -> Array:
    if len(tensors) == 1 and tensors[0].bits.shape == shape:
        whole = _values(tensors[0], dtype)
        return whole if len(shape) > 1 else np.asarray(whole)
    return np.concatenate([np.asarray(_values(tensor, dtype)).reshape(-1) for tensor in tensors]).reshape(shape)


def _values(tensor: Stored, dtype: pb.DType) -> Array:
    if tensor.dtype not in FLOATS or tensor.dtype == dtype in (pb.F32, pb.F64):
        return tensor.bits
    return cast(Array, Widened(tensor, pb.F32 if dtype == pb.F64 else dtype))
