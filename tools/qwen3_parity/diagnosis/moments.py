"""Moments: the steps of a case in which alone a mistake may be made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Moment(NamedTuple):
    """Steps in which alone a mistake is made; `says` in words."""

    says: str
    steps: frozenset[int]


def moments(steps: Sequence[int], wrong: frozenset[int]) -> tuple[Moment, ...]:
    """The moments that the first of the `wrong` steps begins, out of a case's `steps`, in tokens; the widest first.

    What a step writes to a cache is read by all behind it: these may be wrong, and its moment is over.
    """
    first = min(wrong, default=0)
    every = {
        "in steps with a past alone": {step for step in range(len(steps)) if step},
        "in steps of several tokens with a past alone": {step for step, size in enumerate(steps) if step and size > 1},
        "in steps of a single token alone": {step for step, size in enumerate(steps) if size == 1},
    }
    begun = (Moment(says, frozenset(chosen)) for says, chosen in every.items() if first == min(chosen, default=0) > 0)
    return tuple({moment.steps: moment for moment in reversed(list(begun))}.values())[::-1]
