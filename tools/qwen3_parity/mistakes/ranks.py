"""How plain a mistake is: of what explains equally much the plainer comes first, what is fitted last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a mistake is, the plainest kind first."""

    PLAIN = 0
    """One careless line, with no number that could fit by chance."""
    RARE = 1
    """Rarer, and plain enough to be thought of beside another one."""
    COMBINED = 2
    """Several changes at once, or one that is made behind a right tap."""
    FITTED = 3
    """Fitted to each tap by itself, so that nothing can contradict it: what the numbers say is told beside it."""
    COPIED = 4
    """A copy of a tap that is wrong itself: behind what explains the two by what they have in common."""

    @property
    def word(self) -> str:
        """What people and JSON read."""
        return self.name.lower()


_FIRST = {Kind.PLAIN: 0, Kind.RARE: 2, Kind.COMBINED: 4, Kind.FITTED: 8, Kind.COPIED: 10}
"""The step at which each kind begins, counted from the plainest mistake."""


@dataclass(frozen=True, order=True)
class Rank:
    """A kind, and the `order` of mistakes of that kind in whole or half steps: smaller is plainer."""

    kind: Kind = Kind.PLAIN
    order: float = 0

    @property
    def plain(self) -> bool:
        """Whether it is of the plain kind."""
        return self.kind is Kind.PLAIN

    @property
    def steps(self) -> float:
        """How many steps it is from the plainest mistake."""
        return _FIRST[self.kind] + self.order

    def __add__(self, steps: float) -> Rank:
        """So many steps rarer; what is more than the orders of a kind is of the next one."""
        total = self.steps + steps
        kind = max(kind for kind, first in _FIRST.items() if first <= math.ceil(total))
        return Rank(kind, total - _FIRST[kind])


PLAIN, RARE, COMBINED, FITTED, COPIED = map(Rank, Kind)
SOLVED = COMBINED + 2
"""Up to here a name says more than that the numbers are others; a factor that is solved for is the last of them."""
