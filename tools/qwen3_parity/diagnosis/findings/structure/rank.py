"""A weight and something of low rank: an adapter that stays merged."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import MOST, Product
from qwen3_parity.mistakes.linear_fitted import runs

_RANKS = 16
"""The highest rank that is looked for."""
_TIMES = 3
"""How many times its rank positions, inputs and outputs must be: less tells no rank."""
_ALIKE = 1e-4
"""How near directions must be to be the same."""
_OR_NOT = 0.95
"""What is said of a rank where positions are too few to tell that it is the weight's."""
_ONLY_WHERE = 0.9
"""What is said of an input that is another, and not why."""


def low_rank(product: Product) -> tuple[str, str, float] | None:
    """W + B @ A: what is wrong has few directions, at positions that are all different."""
    missing = product.missing
    wrong = np.abs(missing) > product.limits
    if wrong.any(1).mean() < MOST:
        return None  # some positions are right: no weight is that
    left, sizes, axes = np.linalg.svd(missing, full_matrices=False)
    most = min(_RANKS, min(product.positions, product.x.shape[1], int(wrong.any(0).sum())) // _TIMES)
    for rank in range(1, most + 1):
        rest = missing - (left[:, :rank] * sizes[:rank]) @ axes[:rank]
        if (np.abs(rest) <= product.limits).all(0).mean() < MOST:
            continue
        if _few(left[:, :rank] * sizes[:rank], rank):
            return None  # the same is added at many positions: it does not come of the input
        inputs = _columns(axes[:rank], product.weight)
        if len(inputs) >= rank and product.loaded is not False:  # the same numbers, and nothing else was loaded
            return "structure.input_channels", f"all that is wrong comes of inputs {runs(inputs)}", _ONLY_WHERE
        change = np.linalg.lstsq(product.x, (left[:, :rank] * sizes[:rank]) @ axes[:rank], rcond=None)[0].T
        share = product.share(weight=product.weight + change)
        says = f"its weight is the checkpoint's and a matrix of rank {rank} (an adapter that stays merged?)"
        if product.positions < len(change[0]):
            says, share = (
                f"{says}, or it adds {rank} numbers of each position, spread over its outputs",
                share * _OR_NOT,
            )
        return ("structure.low_rank", says, share) if share else None
    return None


def _few(rows: Array, rank: int) -> bool:
    """Whether rows `[position, direction]` are only a few different ones."""
    scale = np.abs(rows).max()
    return len(np.unique(np.rint(rows / (scale * _ALIKE)), axis=0)) <= max(_TIMES * rank, len(rows) // _TIMES)


def _columns(directions: Array, weight: Array) -> Array:
    """The inputs whose column of `weight[out, in]` lies within orthonormal `directions[direction, out]`."""
    sizes = np.maximum(np.linalg.norm(weight, axis=0), 1e-300)
    outside = np.linalg.norm(weight - directions.T @ (directions @ weight), axis=0)
    return np.flatnonzero(outside <= _ALIKE * sizes)
