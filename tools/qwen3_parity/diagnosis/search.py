"""How mistakes are looked for: what is tried first, until when, who is told, and what of ours failed on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from time import monotonic


@dataclass
class Search:
    """The search for the mistake in one place.

    `known` are names to try first; `until` is a moment of the `clock` in seconds, `stopped` whether anybody had to stop
    there; `later`: what has no past is right, mistakes may be made in the other steps alone; without `pairs` no two
    mistakes are looked for in one op; `progress` is told what is done; `failures` are hypotheses of ours that could
    not be tried.
    """

    known: Collection[str] = ()
    until: float = math.inf
    clock: Callable[[], float] = monotonic
    later: bool = False
    pairs: bool = True
    progress: Callable[[str], None] = lambda _: None
    failures: list[str] = field(default_factory=list)
    stopped: bool = False

    def over(self) -> bool:
        """Whether it is time to stop with the best so far."""
        self.stopped = self.stopped or self.clock() >= self.until
        return self.stopped
