"""What the numbers of a wrong tap say by themselves, whichever judge it was judged by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_parity.diagnosis.findings.approximated import approximated
from qwen3_parity.diagnosis.findings.clamped import clamped
from qwen3_parity.diagnosis.findings.concentration import concentrated, size
from qwen3_parity.diagnosis.findings.factors import axis_factor, factor, row_factor
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.grids import grid
from qwen3_parity.diagnosis.findings.inputs import rounded_input
from qwen3_parity.diagnosis.findings.masks import bands
from qwen3_parity.diagnosis.findings.offsets import axis_offset, key_bias
from qwen3_parity.diagnosis.findings.places import axis_order, permuted, shift
from qwen3_parity.diagnosis.findings.rows import rows_sum, visible_zero
from qwen3_parity.diagnosis.findings.values import dropout, not_finite
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

__all__ = ["Finding", "Key", "WrongTap", "findings"]

FINDERS: tuple[Callable[[WrongTap], Finding | None], ...] = (
    not_finite,
    bands,
    factor,
    visible_zero,
    dropout,
    rows_sum,
    clamped,
    axis_order,
    shift,
    permuted,
    axis_offset,
    axis_factor,
    row_factor,
    key_bias,
    grid,
    rounded_input,
    approximated,
    concentrated,
    size,
)
"""In the order of preference among findings that tell equally much."""


def findings(tap: WrongTap) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first."""
    with np.errstate(all="ignore"):
        every = [finding for finder in FINDERS if (finding := finder(tap)) is not None]
    return sorted(every, key=lambda finding: -finding.weight)
