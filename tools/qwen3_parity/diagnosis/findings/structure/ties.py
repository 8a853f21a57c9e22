"""A weight in few bits but for codes on a tie, which an engine's own arithmetic rounds to the other side."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product

_MOSTLY = 0.5
"""The part of the outputs that a weight must give as it is."""
_TIES = 4
"""Codes of a row that may stand on a tie."""


def share_but_ties(product: Product, weight: Array, x: Array | None = None) -> float:
    """The part of the wrong outputs that a rounded weight gives, codes on a tie on either side."""
    good = product.reproduced(weight=weight, x=x)
    if good.mean() < _MOSTLY:
        return 0.0
    if not good.all():
        rest = product.part(outputs=~good)
        inputs = product.x if x is None else x
        good[~good] = rest.reproduced(weight=_other_sides(rest, inputs, weight[~good]), x=x)
    return product.share_of(good)


def _other_sides(product: Product, x: Array, weight: Array) -> Array:
    """The weight with the few codes on the other side that bring its outputs nearest to what was recorded.

    A number on a tie lies halfway between the two, so that the other one is as far from it.
    """
    weight, squares, outputs = weight.copy(), np.square(x).sum(0), np.arange(len(weight))
    for _ in range(_TIES):
        step = 2 * (product.weight - weight)
        rest = product.products - x @ weight.T
        gain = 2 * step * (rest.T @ x) - np.square(step) * squares
        at = gain.argmax(1)
        weight[outputs, at] += np.where(gain[outputs, at] > 0, step[outputs, at], 0)
    return weight
