"""Which cells of a value count: those of real tokens. Padding must be finite, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_spec.arithmetic import Array


@dataclass(frozen=True)
class Positions:
    """The positions of a step: `real` `[batch, position]`, True = a token, of all positions up to the step's end.

    The step's own begin at `start`.
    """

    real: Array
    start: int = 0

    def along(self, axis: str, size: int) -> Array | None:
        """`[batch, size]`, or `[batch · position]` for "row": what counts along an axis of a value; None for all.

        An axis of another size is none of these positions. A value that a step makes of every position so far, as
        keys out of a compressed cache, has all of them along "query".
        """
        new = self.real[:, self.start :]
        chosen = {"query": (new, self.real), "row": (new.reshape(-1), self.real.reshape(-1)), "key": (self.real,)}
        return next((real for real in chosen.get(axis, ()) if real.shape[-1] == size), None)


def judged(shape: Sequence[int], axes: Sequence[str], positions: Sequence[Positions]) -> Array:
    """The cells of a value that count, bool of its `shape`; `positions` are those of the stacks it may belong to.

    Of each axis the first of these with its size is taken.
    """
    counts = np.ones(tuple(shape), bool)
    batch = axes.index("batch") if "batch" in axes else None
    for place, (axis, size) in enumerate(zip(axes, shape, strict=True)):
        for stack in positions:
            real = stack.along(axis, size)
            if real is None or (axis != "row" and (batch is None or shape[batch] != len(real))):
                continue
            aligned = [1] * len(shape)
            if axis != "row" and batch is not None:
                aligned[batch] = len(real)
            aligned[place] = size
            counts &= (real if axis == "row" or batch is None or batch < place else real.T).reshape(aligned)
            break
    return counts
