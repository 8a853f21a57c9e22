"""A stored matrix as its float32 values, widened where it is looked at: whole, an embedding would be gigabytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from qwen3_golden import Array, pb
from qwen3_reference.checkpoints.stored import Stored


class Widened(NDArrayOperatorsMixin):
    """What a model of `dtype` (F32, BF16, F16) holds of a stored tensor, in float32; to NumPy it is an array.

    An index gives the array of that part; anything else that arrays do is done to the whole of it, once widened.
    """

    def __init__(self, stored: Stored, dtype: pb.DType) -> None:
        self._stored = stored
        self._held = dtype
        self.shape: tuple[int, ...] = stored.bits.shape
        self.ndim = len(self.shape)
        self.size = stored.bits.size
        self.dtype = np.dtype(np.float32)

    def _values(self, bits: Array) -> Array:
        part = Stored(self._stored.dtype, bits, self._stored.file)
        if self._held in (pb.F32, part.dtype):
            return part.float32()
        return Stored(self._held, part.loaded(self._held), part.file).float32()

    def __getitem__(self, index: Any) -> Array:
        return self._values(self._stored.bits[index])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._values(self._stored.bits), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        whole = (np.asarray(operand) if isinstance(operand, Widened) else operand for operand in inputs)
        return getattr(ufunc, method)(*whole, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # NumPy itself asks for some, to see what this is
            raise AttributeError(name)
        return getattr(np.asarray(self), name)
