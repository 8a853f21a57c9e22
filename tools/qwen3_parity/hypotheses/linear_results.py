"""Wrong precision of linears, and the right product changed behind it: scaled, clamped, capped, made probabilities."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.factors import named
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import Seen, factor_between, narrowed, unit_of
from qwen3_parity.hypotheses.rounding import ROUNDED
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site


def _cut(bits: int) -> Callable[[Array], Array]:
    """float32 with `bits` explicit bits of mantissa, the others dropped."""
    mask = np.uint32(0xFFFFFFFF & ~((1 << (23 - bits)) - 1))

    def cut(values: Array) -> Array:
        return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & mask).view(np.float32)

    return cut


_NARROW = (*ROUNDED, ("bfloat16 (bits cut off)", _cut(7)), ("TF32 (bits cut off)", _cut(10)))


def narrow() -> Iterator[Hypothesis]:
    """Products of numbers of a narrower type, and their results, rounded or cut."""

    def compute(points: str, r: Callable[[Array], Array], site: Site) -> Result:
        x = r(site.inputs[0]) if "x" in points else site.inputs[0]
        parameters = {n: r(v) for n, v in site.parameters.items()} if "w" in points else site.parameters
        y, unit = OPS["linear"].truth(replace(site, inputs=(x,), parameters=parameters))
        return narrowed(y, unit_of((y, unit)), r) if "y" in points else (y, unit)

    for what, r in _NARROW:
        for says, points, rank in (
            ("multiplies in {}", "xw", 0), ("rounds its input to {}", "x", 1), ("rounds its result to {}", "y", 1),
            ("multiplies in {} and rounds the result", "xwy", 1), ("rounds its input and its result to {}", "xy", 2),
        ):  # fmt: skip
            yield Hypothesis(
                "linear.half_precision", says.format(what), "multiply in float32", partial(compute, points, r), rank
            )


def results(site: Site, what: Seen) -> Iterator[Hypothesis]:
    """The right product, changed behind it."""
    fix = "hand on x @ weight.T as it is"
    truth, actual = what.truth[what.wrong], what.actual[what.wrong].astype(np.float64)
    factor = factor_between(truth, actual)
    words = named(factor, site.config) or f"{factor:.7g}"
    yield Hypothesis("weight.scaled", f"is scaled by {words}", fix, partial(_scaled, factor), 1)
    bound = float(np.abs(what.actual[np.isfinite(what.actual)]).max())
    for limit in sorted({bound, 1.0, 10.0, 30.0, 50.0, 100.0, 65504.0}):
        yield Hypothesis("linear.clamped", f"clamps its result to ±{limit:g}", fix, partial(_clamped, limit), 2)
    kind = "logits" if site.place.name == "logits" else "linear"
    for cap in (30.0, 50.0, 20.0, 15.0, 10.0, 1.0, *_cap(what)):
        yield Hypothesis(f"{kind}.softcap", f"caps its result softly: {cap:g} * tanh(y / {cap:g})", fix, partial(_capped, cap), 1)  # fmt: skip


def probabilities() -> Iterator[Hypothesis]:
    """Logits that went through a softmax."""
    fix = "hand on the logits themselves"
    yield Hypothesis("logits.log_softmax", "hands on log_softmax of the logits", fix, partial(_normalised, True), 0)
    yield Hypothesis("logits.softmax", "hands on probabilities", fix, partial(_normalised, False), 0)


def _scaled(factor: float, site: Site) -> Result:
    y, unit = OPS["linear"].truth(site)
    assert unit is not None
    return factor * y, abs(factor) * unit


def _clamped(bound: float, site: Site) -> Result:
    y, unit = OPS["linear"].truth(site)
    return np.clip(y, -bound, bound), unit


def _capped(cap: float, site: Site) -> Result:
    y, unit = OPS["linear"].truth(site)
    assert unit is not None
    capped = cap * np.tanh(y / cap)
    return capped, unit * (1 - (capped / cap) ** 2) + FLOAT32_ROUNDOFF * np.abs(capped)


def _cap(what: Seen) -> list[float]:
    """The soft cap that small numbers tell: y - capped = y³ / 3 cap²."""
    truth, actual = what.truth[what.wrong], what.actual[what.wrong].astype(np.float64)
    shrunk = (np.abs(actual) < np.abs(truth)) & (np.abs(actual) > 0)
    if not shrunk.any():
        return []
    at = np.argmax(np.where(shrunk, np.abs(truth), 0))
    y, z = abs(float(truth[at])), abs(float(actual[at]))
    low, high = z * (1 + 1e-12), 1e6
    for _ in range(100):  # z = cap tanh(y / cap) grows with cap
        cap = (low * high) ** 0.5
        low, high = (cap, high) if cap * np.tanh(y / cap) < z else (low, cap)
    return [float((low * high) ** 0.5)]


def _normalised(log: bool, site: Site) -> Result:
    y, unit = OPS["linear"].truth(site)
    assert unit is not None
    peak = y.max(axis=-1, keepdims=True)
    total = np.log(np.exp(y - peak).sum(axis=-1, keepdims=True)) + peak
    if log:
        return y - total, np.hypot(unit, unit.max(axis=-1, keepdims=True)) + FLOAT32_ROUNDOFF * np.abs(total)
    p = np.exp(y - total)
    return p, p * (unit + unit.max(axis=-1, keepdims=True) + FLOAT32_ROUNDOFF * (1 + np.abs(y - peak))) + 2.0**-126
