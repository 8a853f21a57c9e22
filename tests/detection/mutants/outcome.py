"""What became of a mutant, case by case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from detection.mutants.mutant import Mutant


@dataclass(frozen=True)
class CaseOutcome:
    """One case of one mutant.

    `caught`: the check failed, or the run raised (`refused` says what; a mutant that names no diagnosis must be).
    `share` is the worst share of a budget among the taps that have one, infinite when only exact ones differ or a
    number is no number. `innocents` were blamed wrongly, `missed` are wrong, recorded by the case and not blamed.
    `diagnoses`: blamed tap to its first explanation. `failure`: what the judge raised, or a bug of our own.
    """

    case: str
    caught: bool
    refused: str = ""
    share: float = 0.0
    blamed: tuple[str, ...] = ()
    innocents: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    diagnoses: Mapping[str, str] | None = None
    failure: str = ""

    @property
    def exactly_blamed(self) -> bool:
        """Every wrong op is blamed and no other; a run that had to be refused has nothing to blame."""
        return bool(self.refused or self.blamed) and not self.innocents and not self.missed


@dataclass(frozen=True)
class Outcome:
    """A mutant and what its cases say, in the mutant's order; `failure` is our own trouble (a time limit, a crash)."""

    name: str
    says: str
    named: tuple[str, ...]
    cases: tuple[CaseOutcome, ...] = ()
    failure: str = ""

    @property
    def caught(self) -> bool:
        """Whether any case fails."""
        return any(case.caught for case in self.cases)

    @property
    def judged(self) -> CaseOutcome | None:
        """The first case that shows the bug."""
        return next((case for case in self.cases if case.caught), None)

    @property
    def blamed(self) -> bool:
        """Whether that case blames the wrong ops and no other."""
        return self.judged is not None and self.judged.exactly_blamed

    @property
    def diagnosed(self) -> bool:
        """Whether that case's first explanations are all right ones, of every blamed op."""
        if self.judged is None:
            return False
        names = set((self.judged.diagnoses or {}).values())
        return not self.named if self.judged.refused else bool(names) and names <= set(self.named)

    @property
    def shares(self) -> list[float]:
        """The worst share of a budget in each case that shows the bug and ran to its end."""
        return [case.share for case in self.cases if case.caught and not case.refused]

    def to_json(self) -> dict[str, Any]:
        """Plain values; an infinite share is null."""
        cases = [asdict(case) | {"share": case.share if math.isfinite(case.share) else None} for case in self.cases]
        return asdict(self) | {
            "cases": cases,
            "caught": self.caught,
            "blamed": self.blamed,
            "diagnosed": self.diagnosed,
        }


def nothing(mutant: Mutant, cases: tuple[CaseOutcome, ...] = (), failure: str = "") -> Outcome:
    """An outcome with the mutant's own fields filled in."""
    return Outcome(mutant.name, mutant.says, tuple(sorted(mutant.named)), cases, failure)
