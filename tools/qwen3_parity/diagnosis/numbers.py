"""What the numbers of a place's wrong taps say by themselves, of the worst of them and from tap to tap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.diagnosis.findings.numbers.shapes import other_shape
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.judged import Judged

_SIZE = 0.1
"""The weight of how large an error is."""


def numbers(tap: Judged, others: Sequence[Judged] = ()) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first, together with those of the `others`."""
    shared = wrong_tap(tap)
    if shared is None:
        return [other_shape(tap.evidence.site.place.axes, tap.truth[0].shape, tap.evidence.actual.shape)]
    return findings(shared, [other for one in others if one.key != tap.key and (other := wrong_tap(one)) is not None])


def of_the_rest(tap: Judged) -> list[Finding]:
    """What says most of a tap that the explanations of its place leave, where it says more than how large it is."""
    first = [one for one in numbers(tap)[:1] if one.weight > _SIZE]
    return [replace(one, says=f"{tap.key[0]} (step {tap.key[1]}): {one.says}") for one in first]
