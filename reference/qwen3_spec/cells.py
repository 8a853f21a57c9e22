"""Which cells of a value count: those of real tokens. Padding must be finite, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_spec.arithmetic import Array

_SEVERAL: Mapping[str, Callable[[Array, int], Array]] = {"copied_row": np.tile, "split_row": np.repeat}
"""Axes of a batch's positions in one, each several times: all once for each expert, or a position's heads together."""
ROWS = ("row", *_SEVERAL)
"""Axes of a batch's positions in one."""


@dataclass(frozen=True)
class Positions:
    """The positions of a step: `real` `[batch, position]`, True = a token, of all positions up to the step's end.

    The step's own begin at `start`.
    """

    real: Array
    start: int = 0

    def along(self, axis: str, size: int) -> Array | None:
        """What counts along an axis of a value: `[batch, size]`, or `[size]` for rows; None for all.

        An axis of another size is none of these positions. A value that a step makes of every position so far, as
        keys out of a compressed cache, has all of them along "query".
        """
        new = self.real[:, self.start :]
        if axis in _SEVERAL:
            rows = next((real.reshape(-1) for real in (new, self.real) if size % real.size == 0), None)
            return None if rows is None else _SEVERAL[axis](rows, size // rows.size)
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
            if real is None or (axis not in ROWS and (batch is None or shape[batch] != len(real))):
                continue
            aligned = [1] * len(shape)
            if axis not in ROWS and batch is not None:
                aligned[batch] = len(real)
            aligned[place] = size
            counts &= (real if axis in ROWS or batch is None or batch < place else real.T).reshape(aligned)
            break
    return counts
