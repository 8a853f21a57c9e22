"""An input that is cut off at a size, as a fixed scale of few bits does it, before its product with the weight."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product

_GUESSES, _TURNS = 48, 40
"""Sizes that are tried, and steps between two of them."""
_SCREENED = 32
"""Positions, and outputs, by which the size is told."""
_LEFT, _ROUNDED = 0.06, 0.93
"""What rounding may leave of the error, and what is told then."""
_FEWEST = 4
"""Numbers of the input that are cut off."""


def clamped_inputs(product: Product) -> tuple[str, str, float] | None:
    """W @ clip(x, -c, c)."""
    positions = np.argsort(-np.square(product.missing).sum(1), kind="stable")[:_SCREENED]
    few = product.part(positions, np.argsort(-np.abs(product.missing).max(0), kind="stable")[:_SCREENED])
    sizes = np.unique(np.abs(few.x))
    if len(sizes) < _FEWEST or not sizes.any():
        return None
    guesses = sizes[np.linspace(0, len(sizes) - 1, _GUESSES).astype(int)]
    best = int(np.argmin([_rest(few, c) for c in guesses]))
    if best == len(guesses) - 1:
        return None
    c = _least(few, guesses[max(best - 1, 0)], guesses[best + 1])
    if _rest(few, c) > _LEFT**2 * np.square(few.missing).sum() or (np.abs(product.x) > c).sum() < _FEWEST:
        return None
    says = f"its input is cut off at ±{c:.4g} (it is up to {np.abs(product.x).max():.4g})"
    if share := product.share(x=np.clip(product.x, -c, c)):
        return "structure.clamped_inputs", says, share
    rest, error = _rest(product, c), np.square(product.missing).sum()
    if rest > _LEFT**2 * error:
        return None
    left = np.sqrt(rest / error)
    return "structure.clamped_inputs", f"{says}; that leaves {left:.2g} of the error, as rounding would", _ROUNDED


def _rest(product: Product, c: float) -> float:
    clipped: Array = np.clip(product.x, -c, c)
    return float(np.square(product.products - clipped @ product.weight.T).sum())


def _least(product: Product, low: float, high: float) -> float:
    """The size between two that leaves least, by thirds."""
    for _ in range(_TURNS):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if _rest(product, a) < _rest(product, b) else (a, high)
    return float((low + high) / 2)
