"""A weight in few bits that nobody can tell: its errors scatter, and are as large as such bits leave them."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product

AS_LARGE = "structure.as_few_bits"
"""What a weight is called whose errors are as large as few bits leave."""
_TOLD = 0.9
_GROUP, _POSITIONS, _OUTPUTS = 32, 6, 16
"""Numbers with a scale, as few as usual; the fewest positions and outputs that show that errors scatter."""
_BITS = 8, 6, 5, 4
_LEAST, _MOST = 0.5, 1.25
"""How large errors are, in parts of the smallest and the largest that so many bits make by rounding alone."""
_EVEN, _MOSTLY = 4.0, 0.95
"""How far the errors of outputs, and of positions, are from the mean one, for so many of them."""
_FLAT, _FACTOR, _SHIFT = 8.0, 0.1, 0.4
"""The fourth power's mean by the square's; how much a factor tells of the errors, how much a row's shift."""


def as_large(product: Product) -> tuple[str, str, float] | None:
    """Errors without a place, a sign or a factor, as weights that were rounded make them."""
    if product.held is not None or product.loaded or min(product.y.shape[0], product.positions) < _POSITIONS:
        return None
    if product.y.shape[1] < _OUTPUTS or not _without_structure(product):
        return None
    error = np.square(product.missing).mean()
    rounding = np.square(product.roundoff * product.y).mean() / 3
    for bits in _BITS:
        least, most = (np.square(_left(product, size, bits)).mean() + rounding for size in (_GROUP, None))
        if _LEAST**2 * least <= error <= _MOST**2 * most:
            says = (
                f"its errors scatter, and are as large as a weight of about {bits} bits leaves them; how it is rounded "
                "they do not tell: a model whose linears hold the numbers that are read back, as `weight`, would"
            )
            return AS_LARGE, says, _TOLD
    return None


def _left(product: Product, size: int | None, bits: int) -> Array:
    """The RMS error of each output, `[position, out]`, by integers with a scale for so many numbers of a row."""
    rows, inputs = product.weight.shape
    size = size or inputs
    cut = np.pad(product.weight, ((0, 0), (0, -inputs % size)), mode="edge").reshape(rows, -1, size)
    steps = np.repeat(np.ptp(cut, -1) / ((1 << bits) - 1), size, axis=1)[:, :inputs]
    return np.asarray(np.sqrt(np.square(product.x) @ np.square(steps).T / 12))


def _without_structure(product: Product) -> bool:
    """Whether errors are even over positions and outputs, and come of no factor and no shift of the rows."""
    error = product.missing / np.maximum(_left(product, _GROUP, _BITS[-1]), np.finfo(np.float64).tiny)
    square, truth, sums = np.square(error).mean(), product.truth, product.x.sum(1)
    if not np.isfinite(square) or not square or (error**4).mean() > _FLAT * square**2:
        return False
    for axis in (0, 1):
        part = np.square(error).mean(axis) / square
        if ((part <= _EVEN**2) & (part >= _EVEN**-2)).mean() < _MOSTLY:
            return False
    missing = np.square(product.missing).sum()
    by_factor = np.vdot(product.missing, truth) ** 2 / max(np.square(truth).sum(), 1e-300)
    by_shift = np.square(sums @ product.missing).sum() / max(np.square(sums).sum(), 1e-300)
    return bool(by_factor <= _FACTOR * missing and by_shift <= _SHIFT * missing)
