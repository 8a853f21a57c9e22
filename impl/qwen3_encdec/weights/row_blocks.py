"""Tensors larger than what may be copied: read, compared and searched a block of rows at a time."""

from collections.abc import Iterator

import torch

_ELEMENTS = 1 << 21
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of an element."""


def row_blocks(shape: torch.Size | tuple[int, ...]) -> Iterator[slice]:
    """Slices of the first axis, each of at most 2²¹ elements or one row; the same for a shape on every machine."""
    rows = shape[0] if shape else 0
    step = max(1, _ELEMENTS // max(1, torch.Size(shape[1:]).numel()))
    yield from (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers of their width, so that NaN equals itself and 0.0 differs from -0.0."""
    return tensor.contiguous().view(_INTEGERS[tensor.element_size()])


def same_bits(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype | None = None) -> bool:
    """Whether two tensors, views included, have one shape and the same bits, both cast to `dtype` where it is given."""
    if actual.shape != expected.shape or (dtype is None and actual.dtype != expected.dtype):
        return False
    return all(
        torch.equal(bits(actual[block].to("cpu", dtype)), bits(expected[block].to("cpu", dtype)))
        for block in row_blocks(actual.shape)
    )


def place(flags: torch.Tensor) -> list[int]:
    """Where the first True of `flags` is, as one index for each axis."""
    return [int(index) for index in torch.unravel_index(flags.flatten().to(torch.uint8).argmax(), flags.shape)]
