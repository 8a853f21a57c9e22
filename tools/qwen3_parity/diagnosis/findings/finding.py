"""What is said of a wrong tap's numbers when it narrows down the mistake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`name` is stable ("fit.factor"), `says` a sentence with its numbers, `weight` 0 to 1: how much it tells.

    1 means that the numbers are reproduced within the op's budget once what is said is applied.
    """

    name: str
    says: str
    weight: float
