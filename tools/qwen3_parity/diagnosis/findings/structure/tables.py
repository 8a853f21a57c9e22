"""A weight in codes of a few numbers, of which some are read as others: by another table than they were stored by."""

from __future__ import annotations

from itertools import product as every

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product, looked_for_once
from qwen3_parity.diagnosis.findings.structure.few_bits import GRIDS, SCALES, Grid

_SIZES = (32, 64, 0, 128, 16)
"""Numbers of a row that share a scale; 0: the row."""
_OUTPUTS, _POSITIONS = 8, 64
"""Those that the table is told from."""
_NEAR = 1e-3
"""How far a number of the table may be from what it is, of the largest."""
_SHOWN = 6
_BY_TABLE = tuple(grid for grid in GRIDS if grid.says.startswith(("NF4", "MXFP4")))


@looked_for_once
def other_table(product: Product) -> tuple[str, str, float] | None:
    """Each code is read as a number of its own, the same in the whole weight."""
    few = product.part(slice(_POSITIONS), slice(_OUTPUTS))
    for grid, size in every(_BY_TABLE, _SIZES):
        if size >= product.weight.shape[1]:
            continue
        codes, scales = _held(few.weight, grid, size)
        table = np.unique(codes)
        terms = np.stack([few.x @ (scales * (codes == code)).T for code in table], -1)
        if np.linalg.matrix_rank(flat := terms.reshape(-1, len(table))) < len(table):
            continue
        read = np.linalg.lstsq(flat, few.products.ravel(), rcond=None)[0]
        changed = np.abs(read - table) > _NEAR * np.abs(table).max()
        read = np.where(changed, read, table)
        if not changed.any() or np.square(terms @ read - few.products).sum() > _NEAR**2 * np.square(few.products).sum():
            continue
        codes, scales = _held(product.weight, grid, size)
        at = np.minimum(np.searchsorted(table, codes), len(table) - 1)
        if share := product.share(weight=read[at] * scales):
            pairs = [f"{old:.4g} as {new:.4g}" for old, new in zip(table[changed], read[changed].round(6), strict=True)]
            shown = ", ".join(pairs[:_SHOWN]) + " …" * (len(pairs) > _SHOWN)
            each = f"each {size} numbers of a row" if size else "each row"
            says = f"its weight is in {grid.says}, a scale for {each}, and its codes are read by another table: {shown}"
            return "structure.misread", says, share
    return None


def _held(weight: Array, grid: Grid, size: int) -> tuple[Array, Array]:
    """The code and the scale of each number, `[row, in]`."""
    rows, inputs = weight.shape
    size = size or inputs
    parts = np.pad(weight.astype(np.float32), ((0, 0), (0, -inputs % size)), mode="edge").reshape(-1, size)
    held = grid.hold(parts, SCALES[0][1])
    each = (held.codes, np.broadcast_to(held.scale, parts.shape))
    codes, scales = (values.reshape(rows, -1)[:, :inputs].astype(np.float64) for values in each)
    return codes, scales
