"""How plain a mistake is, on one scale: of what explains equally much the plainer comes first, what is fitted last."""

from __future__ import annotations

from enum import StrEnum

PLAIN = 1
"""Up to here a mistake is plain: one careless line, with no number that could fit by chance."""
PLAIN_ENOUGH = 2
"""Up to here, what explains every number of a large tap ends the search."""
RARE = 3
"""Up to here it is rare, and plain enough to be thought of beside another one."""
COMBINED = 4
"""From here on it is several changes at once, or one that is made behind a right tap."""
SOLVED = 6
"""Up to here a name says more than that the numbers are others; a factor that is solved for is the last of them."""
FITTED = 8
"""From here on it was fitted to each tap by itself, so that nothing can contradict it: what the numbers say is told
beside it."""
COPIED = 10
"""A copy of a tap that is wrong itself: behind what explains the two by what they have in common."""


class Kind(StrEnum):
    """What a rank amounts to, in the order in which explanations stand."""

    PLAIN = "plain"
    RARE = "rare"
    COMBINED = "combined"
    FITTED = "fitted"


def kind_of(rank: float) -> Kind:
    """What a rank amounts to."""
    if rank >= FITTED:
        return Kind.FITTED
    if rank >= COMBINED:
        return Kind.COMBINED
    return Kind.PLAIN if rank <= PLAIN else Kind.RARE
