"""What is odd about a weight without being wrong: equal elements, as of one that was never trained or never read."""

from __future__ import annotations

import math

from qwen3_golden import Array, pb
from qwen3_golden.probe import blocks


def remark(name: str, array: Array, dtype: pb.DType, probe: float) -> str | None:
    """One line about a weight whose elements are all equal, or not all finite; None for an ordinary one.

    `probe` is that of the array: it is finite where all elements are.
    """
    if not math.isfinite(probe):
        return f"not finite: {name} holds NaN or infinity"
    if array.size < 2:
        return None
    first = float(next(blocks(array[:1], dtype))[1].flat[0])
    if all((part == first).all() for _, part in blocks(array, dtype)):
        return f"constant: {name} is {first:g} everywhere"
    return None
