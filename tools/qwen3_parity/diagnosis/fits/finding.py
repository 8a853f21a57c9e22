"""What a fit is: something that is found in a wrong tap's numbers and narrows down the mistake."""

from __future__ import annotations

from collections.abc import Callable

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_spec.site import Result

__all__ = ["Finding", "Fit"]

Fit = Callable[[Evidence, Result], Finding | None]
"""Looks at a wrong tap and at what it should have been (with the rounding unit); None when there is nothing to say."""
