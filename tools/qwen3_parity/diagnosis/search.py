"""How mistakes are looked for: what is tried first, how long, who is told, and what of ours failed on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

from qwen3_parity.blame.work import Work
from qwen3_parity.diagnosis.moments import Moment

_T = TypeVar("_T")
ENOUGH = 2_500_000_000
"""Counted work, in evaluated elements, after which the search in a candidate ends: seven seconds of a quiet core."""


@dataclass
class Search:
    """The search for the mistake in one place.

    `known` are names to try first; `work` counts what is evaluated, and the search ends with the best so far where it
    reaches `until`; `moments` are steps in which alone mistakes may be made, too; without `pairs`
    no two mistakes are looked for in one op; `progress` is told what is done; `failures` are hypotheses of ours that
    could not be tried. At `deadline`, in seconds of the `clock`, it ends as well. `stopped`: it had to end before
    everything was tried, and `cut`: by the clock.
    """

    known: Collection[str] = ()
    work: Work = field(default_factory=Work)
    until: float = math.inf
    deadline: float = math.inf
    clock: Callable[[], float] = monotonic
    moments: Sequence[Moment] = ()
    pairs: bool = True
    progress: Callable[[str], None] = lambda _: None
    failures: list[str] = field(default_factory=list)
    stopped: bool = False
    cut: bool = False

    def over(self) -> bool:
        """Whether to stop with the best so far."""
        self.cut = self.cut or (self.deadline < math.inf and self.clock() >= self.deadline)
        self.stopped = self.stopped or self.cut or self.work.done >= self.until
        return self.stopped

    def or_else(self, look: Callable[[], _T], otherwise: _T, words: str) -> _T:
        """What a look gives; whatever it comes by, the verdict stands, and the answer says what was not looked at."""
        try:
            return look()
        except Exception as error:  # a recording may hold anything
            self.failures.append(f"harness bug: {words} could not be looked at: {type(error).__name__}: {error}")
            return otherwise
