"""Another shape than the expected one."""

from __future__ import annotations

from collections.abc import Sequence

from qwen3_parity.diagnosis.findings.finding import Finding


def other_shape(axes: Sequence[str], expected: tuple[int, ...], actual: tuple[int, ...]) -> Finding:
    """Which axes are of another length, or in another order, where two shapes differ."""
    if len(expected) != len(actual):
        return Finding("fit.shape", f"its shape is {actual}, not {expected}", 1.0)
    if sorted(expected) == sorted(actual):
        return Finding("fit.axis_order", f"its axes are in another order: {actual} in place of {expected}", 1.0)
    lengths = [f"{name} is {a}, not {b}" for name, a, b in zip(axes, actual, expected, strict=False) if a != b]
    return Finding("fit.shape", "; ".join(lengths), 1.0)
