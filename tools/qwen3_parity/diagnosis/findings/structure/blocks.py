"""A weight, or an input, in few bits: in blocks, rows, columns, as a whole; and scales along the wrong axis."""

from __future__ import annotations

from itertools import product as every

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Cast, Product, looked_for_once
from qwen3_parity.diagnosis.findings.structure.few_bits import GRIDS, SCALES, Grid, Stored
from qwen3_parity.diagnosis.findings.structure.ties import share_but_ties

_SIZES = (32, 64, 128, 16, 8, 256)
_ROW, _COLUMN, _WHOLE = 0, -1, -2
_SCREENED = 4
"""Outputs, and positions, that a quick look takes."""
_PARTS = {_ROW: "each row", _WHOLE: "all of it"}
_EIGHT_BITS = tuple(
    grid for grid in GRIDS if grid.says.startswith(("8 bits without", "8 bits with a z", "float8 (e4m3"))
)
"""What both sides of a product are kept in."""
_NEARER = 0.9
"""What a quick look may leave of the error: any other way to round adds to it."""
_COARSEST = 0.7
"""What is farther off than this, of its size, was rounded to no grid."""


@looked_for_once
def blocks(product: Product) -> tuple[str, str, float] | None:
    """A weight in few bits: a scale for each block of a row, for each row or column, or one."""
    if not _small(product):
        return None
    outputs = _worst(product)
    part, weight = product.part(outputs=outputs), product.weight.astype(np.float32)
    for grid, (size, says) in every(GRIDS, _cuts(weight.shape[1])):
        if not _nearer(part, part.x, _rounded(weight[outputs], size, grid, SCALES[0][1], weight)):
            continue
        best, stands = 0.0, ""
        for (before, after), (words, stored) in every(product.casts, SCALES):
            narrow = before(weight)
            if best < 1 and share_but_ties(part, _cast(after, _rounded(narrow[outputs], size, grid, stored, narrow))):
                share = share_but_ties(product, _cast(after, _rounded(narrow, size, grid, stored, narrow)))
                best, stands = max((best, stands), (share, f"its weight is in {grid.says}, a scale for {says}{words}"))
        if best:
            return "structure.blocks", stands, best
    return None


@looked_for_once
def rounded_inputs(product: Product) -> tuple[str, str, float] | None:
    """An input in few bits: a scale for each position, or each block of it."""
    if product.held is not None or not _small(product):  # a weight as it was loaded says nothing of its input
        return None
    x = product.x.astype(np.float32)
    positions = np.argsort(-np.square(product.missing).sum(1), kind="stable")[:_SCREENED]
    part = product.part(positions, _worst(product))
    for grid, (size, says) in every(GRIDS, _cuts(x.shape[1])):
        if size < _ROW or not _nearer(part, _rounded(x[positions], size, grid, SCALES[0][1], x), part.weight):
            continue
        for words, stored in SCALES:
            if part.share(x=_rounded(x[positions], size, grid, stored, x)):
                share = product.share(x=_rounded(x, size, grid, stored, x))
                if share:
                    says = says.replace("row", "position") + words
                    return "structure.rounded_inputs", f"its input is in {grid.says}, a scale for {says}", share
    return None


@looked_for_once
def rounded_both(product: Product) -> tuple[str, str, float] | None:
    """A weight and an input of 8 bits each, as a dynamically quantised linear has them."""
    if product.held is not None or not _small(product):
        return None
    x, weight, outputs = product.x.astype(np.float32), product.weight.astype(np.float32), _worst(product)
    part, stored = product.part(outputs=outputs), SCALES[0][1]
    for grid, how, size in every(_EIGHT_BITS, (_ROW, _WHOLE), (_ROW, _WHOLE)):
        narrow = _rounded(x, size, grid, stored, x)
        if not _nearer(part, narrow, _rounded(weight[outputs], how, grid, stored, weight)):
            continue
        for before, after in product.casts:
            inputs, held = _cast(after, narrow), before(weight)
            if not part.share(x=inputs, weight=_cast(after, _rounded(held[outputs], how, grid, stored, held))):
                continue
            share = share_but_ties(product, _cast(after, _rounded(held, how, grid, stored, held)), inputs)
            if share:
                scales = _PARTS[size].replace("row", "position")
                says = f"its weight is in {grid.says}, a scale for {_PARTS[how]}, its input too, a scale for {scales}"
                return "structure.rounded_both", says, share
    return None


def _nearer(few: Product, x: Array, weight: Array) -> bool:
    """Whether a guess comes nearer to what was recorded than the checkpoint's weight: types of scales may be others."""
    return bool(np.square(few.products - x @ weight.T).sum() <= _NEARER**2 * np.square(few.missing).sum())


def _cast(after: Cast, numbers: Array) -> Array:
    return np.asarray(after(numbers), np.float64)


def scales_across(product: Product) -> tuple[str, str, float] | None:
    """A square weight in integers whose scales, one for each row, are multiplied to its columns; or the reverse."""
    outputs, inputs = product.weight.shape
    if outputs != inputs:
        return None
    for weight, says in ((product.weight, "rows to its columns"), (product.weight.T, "columns to its rows")):
        parts = weight.astype(np.float32)
        for bits, (words, stored) in every((8, 4), SCALES):
            top = np.float32((1 << (bits - 1)) - 1)
            scale = np.maximum(stored(np.abs(parts).max(1, keepdims=True) / top), np.float32(1e-30))
            across = (np.rint(parts / scale) * scale.T).astype(np.float64)
            share = product.share(weight=across if weight is product.weight else across.T)
            if share:
                says = f"its weight is in {bits} bits, and the scales of its {says} are multiplied{words}"
                return "structure.scales_axis", says, share
    return None


def _small(product: Product) -> bool:
    return bool(np.square(product.missing).sum() <= _COARSEST**2 * np.square(product.truth).sum())


def _worst(product: Product) -> Array:
    return np.argsort(-np.abs(product.missing).max(0), kind="stable")[:_SCREENED]


def _cuts(inputs: int) -> list[tuple[int, str]]:
    """The block's size, or which part has a scale, and that in words."""
    sizes = ((size, f"each {size} numbers of a row") for size in _SIZES if size < inputs)
    return [(_ROW, "each row"), *sizes, (_COLUMN, "each column"), (_WHOLE, "all of it")]


def _rounded(rows: Array, size: int, grid: Grid, stored: Stored, of: Array) -> Array:
    """Some rows `[row, in]` of a matrix in few bits, float64; where a scale is for more than a row, for all `of` it."""
    count, inputs = rows.shape
    if size == _ROW:
        return grid.fit(rows, stored).astype(np.float64)
    if size > _ROW:
        more = -inputs % size  # the last number again is no new smallest or largest
        padded = np.pad(rows, ((0, 0), (0, more)), mode="edge") if more else rows
        return grid.fit(padded.reshape(-1, size), stored).reshape(count, -1)[:, :inputs].astype(np.float64)
    across = 0 if size == _COLUMN else None
    ends = [np.broadcast_to(end(of, axis=across), (1, inputs)) for end in (np.min, np.max)]
    parts = np.concatenate([rows, *ends])
    parts = parts.T if size == _COLUMN else parts.reshape(1, -1)
    rounded = grid.fit(parts, stored)
    return (rounded.T if size == _COLUMN else rounded.reshape(-1, inputs))[:count].astype(np.float64)
