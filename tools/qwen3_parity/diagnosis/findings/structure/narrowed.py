"""A weight that is rounded to a narrower type, number by number and without a scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED

ROUNDED_WEIGHT = "weight.rounded"
_TYPES = (*ROUNDED, *EIGHT_BITS)
_NAMES = {"plus": "weight.constant_added", "times": "weight.scaled"}
_SAME = 2.0**-21
"""What float32 adds to a sum or a product, in parts of it."""


def narrowed(product: Product) -> tuple[str, str, float] | None:
    """The checkpoint's numbers in another type: as they were loaded, or by what they give at every position."""
    for words, narrow in _narrow(product.weight):
        share = product.share(weight=narrow) if product.held is None else float(np.array_equal(narrow, product.held))
        if share:
            return ROUNDED_WEIGHT, f"its weight is rounded to {words}", share
    return None


def vector(stored: Array, held: Array) -> tuple[str, str] | None:
    """A weight of an axis as it was loaded: rounded, or the checkpoint's plus or times a number."""
    for words, narrow in _narrow(stored):
        if np.array_equal(narrow, held):
            return ROUNDED_WEIGHT, f"its weight is rounded to {words}"
    changes = {"plus": held - stored}
    if (stored != 0).all():
        changes["times"] = held / stored
    for says, parts in changes.items():
        number = float(np.median(parts))
        if (np.abs(parts - number) <= _SAME * (np.abs(held) + np.abs(number))).all():
            return _NAMES[says], f"its weight is the checkpoint's {says} {number:.7g}"
    return None


def _narrow(weight: Array) -> Iterator[tuple[str, Array]]:
    stored = np.asarray(weight, np.float32)
    for words, rounded in _TYPES:
        narrow = np.asarray(rounded(stored), np.float64)
        if np.isfinite(narrow).all():
            yield words, narrow
