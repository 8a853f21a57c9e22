"""An error that is a smooth function of one number: an approximated exponential, activation, root."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 32
"""Numbers that a function is told from."""
_SMOOTH = 0.8
"""How much of the error its neighbours must tell."""
_FUNCTION = 0.98
"""How much of the right numbers their neighbours must tell, where they are a function of a tap."""
_CLOSE = 0.5
"""What is farther off than this, of its size, approximates nothing."""
_TINY = 0.01
"""Numbers below this, of the usual size, are divided by no more."""


def approximated(tap: WrongTap) -> Finding | None:
    """The error of the function's values is told by their neighbours' on the axis of its argument."""
    cells = floats(tap)
    if cells is None:
        return None
    actual, truth, _ = cells
    judged = tap.judged & np.isfinite(actual) & np.isfinite(truth)
    for name, x, function, error in _functions(tap, judged):
        if len(x) < _FEWEST:
            continue
        order = np.argsort(x, kind="stable")
        x, function, error = x[order], function[order], error[order]
        size, left = _rms(error), _rough(x, error)
        if not 0 < size < _CLOSE * _rms(function) or left > (1 - _SMOOTH) * size:
            continue
        if _rough(x, function) > (1 - _FUNCTION) * _rms(function):
            continue
        worst = int(np.argmax(np.abs(error)))
        says = (
            f"its error is a smooth function of its argument: {name} is approximated, "
            f"{error[worst]:+.2g} off at {x[worst]:.3g}, of arguments from {x[0]:.3g} to {x[-1]:.3g}"
        )
        return Finding("fit.approximated", says, 0.99 - 0.49 * left / size)
    return None


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _rough(x: Array, values: Array) -> float:
    """The RMS of what the neighbours on a sorted axis do not tell of values, along straight lines."""
    inner = x[2:] > x[:-2]
    between = values[:-2] + (values[2:] - values[:-2]) * (x[1:-1] - x[:-2]) / np.where(inner, x[2:] - x[:-2], 1)
    return _rms((values[1:-1] - between)[inner])


def _functions(tap: WrongTap, judged: Array) -> Iterator[tuple[str, Array, Array, Array]]:
    """The name of a function, its arguments, what it should give, and how far each value is off.

    Of one of the taps that it reads; times another of them, as in a gated MLP; or an exponential, in a softmax.
    """
    inputs = [values for key in tap.reads if (values := tap.recorded(*key)) is not None]
    alike = [values for values in inputs if values.shape == tap.truth.shape and values.dtype.kind == "f"]
    if "softmax" in tap.ops:
        for scores in alike[:1]:
            visible = tap.truth > 0
            peak = np.argmax(np.where(visible, scores, -np.inf), axis=-1)[..., None]
            x = np.where(visible, scores, -np.inf) - np.take_along_axis(scores, peak, axis=-1)
            error = tap.actual / np.take_along_axis(tap.actual, peak, axis=-1) - np.exp(x)
            cells = judged & visible & np.isfinite(x) & np.isfinite(error) & (x < 0)  # a row's sum is its own number
            yield "exp", x[cells], np.exp(x[cells]), error[cells]
        return
    name = str(tap.config.get("hidden_act") or tap.config.get("hidden_activation") or "a function of a tap")
    for at, x in enumerate(alike):
        for factor in (np.ones(x.shape), *alike[:at], *alike[at + 1 :]):
            cells = judged & (np.abs(factor) > _TINY * np.median(np.abs(factor)))
            yield name, x[cells], (tap.truth / factor)[cells], ((tap.actual - tap.truth) / factor)[cells]
