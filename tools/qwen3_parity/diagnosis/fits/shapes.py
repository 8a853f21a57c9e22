"""Another shape than the right one."""

from __future__ import annotations

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_spec.site import Result


def shape(evidence: Evidence, result: Result) -> Finding | None:
    """Which axes are of another length, or in another order."""
    right, wrong = result[0].shape, evidence.actual.shape
    if right == wrong:
        return None
    axes = evidence.site.place.axes
    if len(right) == len(wrong):
        off = [f"{name} is {a}, not {b}" for name, a, b in zip(axes, wrong, right, strict=False) if a != b]
        if sorted(right) == sorted(wrong):
            return Finding("fit.axis_order", f"its axes are in another order: {wrong} in place of {right}", 1.0)
        return Finding("fit.shape", "; ".join(off), 1.0)
    return Finding("fit.shape", f"its shape is {wrong}, not {right}", 1.0)
