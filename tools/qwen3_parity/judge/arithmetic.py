"""What a run may say that it computed in, by name."""

from __future__ import annotations

from collections import Counter

from qwen3_golden import Recording, pb

BY_NAME = {
    "float32": pb.ARITHMETIC_F32,
    "bfloat16": pb.ARITHMETIC_BF16,
    "float16": pb.ARITHMETIC_F16,
    "float64": pb.ARITHMETIC_F64,
    "other": pb.ARITHMETIC_OTHER,
}
"""The schema's arithmetics as people say them; "other" is lossy: quantised."""
HALVES: dict[pb.DType, pb.Arithmetic] = {pb.BF16: pb.ARITHMETIC_BF16, pb.F16: pb.ARITHMETIC_F16}
_OF_MIXED = 3
"""Autocast leaves norms, sums and softmax in float32: where one tap in three is in half precision, its products are."""


def computed_in(golden: Recording, candidate: Recording) -> pb.Arithmetic:
    """What a run says that it computed in; of a lossy one that has a third of its taps in half precision, that."""
    arithmetic = candidate.run.arithmetic or golden.run.arithmetic
    if arithmetic != pb.ARITHMETIC_OTHER:
        return arithmetic
    taps = Counter(item.info.dtype for item in candidate if item.is_float and item.key in golden)
    half = max(HALVES, key=lambda dtype: taps[dtype])
    return HALVES[half] if _OF_MIXED * taps[half] > taps.total() else arithmetic
