"""Numbers that places without a tap may be multiplied with: solved for, where no known mistake explains their group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.judged import Judged, predicted
from qwen3_parity.diagnosis.suspects import Suspect, made_at, members
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.ranks import SOLVED
from qwen3_parity.mistakes.yarn import fix_factor
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_NAMES: Mapping[str, str] = {
    "embedding": "embedding.scaled",
    "scaled_sum": "embedding.scaled",
    "linear": "weight.scaled",
    "rms_norm": "norm.scaled",
    "head_norm": "norm.scaled",
    "cos": "table.scaled",
    "sin": "table.scaled",
    "scores": "scores.scale",
    "softmax": "softmax.scaled",
    "context": "context.scaled",
    "swiglu": "mlp.scaled",
    "residual": "residual.scaled",
}
"""What a wrong factor is called, by op; at other ops it is a mistake of what they read."""
_STEP = 2.0**-12
_ROUNDS = 6
_LEFT = 0.5
"""The part of the error that the first straight line must take away: else a factor is not what is wrong."""
_FAR = (-1.0, 0.25, 4.0)
"""Factors of scores that are started from, too: behind a softmax no straight line leads far."""


def factors(first: Judged) -> Iterator[Suspect]:
    """For each place of a group, and for those of one careless line, the factor that comes closest to the tap."""
    if not first.in_shape:
        return
    error = _Fit(first)
    at = {
        pattern: Hypothesis(_NAMES[site.place.op], "", "", partial(_times, 1.0), SOLVED)
        for pattern, site in members(first.evidence)
        if site.place.op in _NAMES
    }
    for suspect in made_at(at):
        with np.errstate(all="ignore"):
            factor = error.solved(suspect)
        if factor is not None:
            words = named(factor, first.evidence.site.config, tolerance=1e-4) or f"{factor:.6g}"
            says = f"is multiplied by {words}"
            if suspect.hypothesis.name == _NAMES["scores"]:
                scaling = first.evidence.site.scaling
                says += f": q·k has the factor {factor * scaling:.6g}, not {scaling:.6g}"
            fix = "leave the factor out"
            if suspect.hypothesis.name == _NAMES["cos"]:
                fix = fix_factor(first.evidence.site.config)
            hypothesis = replace(suspect.hypothesis, says=says, fix=fix, compute=partial(_times, factor))
            yield Suspect(hypothesis, dict.fromkeys(suspect.at, hypothesis), suspect.partial)


class _Fit:
    """The error of a tap, in rounding units, as a function of a factor."""

    def __init__(self, first: Judged) -> None:
        self.first = first
        self.truth = first.in_units(first.truth[0])
        self.error = first.in_units(first.evidence.actual) - self.truth

    def _with(self, suspect: Suspect, factor: float) -> Array | None:
        hypothesis = replace(suspect.hypothesis, compute=partial(_times, factor))
        result = predicted(Suspect(hypothesis, dict.fromkeys(suspect.at, hypothesis)), self.first)
        if result is None or result[0].shape != self.first.truth[0].shape:
            return None
        scaled = self.first.in_units(result[0])
        return scaled if np.isfinite(scaled).all() else None

    def solved(self, suspect: Suspect) -> float | None:
        """The factor that brings the tap closest; None where none comes near."""
        factor = self._from(suspect, 1.0)
        if factor is not None or suspect.hypothesis.name != _NAMES["scores"]:
            return factor
        return next((far for start in _FAR if (far := self._from(suspect, start)) is not None), None)

    def _from(self, suspect: Suspect, factor: float) -> float | None:
        """The same by Newton's method from a factor on."""
        before = size = float(np.linalg.norm(self.error))
        for number in range(_ROUNDS):
            here, there = self._with(suspect, factor), self._with(suspect, factor * (1 + _STEP))
            if here is None or there is None:
                return None
            slope = (there - here) / (factor * _STEP)
            steep, left = float(slope @ slope), self.error - (here - self.truth)
            if not steep or not np.isfinite(steep):
                return None
            by = float(slope @ left) / steep
            if number == 0 and float(np.linalg.norm(left - by * slope)) > _LEFT * before:
                return None
            factor, size = factor + by, float(np.linalg.norm(left))
            if abs(by) < 1e-7 * abs(factor):
                break
        return factor if size < _LEFT * before and factor != 1.0 else None


def _times(factor: float, site: Site) -> Result:
    y, unit = OPS[site.place.op].truth(site)
    return factor * y, unit
