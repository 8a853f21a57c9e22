"""An error that is a smooth function of one number: an approximated exponential, activation, root."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.cells import floats
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_spec.site import Result

_FEWEST = 32
"""Numbers that a function is told from."""
_SMOOTH = 0.8
"""How much of the error its neighbours must tell."""
_CLOSE = 0.5
"""What is farther off than this, of its size, approximates nothing."""
_TINY = 0.01
"""Numbers below this, of the usual size, are divided by no more."""


def approximated(evidence: Evidence, result: Result) -> Finding | None:
    """The error of the function's values is told by their neighbours' on the axis of its argument."""
    found = floats(evidence, result)
    if found is None or evidence.others:
        return None
    actual, truth, _ = found
    judged = evidence.judged & np.isfinite(actual) & np.isfinite(truth)
    with np.errstate(all="ignore"):
        values = _values(evidence, actual, truth, judged)
    if values is None or len(values[1]) < _FEWEST:
        return None
    what, x, right, error = values
    order = np.argsort(x, kind="stable")
    x, right, error = x[order], right[order], error[order]
    inner = x[2:] > x[:-2]
    between = error[:-2] + (error[2:] - error[:-2]) * (x[1:-1] - x[:-2]) / np.where(inner, x[2:] - x[:-2], 1)
    size, left = _rms(error), _rms((error[1:-1] - between)[inner])
    if not 0 < size < _CLOSE * _rms(right) or left > (1 - _SMOOTH) * size:
        return None
    worst = int(np.argmax(np.abs(error)))
    says = (
        f"its error is a smooth function of its argument: {what} is approximated, "
        f"{error[worst]:+.2g} off at {x[worst]:.3g}, of arguments from {x[0]:.3g} to {x[-1]:.3g}"
    )
    return Finding("fit.approximated", says, 0.99 - 0.49 * left / size)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _values(evidence: Evidence, actual: Array, truth: Array, judged: Array) -> tuple[str, Array, Array, Array] | None:
    """The name of a function, its arguments, what it should give, and how far each value is off."""
    site = evidence.site
    if site.place.op in ("swiglu", "activation"):
        factor = np.asarray(site.inputs[1] if site.place.op == "swiglu" else np.ones(truth.shape), np.float64)
        judged = judged & (np.abs(factor) > _TINY * np.median(np.abs(factor)))
        x = np.asarray(site.inputs[0], np.float64)[judged]
        return site.config.hidden_act, x, (truth / factor)[judged], ((actual - truth) / factor)[judged]
    if site.place.op != "softmax":
        return None
    scores, mask = site.inputs
    visible = np.broadcast_to(mask[:, None].astype(bool), scores.shape)
    masked = np.where(visible, scores.astype(np.float64), -np.inf)
    peak = np.argmax(masked, axis=-1)[..., None]
    x = masked - np.take_along_axis(masked, peak, axis=-1)
    error = actual / np.take_along_axis(actual, peak, axis=-1) - np.exp(x)  # a row's sum is off by its own number
    cells = judged & visible & np.isfinite(x) & np.isfinite(error) & (x < 0)
    return "exp", x[cells], np.exp(x[cells]), error[cells]
