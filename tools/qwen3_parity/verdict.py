"""What a check found: a verdict for each tap; problems that say where, what, how far, whose fault and what next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from qwen3_golden import pb
from qwen3_parity.budgets import Shares
from qwen3_parity.compare import Metrics

NOBODY = "nobody's"
"""The fault of a difference that noise alone may make."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One failure. `share` is the share of the budget, None where no number was compared."""

    where: str
    rule: str
    expected: str
    got: str
    next_step: str
    share: float | None = None
    fault: str = "candidate"
    first_bad: str = ""  # The first tap in execution order that fails, and its op; the first stage of a text.

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.rule}", f"expected: {self.expected}", f"got:      {self.got}"]
        if self.share is not None:
            lines.append(f"budget:   {self.share:.3g} × used")
        if self.first_bad:
            lines.append(f"first bad: {self.first_bad}")
        return "\n  ".join([*lines, f"fault:    {self.fault}", f"next:     {self.next_step}"])


@dataclass(frozen=True, slots=True)
class Verdict:
    """One tap at one step. `shares` are of the budget; an exact tap has none and uses 0 or infinitely much of it.

    `metrics` is None when nothing could be compared (another shape or dtype), and then there is a `problem`.
    """

    name: str
    step: int
    op: str
    exact: bool
    metrics: Metrics | None = None
    shares: Shares | None = None
    problem: Problem | None = None

    @property
    def where(self) -> str:
        """Tap and step, as messages name it."""
        return f"{self.name} (step {self.step})"

    @property
    def passed(self) -> bool:
        """Within budget, or with nothing in it to judge."""
        return self.problem is None

    @property
    def compared(self) -> bool:
        """Whether the candidate's numbers were looked at; in padding alone that means finiteness."""
        return self.metrics is not None

    @property
    def share(self) -> float:
        """The share of the budget that is used: above 1 is a failure, infinite where no budget allows it."""
        if self.shares is None or self.metrics is None:
            return 0.0 if self.passed else math.inf
        return self.shares.worst if not math.isnan(self.shares.worst) and not self.metrics.nonfinite else math.inf


@dataclass(frozen=True)
class Verdicts:
    """Everything that `check` found about one candidate, taps in execution order.

    `structural` are problems of the recording as a whole (parameters, missing, extra, duplicate taps);
    `not_materialised` taps that the golden has and the candidate says it never makes.
    """

    case: pb.Case
    golden: str
    candidate: str
    arithmetic: int
    backend: int
    taps: Sequence[Verdict]
    structural: Sequence[Problem] = ()
    not_materialised: Sequence[str] = ()
    missing: int = 0
    notes: Sequence[str] = field(default=())

    @property
    def problems(self) -> list[Problem]:
        """Every failure: of the recording first, then tap by tap in execution order."""
        return [*self.structural, *(tap.problem for tap in self.taps if tap.problem is not None)]

    @property
    def compared(self) -> int:
        """Taps whose numbers were looked at."""
        return sum(tap.compared for tap in self.taps)

    @property
    def of(self) -> int:
        """Taps that the golden has, inputs not counted."""
        return len(self.taps) + len(self.not_materialised) + self.missing

    @property
    def worst(self) -> Verdict | None:
        """The tap with the largest share of its budget, the first of equals."""
        return max(self.taps, key=lambda tap: tap.share, default=None)

    @property
    def first_bad(self) -> Verdict | None:
        """The first tap in execution order that fails."""
        return next((tap for tap in self.taps if not tap.passed), None)

    @property
    def identical(self) -> bool:
        """Whether every judged element of every compared tap has the golden's bits."""
        return self.compared > 0 and not any(tap.metrics is None or tap.metrics.differing for tap in self.taps)

    @property
    def word(self) -> str:
        """ "parity", "divergence", "near-tie" when nothing but such a flip differs, "within budget, no parity".

        The last is for arithmetic that has no claim to parity.
        """
        if self.problems:
            return "near-tie" if all(problem.fault == NOBODY for problem in self.problems) else "divergence"
        return "within budget, no parity" if self.arithmetic == pb.ARITHMETIC_OTHER else "parity"

    @property
    def exit_code(self) -> int:
        """0 for parity, 1 for everything else."""
        return 0 if self.word == "parity" else 1

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; numbers that JSON lacks become strings."""
        worst, first = self.worst, self.first_bad
        return {
            "verdict": self.word,
            "exit_code": self.exit_code,
            "case": self.case.name,
            "golden": self.golden,
            "candidate": self.candidate,
            "arithmetic": pb.Arithmetic.Name(self.arithmetic),
            "backend": pb.Backend.Name(self.backend),
            "compared": self.compared,
            "of": self.of,
            "not_materialised": list(self.not_materialised),
            "worst": None if worst is None else {"where": worst.where, "share": plain(worst.share)},
            "first_bad": None if first is None else first.where,
            "notes": list(self.notes),
            "problems": [plain(asdict(problem)) for problem in self.problems],
            "taps": [_tap(tap) for tap in self.taps],
        }


def _tap(tap: Verdict) -> dict[str, Any]:
    out: dict[str, Any] = {"name": tap.name, "step": tap.step, "op": tap.op, "exact": tap.exact, "passed": tap.passed}
    out["share"] = plain(tap.share)
    if tap.shares is not None:
        out["shares"] = plain(tap.shares._asdict())
    if tap.metrics is not None:
        out["metrics"] = plain(asdict(tap.metrics))
    return out


def plain(value: Any) -> Any:
    """The value with what JSON cannot say (NaN, infinities) as strings and tuples as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
