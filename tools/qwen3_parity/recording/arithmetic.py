"""Which arithmetic a run was in, by its numbers: they may be stored wider than they are, bfloat16's as float32."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from qwen3_golden import Array, ParityError, Tensor, pb
from qwen3_golden.dtypes import ARITHMETIC, FLOATS
from qwen3_parity.judge.arithmetic import BY_NAME
from qwen3_parity.judge.tap_verdict import is_exact

_ENOUGH, _DIFFERENT = 64, 16
"""So many numbers that are not 0, with so many different fractions, have no few bits by chance."""
_TABLES = ("cos", "sin", "inv_freq")
"""Ops that a model in a narrow type may compute in float32."""


def arithmetic_of(value: object) -> pb.Arithmetic:
    """The schema's arithmetic of a name, or of its own number; raises `ParityError` for anything else."""
    if isinstance(value, str):
        value = BY_NAME.get(value, dict(pb.Arithmetic.items()).get(value, value))
    if isinstance(value, int) and value in pb.Arithmetic.values():
        return value  # type: ignore[return-value]
    raise ParityError(
        "recording.arithmetic",
        "a run is in no such arithmetic",
        expected=", ".join(BY_NAME),
        got=repr(value),
        next_step='say what it computed in: "other" for a quantised engine',
    )


@dataclass
class Widened:
    """The narrow types that hold every number of a recording's float32 taps, and in which its other taps are.

    Copies and tables of RoPE do not count.
    """

    types: set[pb.DType] = field(default_factory=lambda: {pb.BF16, pb.F16})
    taps: Counter[pb.DType] = field(default_factory=Counter)
    numbers: int = 0
    fractions: set[int] = field(default_factory=set)

    def see(self, golden: Tensor, array: Array, dtype: pb.DType, mode: int) -> None:
        """Take a tap's elements as they are recorded; `golden` is the same tap of the golden."""
        op = golden.info.op
        if dtype not in FLOATS or op in _TABLES or is_exact(golden, op, mode):
            return
        self.taps[dtype] += 1
        if not self.types or dtype != pb.F32:
            return
        numbers = array[np.isfinite(array) & (array != 0)]
        self.types = {dtype for dtype in self.types if _holds(dtype, numbers)}
        self.numbers += numbers.size
        self.fractions |= set(np.unique((numbers.view(np.uint32) >> 16) & 0x7F).tolist())

    @property
    def arithmetic(self) -> pb.Arithmetic:
        """That of the narrowest fraction that holds all; unspecified where none does, or there is too little.

        Where most taps are in a narrow type, it is that: a model in bfloat16 has a few in float32.
        """
        for dtype, count in self.taps.most_common(1):
            if dtype in (pb.BF16, pb.F16) and 2 * count > self.taps.total():
                return ARITHMETIC[dtype]
        if self.numbers < _ENOUGH or len(self.fractions) < _DIFFERENT:
            return pb.ARITHMETIC_UNSPECIFIED
        narrowest = next((dtype for dtype in (pb.BF16, pb.F16) if dtype in self.types), None)
        return pb.ARITHMETIC_UNSPECIFIED if narrowest is None else ARITHMETIC[narrowest]


def _holds(dtype: pb.DType, numbers: Array) -> bool:
    if dtype == pb.BF16:
        return not (numbers.view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore", under="ignore"):
        return bool((numbers.astype(np.float16).astype(np.float32) == numbers).all())
