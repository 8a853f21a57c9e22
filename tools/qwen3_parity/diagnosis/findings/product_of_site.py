"""The matrix product of a place of a network that formulas judge, over all steps that were recorded."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge, expected
from qwen3_parity.blame.values import Values, made_once
from qwen3_parity.diagnosis.findings.product import LARGEST, Product, by_held, ends_of, spread
from qwen3_parity.diagnosis.judged import Judged
from qwen3_parity.judge.budgets import ROUNDOFF
from qwen3_parity.judge.scope import Scope
from qwen3_parity.mistakes.parameters import held_rows, loaded

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
    rows = [_rows(judged, step) for step in steps]
    if not any(rows):
        return None
    x, y, noise, ends = (np.concatenate(parts) for parts in zip(*filter(None, rows), strict=True))
    sample = spread(len(x))
    weight = np.asarray(site.parameters["weight"], np.float64)
    product = Product(
        name=site.place.parameters[0],
        x=x[sample],
        weight=weight,
        bias=np.asarray(site.parameters.get("bias", np.zeros(len(weight))), np.float64),
        y=y[sample],
        noise=noise[sample],
        headroom=judged.headroom,
        roundoff=ROUNDOFF[evidence.dtype] if evidence.dtype in (pb.BF16, pb.F16) else 0.0,
        loaded=loaded(site.place.parameters[0], values.golden, values.recording),
        tensors=site.checkpoint,
        hidden=values.recorded(site.names[0], site.step) is None,
        ends=ends[sample],
    )
    return by_held(product, held_rows(product.name, values.recording))


def _rows(judged: Judged, step: int) -> tuple[Array, Array, Array, Array] | None:
    """Input, output, further noise and the ends of the whole input at real tokens.

    The noise is that of an input that was not recorded, of what it was computed from.
    """
    site = judged.evidence.site
    values, golden, outputs = site.values, site.values.golden, len(site.parameters["weight"])
    evidence: Evidence | str = judged.evidence
    if step != site.step:
        item = values.recording.get(site.place.name, step)
        beyond = bool(judged.evidence.others) and step > _STEPS
        if item is None or golden is None or not isinstance(values, Values) or beyond:
            return None
        evidence = TapJudge(values.another(), Scope(golden)).evidence(item)
    if isinstance(evidence, str) or evidence.actual.shape[-1:] != (outputs,):
        return None
    y = np.asarray(evidence.actual, np.float64).reshape(-1, outputs)
    x = np.asarray(evidence.site.inputs[0], np.float64)
    if x.size != len(y) * site.parameters["weight"].shape[1]:
        return None
    unit = expected(evidence)[1] if evidence.others else None
    noise = np.zeros(y.shape) if unit is None else np.broadcast_to(unit, evidence.actual.shape).reshape(y.shape)
    x = x.reshape(len(y), -1)
    good = evidence.judged.reshape(y.shape).all(1) & np.isfinite(y).all(1) & np.isfinite(x).all(1)
    return x[good], y[good], noise[good], ends_of(x)[good]
