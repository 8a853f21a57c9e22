"""A fault with what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qwen3_golden.origins import Origin
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding, Key
from qwen3_parity.diagnosis.known_words import MISREAD, READ_FIX
from qwen3_parity.mistakes.ranks import Kind

_EXACT = 0.99
"""What a finding must tell to name a mistake: with it all numbers are reproduced."""
REFERENCE = "reference"
"""The name of a finding that is a line of the reference's source."""


@dataclass(frozen=True)
class Explained:
    """A fault with what explains it: mistakes that reproduce its numbers, best first, or else findings.

    `where` says which layers and steps, and which rows, heads or channels carry the error; `record` which hidden tap
    would tell more, `origin` where the candidate's own code makes the first wrong tap. `stopped`: not every known
    mistake was tried, and `cut`: because there was no time. `tried` are the name and step of the wrong taps that the
    explanations were run on, `untried` counts those that were too many.
    """

    fault: Fault
    where: str
    explanations: Sequence[Explanation] = ()
    findings: Sequence[Finding] = ()
    record: str = ""
    origin: Origin | None = None
    stopped: bool = False
    cut: bool = False
    tried: tuple[Key, ...] = ()
    untried: int = 0

    @property
    def left(self) -> tuple[Key, ...]:
        """The wrong taps that none of the explanations reproduces: something else is wrong there, too."""
        explained = {tap for explanation in self.explanations for tap in explanation.taps}
        return tuple(tap for tap in self.tried if tap not in explained) if self.explanations else ()

    @property
    def numbers(self) -> Sequence[Finding]:
        """What the numbers say, without the reference's lines."""
        return [finding for finding in self.findings if finding.name != REFERENCE]

    @property
    def source(self) -> Sequence[str]:
        """The reference's lines that make what is wrong."""
        return [finding.says for finding in self.findings if finding.name == REFERENCE]

    @property
    def places(self) -> tuple[str, ...]:
        """Every place of the fault's group."""
        return self.fault.places

    @property
    def name(self) -> str:
        """The first explanation's or finding's name; empty when nothing is known."""
        names = [explanation.name for explanation in self.explanations] + [finding.name for finding in self.findings]
        return names[0] if names else ""

    @property
    def misread(self) -> str:
        """What to do where the numbers name how a packed weight is read otherwise; "" of what they name not."""
        exact = not self.is_known and any(finding.weight >= _EXACT for finding in self.numbers[:1])
        return READ_FIX if exact and self.numbers[0].name in MISREAD else ""

    @property
    def is_known(self) -> bool:
        """Whether the first explanation is a known mistake, and no fit of each tap by itself."""
        return bool(self.explanations) and not self.explanations[0].fitted


_FEW_TAPS, _WRONG_ALIKE, _WHOLE_TAPS = 0.2, 0.4, 0.8
"""What an explanation of few taps tells: less than where the error is, more than how large it is; what another wrong
tap tells; and what a plain edit of a line tells that gives every number of some taps, as of the first step alone."""


_ROWS = "batch "
"""How the part of a tap is called that is batch rows."""
_MAPS = ("from.", "cache.slot_map", "cache.stale")
"""Findings that say where wrong numbers stand."""


def certain(explanations: Sequence[Explanation], *, narrow: bool = False) -> tuple[list[Explanation], list[Finding]]:
    """The explanations that are names with a fix, and those that are no more than what the numbers say.

    A number that is read off one tap fits that tap: one of them must reproduce at least half of the wrong ones, and the
    others may be behind several of the rest. That a tap is the same as one that is wrong itself says that the two have
    a cause in common, and not which. No line does otherwise in some batch rows alone: what fits there may be chance. In
    half precision (`narrow`) what fits fewer than half, and one of them, is chance and not said.
    """
    alike = [explanation for explanation in explanations if explanation.rank.kind is Kind.COPIED]
    named = [explanation for explanation in explanations if explanation.rank.kind is not Kind.COPIED]
    half = named[0].of / 2 if named else 0
    enough = any(explanation.reproduced >= half for explanation in named)
    names = [x for x in named if enough and x.reproduced >= min(half, 2) and (x.whole or not x.part.startswith(_ROWS))]
    findings = [
        Finding("fit.wrong_alike", f"{_at(explanation)}; what it reads is wrong itself", _WRONG_ALIKE)
        for explanation in alike
    ]
    few = [x for x in named if x not in names and not (narrow and x.reproduced == 1 < x.of / 2)]
    return names, [*findings, *map(_few, few)]


def outranked(
    names: list[Explanation], beside: list[Finding], numbers: Sequence[Finding]
) -> tuple[list[Explanation], list[Finding]]:
    """Names and what stands beside them, where a map says of every wrong number where it stands.

    A name that was fitted to each tap by itself, would make right cells wrong, or is one of a part of the tap alone
    says less and stands beside it.
    """
    maps = [finding for finding in numbers if finding.weight == 1 and finding.name.startswith(_MAPS)]
    if not names or not maps or (names[0].certain and not names[0].part):
        return names, beside
    return [], [*beside, *map(_few, names)]


def _few(explanation: Explanation) -> Finding:
    is_edit = explanation.name.startswith("edit.") and explanation.rank.kind <= Kind.RARE
    weight = _WHOLE_TAPS if is_edit and explanation.whole and not explanation.contradicted else _FEW_TAPS
    return Finding("fit.few_taps", f"{_at(explanation)} ({explanation.name})", weight)


def _at(explanation: Explanation) -> str:
    doubt = f", though {explanation.doubted} right taps would be wrong too" if explanation.doubted else ""
    return f"at {explanation.reproduced} of {explanation.of} taps this fits: it {explanation.says}{doubt}"
