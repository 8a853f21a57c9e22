"""What the numbers of a place's wrong taps say by themselves, of the worst of them and from tap to tap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.fits import FITS
from qwen3_parity.diagnosis.fits.factors import factor, factor_of
from qwen3_parity.diagnosis.judged import Judged

_SHOWN = 6
_SIZE = 0.1
"""The weight of how large an error is."""


def numbers(tap: Judged, others: Sequence[Judged] = ()) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first; a factor with those of the `others`."""
    shared = wrong_tap(tap)
    with np.errstate(all="ignore"):
        fitted = [finding for fit in FITS if (finding := fit(tap.evidence, tap.truth)) is not None]
        every = [*(() if shared is None else findings(shared)), *fitted]
        every = [_from_tap_to_tap(one, tap, others) if one.name == "fit.factor" else one for one in every]
    return sorted(every, key=lambda one: -one.weight)


def _from_tap_to_tap(finding: Finding, tap: Judged, others: Sequence[Judged]) -> Finding:
    """A factor that is another one at every tap is no constant."""
    rest = [(one, factor(one.evidence, one.truth), factor_of(one.evidence, one.truth)) for one in others]
    rest = [each for each in rest if each[0].key != tap.key and (each[1] is None or each[1].says != finding.says)]
    if not rest:
        return finding
    listed = ", ".join(_factor(one, None if fits is None else by) for one, fits, by in rest[:_SHOWN])
    more = f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
    return replace(
        finding, says=f"{finding.says}; at other wrong taps it is no such number: {listed}{more}", weight=0.5
    )


def _factor(tap: Judged, by: float | None) -> str:
    layer = tap.evidence.site.place.layer
    where = f"step {tap.evidence.site.step}" if layer is None else f"layer {layer}, step {tap.evidence.site.step}"
    return f"{'none' if by is None else f'{by:.4g}'} ({where})"


def of_the_rest(tap: Judged) -> list[Finding]:
    """What says most of a tap that the explanations of its place leave, where it says more than how large it is."""
    first = [one for one in numbers(tap)[:1] if one.weight > _SIZE]
    return [replace(one, says=f"{tap.key[0]} (step {tap.key[1]}): {one.says}") for one in first]
