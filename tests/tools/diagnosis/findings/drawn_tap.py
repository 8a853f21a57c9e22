"""A wrong tap by itself, of numbers that were drawn."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings import WrongTap

AXES = ("batch", "position", "channel")
TRUTH = np.random.Generator(np.random.PCG64(7)).standard_normal((2, 7, 24))


def tap_of(truth: Array, actual: Array) -> WrongTap:
    """A tap of float32 whose numbers may be off by two roundings."""
    actual = actual.astype(np.float32).astype(np.float64)
    unit = 2.0**-24 * (np.abs(truth) + np.sqrt(np.mean(truth**2, -1, keepdims=True)))
    judged = np.ones(truth.shape, bool)
    wrong = np.abs(actual - truth) > 2 * unit
    return WrongTap(
        ("tap", 0), AXES, frozenset({"norm"}), actual, truth, unit, judged, wrong, 2, lambda name, step: None
    )  # fmt: skip
