"""Rows of ids made one rectangle: what hypotheses about batches are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle


@dataclass(frozen=True)
class Shape:
    """How rows are cut and padded; `sides` are where padding stands and where ids are cut off."""

    pad: int
    padding: str
    cut: str
    most: int
    multiple: int
    longest: int = 0

    @classmethod
    def of(cls, oracle: Oracle, given: pb.Batch) -> Shape:
        """The right one; raises `ValueError` where there is no pad token."""
        pad = oracle.reference.tokenizer.pad_token_id
        if pad is None:
            raise ValueError("the tokenizer has no pad token")
        return cls(int(pad), given.padding_side, given.truncation_side, given.max_length, given.pad_to_multiple_of)


def rectangle(rows: Sequence[Sequence[int]], shape: Shape) -> Any:
    """Rows cut, then padded to the longest, with their masks."""
    cut = [cut_off(row, shape) for row in rows]
    width = max((len(row) for row in cut), default=0)
    width = max(width, shape.longest)
    if shape.multiple:
        width = -(-width // shape.multiple) * shape.multiple
    return tuple(_padded(row, width, shape) for row in cut)


def cut_off(row: Sequence[int], shape: Shape) -> Sequence[int]:
    """The ids of a row that are kept."""
    if not shape.most or len(row) <= shape.most:
        return row
    return row[-shape.most :] if shape.cut == "left" else row[: shape.most]


def _padded(row: Sequence[int], width: int, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ids, mask = (shape.pad,) * (width - len(row)), (0,) * (width - len(row))
    ones = (1,) * len(row)
    return ((*ids, *row), (*mask, *ones)) if shape.padding == "left" else ((*row, *ids), (*ones, *mask))


def rows_of(oracle: Oracle, given: pb.Batch) -> list[Sequence[int]]:
    """Hugging Face's ids of each text."""
    return [oracle.encoded(text) for text in given.text]
