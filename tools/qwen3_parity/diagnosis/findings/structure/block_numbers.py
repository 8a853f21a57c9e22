"""A number of its own for each block of a weight's row: multiplied, as a wrong scale, or added, as a zero point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import numbers
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.judge.indices import ranges

_FEWEST = 4
"""Positions beyond the numbers that are fitted."""
_SPARE = 1.5
"""How many times the numbers that are fitted there must be positions."""
_LEFT = 0.05
"""The part of the error that may stay: the weight was rounded, too."""
_ROUNDED = 0.92
"""What a fit says that leaves some of the error."""
_LEFT_AS_LOADED, _AS_LOADED = 0.25, 0.99
"""The same of a weight whose numbers are all known: a number for four others leaves 0.87 of what has no structure."""
_SCREENED, _AT_ONCE = 8, 64
"""Outputs that a quick look takes, and that are solved at once."""
_SOME, _HALF = 0.9, 0.5
"""Where fewer positions are wrong, or rows, these alone are looked at: the prompt's, say, or those of new tokens."""


def block_scaled(product: Product) -> tuple[str, str, float] | None:
    """W[o, block] × s[o, block]."""
    part, where = _wrong(product)
    few = _worst(part)
    for size, blocks in _cuts(part):
        screened = _scales(few, size, blocks)
        if screened is None or _fits(few, few.weight * screened, blocks) is None:
            continue
        by = _scales(part, size, blocks)
        if by is None:
            continue
        scales = by[:, ::size]
        part_of = f"block of {size} inputs of its weight's rows" if blocks > 1 else "row of its weight"
        says = f"each {part_of} is multiplied by a number of its own"
        if (fits := _fits(part, part.weight * by, blocks)) is not None:
            return "structure.block_scaled", f"{says}{where}: {numbers(scales.ravel(), 4)}{fits[0]}", fits[1]
    return None


def _scales(product: Product, size: int, blocks: int) -> Array | None:
    """What each weight is multiplied by, the same in a block of a row; None where positions do not tell it."""
    x, scales = _cut(product.x, size), list[Array]()
    for first in range(0, len(product.weight), _AT_ONCE):
        outputs = slice(first, first + _AT_ONCE)
        terms = np.einsum("pki,oki->opk", x, _cut(product.weight[outputs], size))
        squares = np.einsum("opk,opl->okl", terms, terms)
        if np.linalg.matrix_rank(squares, hermitian=True).min() < blocks:
            return None
        right = np.einsum("opk,po->ok", terms, product.products[:, outputs])
        scales.append(np.linalg.solve(squares, right[..., None])[..., 0])
    return np.repeat(np.concatenate(scales), size, 1)[:, : product.weight.shape[1]]


def block_shifted(product: Product) -> tuple[str, str, float] | None:
    """W[o, block] + z[o, block]."""
    part, where = _wrong(product)
    few = _worst(part)
    for size, blocks in _cuts(part):
        sums = _cut(part.x, size).sum(2)
        if np.linalg.matrix_rank(sums) < blocks:
            continue
        if _fits(few, few.weight + _shifts(few, sums, size), blocks) is None:
            continue
        plus = _shifts(part, sums, size)
        shifts = plus[:, ::size]
        part_of = f"block of {size} inputs of its weight's rows" if blocks > 1 else "row of its weight"
        says = f"a number is added to each {part_of} (zero points?)"
        if (fits := _fits(part, part.weight + plus, blocks)) is not None:
            return "structure.block_shifted", f"{says}{where}: {numbers(shifts.ravel(), 4)}{fits[0]}", fits[1]
    return None


def _shifts(product: Product, sums: Array, size: int) -> Array:
    """What is added to each weight, the same in a block of a row, of inputs' `sums[position, block]`."""
    shifts = np.linalg.lstsq(sums, product.missing, rcond=None)[0].T
    return np.repeat(shifts, size, 1)[:, : product.weight.shape[1]]


def _worst(product: Product) -> Product:
    """The few outputs that are most wrong."""
    return product.part(outputs=np.argsort(-np.abs(product.missing).max(0), kind="stable")[:_SCREENED])


def _wrong(product: Product) -> tuple[Product, str]:
    """The product at the positions and in the rows that are wrong, and in words which, where others are right."""
    where, rows = "", product.wrong
    if 0 < rows.mean() < _HALF:  # what few rows lack is small beside what all of them give
        product, where = product.part(outputs=rows), f" in rows {ranges(np.flatnonzero(rows))}"
    wrong = np.asarray((np.abs(product.missing) > product.limits).any(1))
    if wrong.mean() >= _SOME:
        return product, where
    return product.part(positions=wrong), f"{where} at {int(wrong.sum())} of {len(wrong)} positions"


def _cuts(product: Product) -> Iterator[tuple[int, int]]:
    """Powers of two and equal parts, the largest first, and how many there are in a row, as positions can tell them."""
    inputs, positions = product.x.shape[1], product.positions
    whole = [] if product.held is None else [inputs]
    for size in (*whole, *range(inputs // 2, 3, -1)):
        blocks = -(-inputs // size)
        if (size & (size - 1) == 0 or inputs % size == 0) and positions >= max(_SPARE * blocks, blocks + _FEWEST):
            yield size, blocks


def _cut(values: Array, size: int) -> Array:
    """`[row, block, size]` of `[row, in]`, with zeros behind the last."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % size)))
    return padded.reshape(len(values), -1, size)


def _fits(product: Product, weight: Array, blocks: int) -> tuple[str, float] | None:
    """What is left in words and what the fit says, whether it leaves nothing or what rounding leaves."""
    if share := product.share(weight=weight):
        return "", share
    rest = product.y - product.x @ weight.T - product.bias
    spare = len(rest) - blocks
    size = min(np.square(product.missing).sum(), np.square(product.products).sum())  # of nothing, nothing is left
    left = np.sqrt(np.square(rest).sum() / spare / (max(size, np.finfo(np.float64).tiny) / len(rest)))
    most, tells = (_LEFT, _ROUNDED) if product.held is None else (_LEFT_AS_LOADED, _AS_LOADED)
    return (f"; that leaves {left:.2g} of the error, as rounding would", tells) if left <= most else None
