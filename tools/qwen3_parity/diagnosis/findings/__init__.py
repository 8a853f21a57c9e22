"""What the numbers of a wrong tap say by themselves, whichever judge it was judged by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance import provenance
from qwen3_parity.diagnosis.findings.provenance_blocks import other_channels
from qwen3_parity.diagnosis.findings.provenance_statistic import other_statistic
from qwen3_parity.diagnosis.findings.structure import structure
from qwen3_parity.diagnosis.findings.structure_terms import summed
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap

__all__ = ["Finding", "Key", "WrongTap", "findings"]

FINDERS: tuple[Callable[[WrongTap], Finding | None], ...] = (
    provenance,
    other_channels,
    other_statistic,
    structure,
    summed,
)
"""In the order of preference among findings that tell equally much."""


def findings(tap: WrongTap) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first."""
    with np.errstate(all="ignore"):
        every = [finding for finder in FINDERS if (finding := finder(tap)) is not None]
    return sorted(every, key=lambda finding: -finding.weight)
