"""The matrix product of a place of a network that formulas judge, over all steps that were recorded."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.blame.replay import expected, gather
from qwen3_parity.blame.values import Values, made_once
from qwen3_parity.diagnosis.findings.product import LARGEST, Product, spread
from qwen3_parity.diagnosis.judged import Judged
from qwen3_parity.judge.budgets import ROUNDOFF
from qwen3_parity.judge.scope import Scope
from qwen3_parity.mistakes.observed import real
from qwen3_parity.mistakes.parameters import loaded
from qwen3_spec.site import Site

_STEPS = 8
"""Steps whose hidden inputs are computed, and their noise drawn."""


def product_of(judged: Judged) -> Product | None:
    """A linear's product; None for another op and a weight that is too large."""
    evidence = judged.evidence
    site = evidence.site
    if site.place.op != "linear" or site.parameters["weight"].size > LARGEST or not judged.in_shape:
        return None
    values, once = site.values, made_once(site.place.name)
    steps = range(1 if once else max(len(site.case.steps), 1))
    rows = [_hidden(judged, step) if evidence.others else _rows(judged, step) for step in steps]
    if not any(rows):
        return None
    x, y, noise = (np.concatenate(parts) for parts in zip(*filter(None, rows), strict=True))
    some = spread(len(x))
    weight = np.asarray(site.parameters["weight"], np.float64)
    return Product(
        name=site.place.parameters[0],
        x=x[some],
        weight=weight,
        bias=np.asarray(site.parameters.get("bias", np.zeros(len(weight))), np.float64),
        y=y[some],
        noise=noise[some],
        room=judged.room,
        roundoff=ROUNDOFF[evidence.dtype] if evidence.dtype in (pb.BF16, pb.F16) else 0.0,
        loaded=loaded(site.place.parameters[0], values.given, values.recording),
        tensors=site.checkpoint,
        hidden=values.recorded(site.names[0], site.step) is None,
    )


def _rows(judged: Judged, step: int) -> tuple[Array, Array, Array] | None:
    """Input, output and no further noise at real tokens: `[position, in]`, twice `[position, out]`."""
    site_of_tap = judged.evidence.site
    site = site_of_tap if step == site_of_tap.step else site_of_tap.values.site(site_of_tap.place.name, step)
    actual = site_of_tap.values.recorded(site_of_tap.place.name, step)
    return None if site is None or actual is None else _counted(site, actual, real(site), np.zeros(actual.shape))


def _hidden(judged: Judged, step: int) -> tuple[Array, Array, Array] | None:
    """As `_rows`, where the input was not recorded: with the noise of what it was computed from."""
    site_of_tap, values = judged.evidence.site, judged.evidence.site.values
    assert isinstance(values, Values)
    if step == site_of_tap.step:
        evidence, (_, unit) = judged.evidence, judged.truth
    else:
        item, golden = values.recording.get(site_of_tap.place.name, step), values.given
        if item is None or golden is None or step > _STEPS:
            return None
        there = gather(values.another(), item, Scope(golden))
        if isinstance(there, str):
            return None
        evidence, (_, unit) = there, expected(there)
    noise = np.zeros(evidence.actual.shape) if unit is None else unit
    return _counted(evidence.site, evidence.actual, evidence.judged, noise)


def _counted(site: Site, actual: Array, cells: Array | None, noise: Array) -> tuple[Array, Array, Array] | None:
    outputs = len(site.parameters["weight"])
    if actual.shape[-1:] != (outputs,) or noise.shape != actual.shape:
        return None
    y, noise = (np.asarray(part, np.float64).reshape(-1, outputs) for part in (actual, noise))
    x = np.asarray(site.inputs[0], np.float64).reshape(len(y), -1)
    good = np.ones(len(y), bool) if cells is None else np.broadcast_to(cells, actual.shape).reshape(y.shape).all(1)
    good = good & np.isfinite(y).all(1) & np.isfinite(x).all(1)
    return x[good], y[good], noise[good]
