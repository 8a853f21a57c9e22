"""The matrix product of a place of a network that formulas judge, over all steps that were recorded."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.blame.values import made_once
from qwen3_parity.diagnosis.findings.product import LARGEST, Product, spread
from qwen3_parity.diagnosis.judged import Judged
from qwen3_parity.judge.budgets import ROUNDOFF
from qwen3_parity.mistakes.observed import real
from qwen3_parity.mistakes.parameters import loaded
from qwen3_spec.site import Site


def product_of(judged: Judged) -> Product | None:
    """A linear's product; None for another op and a weight that is too large. Of a group, of its own step alone."""
    evidence = judged.evidence
    site = evidence.site
    if site.place.op != "linear" or site.parameters["weight"].size > LARGEST or not judged.in_shape:
        return None
    group, values = bool(evidence.others), site.values
    once = group or made_once(site.place.name)
    steps = [site.step] if once else range(max(len(site.case.steps), 1))
    sites = [site if step == site.step else values.site(site.place.name, step) for step in steps]
    rows = [part for each in sites if each is not None and (part := _rows(each, judged if group else None))]
    if not rows:
        return None
    x, y, noise = (np.concatenate(parts) for parts in zip(*rows, strict=True))
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


def _rows(site: Site, group: Judged | None) -> tuple[Array, Array, Array] | None:
    """Input, output and further noise at real tokens: `[position, in]`, twice `[position, out]`."""
    actual = site.values.recorded(site.place.name, site.step)
    outputs = len(site.parameters["weight"])
    if actual is None or actual.shape[-1:] != (outputs,):
        return None
    y = np.asarray(actual, np.float64).reshape(-1, outputs)
    x = np.asarray(site.inputs[0], np.float64).reshape(len(y), -1)
    unit = None if group is None else group.truth[1]
    noise = np.zeros(y.shape) if unit is None else np.asarray(unit, np.float64).reshape(y.shape)
    cells = real(site)
    good = np.ones(len(y), bool) if cells is None else np.broadcast_to(cells, actual.shape).reshape(y.shape).all(1)
    good = good & np.isfinite(y).all(1) & np.isfinite(x).all(1)
    return x[good], y[good], noise[good]
