"""What a fit is: something that is found in a wrong tap's numbers and narrows down the mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qwen3_parity.blame.evidence import Evidence
from qwen3_spec.site import Result


@dataclass(frozen=True)
class Finding:
    """`name` is stable ("fit.factor"), `says` a sentence with its numbers, `weight` 0 to 1: how much it tells.

    1 means that the numbers are reproduced within the op's budget once what was found is applied.
    """

    name: str
    says: str
    weight: float


Fit = Callable[[Evidence, Result], Finding | None]
"""Looks at a wrong tap and at what it should have been (with the rounding unit); None when there is nothing to say."""
