"""A red test: what it says, and whether it is red only because of an op before it."""

from __future__ import annotations

from collections.abc import Collection

from qwen3_golden import pattern_of
from qwen3_golden.errors import printable
from qwen3_parity.judge.budgets import percent
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts

_IN_FULL = 3


class NotParityError(AssertionError):
    """Numbers that differ from the golden's; `blamed` is the place to blame, its layers left open, if one is known."""

    def __init__(self, text: str, blamed: str = "") -> None:
        super().__init__(printable(text))
        self.blamed = printable(blamed)


class RedCaseError(NotParityError):
    """A test that is red by the verdicts on a case. `downstream`: what is blamed is not the test's own op."""

    def __init__(self, text: str, blamed: str = "", *, downstream: bool = False) -> None:
        super().__init__(text, blamed)
        self.downstream = downstream


def require(verdicts: Verdicts, taps: Collection[Verdict] | None = None) -> None:
    """Raise `RedCaseError` unless these taps of a run are right; without `taps` the whole verdict, its results too.

    The message has one line where every op of them is right on its own inputs, and one before them is not.
    """
    if taps is None:
        require_complete(verdicts)
    failing = [tap for tap in (verdicts.taps if taps is None else taps) if tap.problem is not None]
    if not failing:
        return
    origin = _upstream(verdicts, failing)
    if origin is None:
        text, blamed = _in_full([tap.problem for tap in failing if tap.problem is not None]), _blamed(failing)
        raise RedCaseError(spoken(text, verdicts.case), spoken(blamed, verdicts.case))
    share = percent(failing[0].share)
    text = f"{failing[0].where}: {share} of its budget, though right on its own inputs: downstream of {origin}"
    raise RedCaseError(spoken(text, verdicts.case), spoken(_open(origin), verdicts.case), downstream=True)


def require_complete(verdicts: Verdicts) -> None:
    """Raise `RedCaseError` for what is wrong with a recording as a whole, and for results that are not in it."""
    if verdicts.structural:
        raise RedCaseError(spoken(_in_full(verdicts.structural), verdicts.case))
    if verdicts.exit_code and not verdicts.problems:
        raise RedCaseError(f"{verdicts.case.name}: {verdicts.word} {', '.join(verdicts.no_results)}".rstrip())


def _upstream(verdicts: Verdicts, failing: Collection[Verdict]) -> str | None:
    """The first tap, before all that fail, whose op is wrong on its own inputs; None unless theirs are all right."""
    if not all(tap.judged_alone and tap.alone is not None and tap.alone.passed for tap in failing):
        return None
    failed = {id(tap) for tap in failing}
    for tap in verdicts.taps:
        if id(tap) in failed:
            return None
        if tap.alone is not None and not tap.alone.passed:
            return tap.name
    return None


def _blamed(failing: Collection[Verdict]) -> str:
    """The place of the first tap whose op is wrong alone, or else of the first."""
    wrong = [tap for tap in failing if tap.alone is not None and not tap.alone.passed]
    return next((_open(tap.name) for tap in [*wrong, *failing]), "")


def _open(name: str) -> str:
    return pattern_of(name).replace("{layer}", "*")


def _in_full(problems: Collection[Problem]) -> str:
    shown = [str(problem) for problem in problems][:_IN_FULL]
    more = len(problems) - len(shown)
    return "\n".join([*shown, f"… and {more} more failures"] if more else shown)
