"""Rows of a large table by index, as experts' weights for each token: they stay there until a product takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import Numbers

LARGE = 1 << 24
"""Elements from which on rows are not copied."""
MOST = 1 << 36
"""The most elements of all rows: a product multiplies each of them."""
_COPIED = 1 << 28
"""The most that are copied for an op that is no product."""


@dataclass(frozen=True)
class Gathered:
    """`table[indices]`, of `[entry, …]` and `[row]`; an array for whoever asks for one."""

    table: Array
    indices: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return (*self.indices.shape, *self.table.shape[1:])

    @property
    def ndim(self) -> int:
        """As of the array."""
        return self.table.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if (count := prod(self.shape)) > _COPIED:
            raise ValueError(f"it copies {count} elements, and {_COPIED} are the most")
        return np.asarray(self.table[self.indices], dtype)


def gathered(op: str, operands: Sequence[Any]) -> Gathered | None:
    """Many matrices of a table by one index each, where that is what an op gives; None for every other op.

    Raises `ValueError` for more than `MOST` elements.
    """
    if not op.startswith("index.") or len(operands) != 2 or not isinstance(operands[1], list):
        return None
    table, indices = operands[0], operands[1][0] if len(operands[1]) == 1 else None
    if not isinstance(table, np.ndarray) or not isinstance(indices, np.ndarray):
        return None
    if table.ndim != 3 or table.dtype.kind != "f" or indices.ndim != 1 or indices.dtype.kind not in "iu":
        return None
    rows = Gathered(table, indices)
    if (count := prod(rows.shape)) > MOST:
        raise ValueError(f"it names {count} elements, and {MOST} are the most")
    return rows if max(count, table.size) >= LARGE else None


def product(numbers: Numbers, a: Array | Gathered, b: Array | Gathered) -> Array:
    """`a b`, `[row, m, k]` and `[row, k, n]`, one of them gathered: an entry of the table at a time, for all its rows.

    Raises `ValueError` for sides of other numbers of rows.
    """
    rows, dense = (a, np.asarray(b)) if isinstance(a, Gathered) else (b, np.asarray(a))
    assert isinstance(rows, Gathered)
    if len(dense) != len(rows.indices):
        raise ValueError(f"{len(rows.indices)} and {len(dense)} rows")
    result = np.empty((*rows.indices.shape, a.shape[1], b.shape[2]), numbers.dtype("float32"))
    order = np.argsort(rows.indices, kind="stable")
    entries, starts = np.unique(rows.indices[order], return_index=True)
    for entry, places in zip(entries.tolist(), np.split(order, starts[1:]), strict=True):
        table, part = rows.table[entry][None], dense[places]
        left, right = (table, part) if rows is a else (part, table)
        result[places] = numbers.piece(entry).matmul(left, right)
    return result
