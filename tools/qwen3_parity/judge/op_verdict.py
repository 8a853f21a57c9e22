"""What was found of one op on the candidate's own inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Errors(NamedTuple):
    """Errors in rounding units: RMS over the tap, largest, RMS of the worst row (position) and of the worst head."""

    rms: float = 0.0
    max: float = 0.0
    row: float = 0.0
    head: float = 0.0


NONE = Errors()
"""No error at all."""


@dataclass(frozen=True, slots=True)
class OpVerdict:
    """One tap alone. `errors` are in rounding units; an exact op has 0 or infinity.

    `others` are the places that have no tap of their own and are judged with this one. `share` is of the headroom:
    above 1 is a fault; infinite for an exact op that is not, another shape, a NaN. `reason` says why nothing was judged
    (an input that was not recorded, or is not finite); empty when it was.
    """

    name: str
    step: int
    op: str
    errors: Errors = NONE
    share: float = 0.0
    reason: str = ""
    others: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Within the op's headroom, or not judged."""
        return self.share <= 1
