"""A fault with what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qwen3_parity.diagnosis.explain import FITTED, Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.fits import Finding
from qwen3_parity.mistakes.wiring import OF_WRONG

REFERENCE = "reference"
"""The name of a finding that is a line of the reference's source."""


@dataclass(frozen=True)
class Explained:
    """A fault with what explains it: mistakes that reproduce its numbers, best first, or else findings.

    `where` says which layers and steps, and which rows, heads or channels carry the error; `record` which hidden tap
    would tell more. `stopped`: not every known mistake was tried, and `cut`: because there was no time.
    """

    fault: Fault
    where: str
    explanations: Sequence[Explanation] = ()
    findings: Sequence[Finding] = ()
    record: str = ""
    stopped: bool = False
    cut: bool = False

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


_FEW_TAPS, _WRONG_ALIKE = 0.2, 0.4
"""What an explanation of few taps tells: less than where the error is, more than how large it is; and what another
wrong tap tells."""


_MAPS = ("from.", "cache.slot_map", "cache.stale")
"""Findings that say where wrong numbers stand."""


def certain(explanations: Sequence[Explanation]) -> tuple[list[Explanation], list[Finding]]:
    """The explanations that are names with a fix, and those that are no more than what the numbers say.

    A number that is read off one tap fits that tap: one of them must reproduce at least half of the wrong ones, and the
    others may be behind the rest. That a tap is the same as one that is wrong itself says that the two have a cause in
    common, and not which.
    """
    alike = [one for one in explanations if one.rank >= OF_WRONG]
    names = [one for one in explanations if one.rank < OF_WRONG]
    findings = [Finding("fit.wrong_alike", f"{_at(one)}; what it reads is wrong itself", _WRONG_ALIKE) for one in alike]
    if not names or 2 * max(map(_reproduced, names)) >= names[0].of:
        return names, findings
    return [], [*findings, *(Finding("fit.few_taps", f"{_at(one)} ({one.name})", _FEW_TAPS) for one in names)]


def outranked(
    names: list[Explanation], beside: list[Finding], numbers: Sequence[Finding]
) -> tuple[list[Explanation], list[Finding]]:
    """Names and what stands beside them, where a map says of every wrong number where it stands.

    A name that was fitted to each tap by itself, or would make right cells wrong, says less and stands beside it.
    """
    maps = [finding for finding in numbers if finding.weight == 1 and finding.name.startswith(_MAPS)]
    if not names or not maps or (names[0].rank < FITTED and not round(names[0].spoiled, 1)):
        return names, beside
    return [], [*beside, *(Finding("fit.few_taps", f"{_at(name)} ({name.name})", _FEW_TAPS) for name in names)]


def _reproduced(one: Explanation) -> int:
    return one.whole + one.partly


def _at(one: Explanation) -> str:
    doubt = f", though {one.contradicted} right taps would be wrong too" if one.contradicted else ""
    return f"at {_reproduced(one)} of {one.of} taps this fits: it {one.says}{doubt}"
