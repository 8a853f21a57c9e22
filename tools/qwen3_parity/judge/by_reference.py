"""Candidates that no implementation made: the golden itself, or what the reference recorded."""

from __future__ import annotations

from collections.abc import Iterable

from qwen3_golden import Recording
from qwen3_parity.judge.verdict import Verdicts

ITSELF = "the candidate is the golden itself, so no implementation was judged"
REFERENCE = "the candidate was recorded by the reference, so no implementation of its own was judged"
_PRODUCER = "qwen3_reference"


def by_reference(actual: Recording, expected: Recording) -> tuple[str, ...]:
    """What is to be remarked of a candidate that is no implementation's, if it is none."""
    if actual.digest and actual.digest == expected.digest:
        return (ITSELF,)
    return (REFERENCE,) * (actual.provenance.producer == _PRODUCER)


def cases_by_reference(results: Iterable[Verdicts]) -> list[str]:
    """The names of the cases whose candidate is the golden itself or was recorded by the reference."""
    return [verdicts.case.name for verdicts in results if {ITSELF, REFERENCE}.intersection(verdicts.notes)]
