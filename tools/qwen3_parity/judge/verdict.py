"""What a check found: a verdict for each tap; problems that say where, what, how far, whose fault and what next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from qwen3_golden import pb
from qwen3_golden.contract import Contract
from qwen3_golden.errors import printable
from qwen3_parity.judge.budgets import Shares
from qwen3_parity.judge.compare import Metrics
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.predictions import Predictions
from qwen3_parity.judge.spoken import spoken

FURTHER = "further from the golden than honest arithmetic goes"
"""The rule of a tap that leaves the budget of the whole run."""
WRONG_ALONE = "wrong on the candidate's own inputs"
"""The rule, or what it has in it, that a tap fails by itself alone, and not in the run."""
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
            used = f"{self.share:.3g} × used" if math.isfinite(self.share) else "none is large enough"
            lines.append(f"budget:   {used}")
        if self.first_bad:
            lines.append(f"first bad: {self.first_bad}")
        lines += [f"fault:    {self.fault}", *([f"next:     {self.next_step}"] if self.next_step else [])]
        return printable("\n  ".join(lines))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One tap at one step. `shares` are of the budget; an exact tap has none and uses 0 or infinitely much of it.

    `metrics` is None when nothing could be compared: another shape or dtype, and then there is a `problem`, or a golden
    without floors. `own` is the tap's op on the candidate's own inputs, None where no op was judged alone. `last_rows`:
    the candidate has that many of the tap's rows, the last ones, and no other was compared; 0 for all of them.
    """

    name: str
    step: int
    op: str
    exact: bool
    metrics: Metrics | None = None
    shares: Shares | None = None
    problem: Problem | None = None
    alone: OpVerdict | None = None
    last_rows: int = 0

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
        return self.metrics is not None or self.judged_alone

    @property
    def judged_alone(self) -> bool:
        """Whether the tap's op was judged on the candidate's own inputs."""
        return self.alone is not None and not self.alone.reason

    @property
    def share(self) -> float:
        """The share of the budget that is used: above 1 is a failure, infinite where no budget allows it.

        Where there is no floor, it is the share of the op's own headroom.
        """
        if self.metrics is None and self.alone is not None:
            return self.alone.share
        if self.shares is None or self.metrics is None:
            return 0.0 if self.passed else math.inf
        return self.shares.worst if not math.isnan(self.shares.worst) and not self.metrics.nonfinite else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; numbers that JSON lacks become strings."""
        out: dict[str, Any] = {"name": self.name, "step": self.step, "op": self.op, "exact": self.exact}
        out |= {"passed": self.passed, "share": plain(self.share)}
        run = {} if self.shares is None else {"shares": plain(self.shares._asdict())}
        run |= {} if self.metrics is None else {"metrics": plain(asdict(self.metrics))}
        out |= {"run": run} if run else {}
        if self.alone is not None:
            op_verdict, errors = self.alone, plain(self.alone.errors._asdict())
            out["alone"] = {
                "share": plain(op_verdict.share),
                "errors": errors,
                "passed": op_verdict.passed,
                "reason": op_verdict.reason,
            }
        return out


@dataclass(frozen=True)
class Verdicts:
    """Everything that `check` found about one candidate, taps in execution order.

    `structural` are problems of the recording as a whole (parameters, missing, extra, duplicate taps);
    `not_materialised` taps that the golden has and the candidate says it never makes; `results` the name and step of
    the case's results. `unreached` are layers and steps that a port in progress has not built, in words. `partial`:
    nobody asks for the results. `floors`: the golden has noise floors.
    `contract` is what was judged by, None where nobody looked. `predictions` are those of a lossy candidate, and
    `computed_in` says what it computes in, where its taps tell.
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
    unreached: Sequence[str] = ()
    notes: Sequence[str] = field(default=())
    results: Sequence[tuple[str, int]] = ()
    partial: bool = False
    floors: bool = True
    contract: Contract | None = None
    predictions: Predictions | None = None
    computed_in: int = pb.ARITHMETIC_UNSPECIFIED

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
    def no_results(self) -> list[str]:
        """The results of the case that were not compared, or not all of their rows, as messages name them."""
        compared = {(tap.name, tap.step) for tap in self.taps if tap.compared and not tap.last_rows}
        return [f"{name} (step {step})" for name, step in self.results if (name, step) not in compared]

    @property
    def last_alone(self) -> list[str]:
        """The results that were compared at their last rows alone, as an engine has them that generates."""
        return [tap.where for tap in self.taps if tap.last_rows and tap.where in self.no_results]

    @property
    def results_alone(self) -> bool:
        """Whether nothing but the case's results was compared: they alone speak for the network before them."""
        compared = {(tap.name, tap.step) for tap in self.taps if tap.compared}
        return 0 < self.compared < self.of and compared <= set(self.results)

    @property
    def lacks(self) -> list[str]:
        """What keeps a verdict partial: layers and steps that are not there yet, and results, each once."""
        return [*self.unreached, *dict.fromkeys(where.rpartition(" (step")[0] for where in self.no_results)]

    @property
    def wrong_alone(self) -> list[str]:
        """The taps whose op is wrong on the candidate's own inputs, whatever came before it; each once, in order."""
        return list(dict.fromkeys(tap.name for tap in self.taps if tap.alone is not None and not tap.alone.passed))

    @property
    def worst(self) -> Verdict | None:
        """The tap with the largest share of its budget, the first of equals."""
        return max(self.taps, key=lambda tap: tap.share, default=None)

    @property
    def first_bad(self) -> Verdict | None:
        """The first tap in execution order that fails."""
        return next((tap for tap in self.taps if not tap.passed), None)

    @property
    def not_finite(self) -> list[Verdict]:
        """The taps that hold NaN or an infinity where the golden has none, in execution order."""
        return [tap for tap in self.taps if tap.metrics is not None and tap.metrics.nonfinite_actual]

    @property
    def identical(self) -> bool:
        """Whether every judged element of every compared tap has the golden's bits."""
        return self.compared > 0 and not any(tap.metrics is None or tap.metrics.differing for tap in self.taps)

    @property
    def judged(self) -> str:
        """What was judged: "run and ops", "run only", "ops only" (no floors), or "copies" where nothing may differ."""
        if self.case.mode in (pb.TOKENIZATION, pb.PLUMBING):
            return "copies"
        if not self.floors:
            return "ops only"
        return "run and ops" if any(tap.judged_alone for tap in self.taps) else "run only"

    @property
    def word(self) -> str:
        """ "parity", "divergence", "near-tie", "within budget, no parity" or "partial".

        A near-tie is a flip that noise may make, and nothing else differs; arithmetic that is OTHER has no claim to
        parity, nor has what was judged by an edited contract; a run without its case's results, or with layers or steps
        that are not there yet, is partial.
        """
        if self.problems:
            return "near-tie" if all(problem.fault == NOBODY for problem in self.problems) else "divergence"
        if self.arithmetic == pb.ARITHMETIC_OTHER or (self.contract is not None and self.contract.edited):
            return "within budget, no parity"
        return "partial" if self.no_results or self.unreached else "parity"

    @property
    def exit_code(self) -> int:
        """0 for parity, and for a partial verdict where nobody asks for more; 1 for everything else."""
        return 0 if self.word == "parity" or (self.word == "partial" and self.partial) else 1

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; numbers that JSON lacks become strings."""
        worst, first = self.worst, self.first_bad
        said = {
            "verdict": self.word,
            "judged": self.judged,
            "exit_code": self.exit_code,
            "case": self.case.name,
            "contract": None if self.contract is None else asdict(self.contract),
            "golden": self.golden,
            "candidate": self.candidate,
            "arithmetic": pb.Arithmetic.Name(self.arithmetic),
            "backend": pb.Backend.Name(self.backend),
            "compared": self.compared,
            "of": self.of,
            "not_materialised": list(self.not_materialised),
            "no_results": list(self.no_results),
            "unreached": list(self.unreached),
            "worst": None if worst is None else {"where": worst.where, "share": plain(worst.share)},
            "first_bad": None if first is None else first.where,
            "wrong_alone": self.wrong_alone,
            "notes": list(self.notes),
            "predictions": None if self.predictions is None else self.predictions.to_json(),
            "problems": [plain(asdict(problem)) for problem in self.problems],
        }
        taps = [
            {"name": tap.name, "place": spoken(tap.name, self.case)} | spoken(_without_name(tap), self.case)
            for tap in self.taps
        ]
        return spoken(said, self.case) | {"taps": taps}


def _without_name(tap: Verdict) -> dict[str, Any]:
    return {key: value for key, value in tap.to_json().items() if key != "name"}
