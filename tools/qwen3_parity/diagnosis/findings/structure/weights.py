"""What a linear's numbers say of the weight that made them, when no tensor of the checkpoint did."""

from __future__ import annotations

import numpy as np

from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.product import Form
from qwen3_parity.diagnosis.findings.structure.any_weight import any_weight
from qwen3_parity.diagnosis.findings.structure.blocks import blocks, rounded_inputs, scales_across
from qwen3_parity.diagnosis.findings.structure.orders import columns_permuted, rows
from qwen3_parity.diagnosis.findings.structure.rank import low_rank
from qwen3_parity.diagnosis.findings.structure.scales import added, column_scaled, factor, row_scaled, row_shifted
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FORMS: tuple[Form, ...] = (
    factor,
    added,
    blocks,
    rounded_inputs,
    scales_across,
    rows,
    columns_permuted,
    row_scaled,
    row_shifted,
    column_scaled,
    low_rank,
)
"""Those with fewer free numbers first: what comes later fits whatever comes before it."""
_OF_INPUTS = ("structure.rounded_inputs", "structure.input_channels")
_AS_STORED = ", though what was loaded is the checkpoint's by its digest: what becomes of it afterwards?"


def weight_structure(tap: WrongTap) -> Finding | None:
    """The structure with the fewest free numbers that gives a linear's numbers at every position."""
    product = tap.product()
    if product is None or not np.isfinite(product.weight).all() or not product.wrong.any():
        return None
    for form in _FORMS:
        if (fits := form(product)) is not None:
            name, says, share = fits
            after = _AS_STORED if product.loaded and name not in _OF_INPUTS else ""
            counted = f"{_counted(product.positions)} of {product.weight.shape[1]} inputs"
            return Finding(name, f"{says}; told by {counted}{after}", share)
    return any_weight(product)


def _counted(positions: int) -> str:
    return f"{positions} position{'s' if positions != 1 else ''}"
