"""Chosen ids that are all as far off: a part of the vocabulary that is counted from another start."""

from __future__ import annotations

import numpy as np

from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 2
"""Rows that must be off alike."""
_SHOWN = 3
_ALIKE = 0.95


def counted_off(tap: WrongTap) -> Finding | None:
    """The first wrong id of each row is the same number off; what follows it was asked of another text."""
    if "argmax" not in tap.ops or tap.actual.ndim != 2 or tap.actual.shape != tap.truth.shape:
        return None
    wrong = tap.wrong & tap.judged
    rows, firsts = np.flatnonzero(wrong.any(1)), wrong.argmax(1)
    actual, truth = (np.asarray(values[rows, firsts[rows]], np.int64) for values in (tap.actual, tap.truth))
    by = np.unique(actual - truth)
    if len(rows) < _FEWEST or len(by) != 1 or len(np.unique(truth)) < _FEWEST:
        return None
    before = (np.arange(wrong.shape[1]) < np.where(wrong.any(1), firsts, wrong.shape[1])[:, None]) & tap.judged
    examples = ", ".join(f"{a} for {t}" for a, t in list(zip(actual, truth, strict=True))[:_SHOWN])
    says = f"the first wrong id of each row is {by[0]:+d} off: {examples}"
    if before.any() and tap.truth[before].max() < truth.min():
        says += (
            f"; ids up to {int(tap.truth[before].max())} are right, and from {truth.min()} on they are shifted: "
            "is the vocabulary in parts, and a part counted from another start?"
        )
    return Finding("fit.ids_shifted", says, _ALIKE)
