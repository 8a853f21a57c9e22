"""Rows for the sentinels of an embedding or a head: from a seed, with the statistics of the rows that exist.

All draws are integers and all sums are exact, so that the rows have the same bits on every machine, with any number of
threads, and whatever the dtype is that they are cast to.
"""

import math

import torch

from .row_blocks import row_blocks

_SEED = 0
_BITS = 18  # elements are counted in steps of their largest magnitude / 2¹⁸: float64 sums the squares of a row exactly
_DICE, _SIDES = 12, 1 << 16  # the sum of twelve uniform draws is close to normal


def mean_and_deviation(matrix: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation of all elements of `[rows, hidden]`, which must be finite."""
    largest = max(abs(float(bound)) for bound in matrix.aminmax())
    steps = 2.0 ** (_BITS - math.frexp(largest)[1])
    total = squares = 0
    for block in row_blocks(matrix.shape):
        counted = (matrix[block].to("cpu", torch.float64) * steps).round_()
        total += int(counted.sum(dim=1).to(torch.int64).sum())
        squares += int(counted.square_().sum(dim=1).to(torch.int64).sum())
    mean, deviation = _moments(total, squares, matrix.numel())
    return mean / steps, deviation / steps


def draw_rows(count: int, hidden: int, mean: float, deviation: float) -> torch.Tensor:
    """`[count, hidden]` float32 with this mean and standard deviation up to rounding; the same in every call."""
    generator = torch.Generator().manual_seed(_SEED)
    dice = torch.randint(_SIDES, (_DICE, count, hidden), generator=generator)
    drawn = dice.sum(dim=0) - _DICE * (_SIDES - 1) // 2
    own_mean, own_deviation = _moments(int(drawn.sum()), int((drawn * drawn).sum()), drawn.numel())
    factor = deviation / own_deviation if own_deviation else 0.0
    return ((drawn.to(torch.float64) - own_mean) * factor + mean).to(torch.float32)


def extended(matrix: torch.Tensor, count: int) -> torch.Tensor:
    """`matrix [rows, hidden]` with `count` drawn rows behind its own, in its dtype; itself for a count of 0.

    `ValueError` for a negative count, another rank, no rows, or values that are not finite.
    """
    if count < 0 or matrix.ndim != 2 or not matrix.numel() or not bool(matrix.isfinite().all()):
        raise ValueError(
            f"a matrix {tuple(matrix.shape)} cannot get {count} sentinel rows; expected 0 or more rows, and finite "
            "values [rows, hidden] to take their mean and deviation from"
        )
    if not count:
        return matrix
    drawn = draw_rows(count, matrix.shape[1], *mean_and_deviation(matrix))
    return torch.cat((matrix, drawn.to(device=matrix.device, dtype=matrix.dtype)))


def _moments(total: int, squares: int, count: int) -> tuple[float, float]:
    """Mean and standard deviation of `count` integers from their sum and the sum of their squares."""
    if count < 2:
        return float(total), 0.0
    return total / count, math.sqrt((count * squares - total * total) / (count * (count - 1)))
