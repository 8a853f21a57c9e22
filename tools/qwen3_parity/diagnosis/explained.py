"""A fault with what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qwen3_parity.diagnosis.explain import FITTED, Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.fits import Finding


@dataclass(frozen=True)
class Explained:
    """A fault with what explains it: mistakes that reproduce its numbers, best first, or else findings.

    `where` says which layers and steps, and which rows, heads or channels carry the error; `record` which hidden tap
    would tell more. `stopped`: not every known mistake was tried, there was no time.
    """

    fault: Fault
    where: str
    explanations: Sequence[Explanation] = ()
    findings: Sequence[Finding] = ()
    record: str = ""
    stopped: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """Every place of the fault's group."""
        return self.fault.places

    @property
    def name(self) -> str:
        """The first explanation's or finding's name; empty when nothing is known."""
        names = [one.name for one in self.explanations] + [one.name for one in self.findings]
        return names[0] if names else ""

    @property
    def is_known(self) -> bool:
        """Whether the first explanation is a known mistake, and no fit of each tap by itself."""
        return bool(self.explanations) and self.explanations[0].rank < FITTED


_FEW_TAPS = 0.2
"""What an explanation of few taps tells: less than where the error is, more than how large it is."""


def by_half(explanations: Sequence[Explanation]) -> tuple[Sequence[Explanation], list[Finding]]:
    """The explanations where the best reproduces at least half of the wrong taps; else what each fits, as findings.

    A number that is read off one tap fits that tap: it is no name for what is wrong with the others.
    """
    if not explanations or 2 * _reproduced(explanations[0]) >= explanations[0].of:
        return explanations, []
    return [], [Finding("fit.few_taps", _at_few(one), _FEW_TAPS) for one in explanations]


def _reproduced(one: Explanation) -> int:
    return one.whole + one.partly


def _at_few(one: Explanation) -> str:
    doubt = f", and {one.contradicted} right taps would be wrong too" if one.contradicted else ""
    return f"at {_reproduced(one)} of {one.of} taps this fits: it {one.says} ({one.name}){doubt}"
