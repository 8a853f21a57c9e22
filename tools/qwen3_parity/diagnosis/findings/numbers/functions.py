"""Numbers that depend on nothing but what they should be: an activation, a cap, a square in one place too many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.activation import gelu_tanh

_FEWEST = 40
"""Numbers that show a function."""
_LEFT = 0.02
"""The part of what is wrong that neighbours may leave of one another."""
_SHOWN = 5
_LIKELY = 0.85
"""What a function tells that has no name."""
_CAPS = (1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)

Function = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


_PLAIN: Mapping[str, Function] = {
    "x²": np.square,
    "|x|": np.abs,
    "silu(x)": lambda x: x * _sigmoid(x),
    "gelu(x)": gelu_tanh,
    "relu(x)": lambda x: np.maximum(x, 0),
    "relu(x)²": lambda x: np.square(np.maximum(x, 0)),
    "sigmoid(x)": _sigmoid,
    "tanh(x)": np.tanh,
    "exp(x)": np.exp,
    "x³": lambda x: x**3,
    "sign(x) √|x|": lambda x: np.sign(x) * np.sqrt(np.abs(x)),
    "log(1 + exp(x))": lambda x: np.logaddexp(0, x),
}
_CAPPED: Mapping[str, Callable[[Array, float], Array]] = {
    "{0:g} tanh(x / {0:g})": lambda x, cap: cap * np.tanh(x / cap),
    "x tanh(x / {0:g})": lambda x, cap: x * np.tanh(x / cap),
}


def function(tap: WrongTap) -> Finding | None:
    """Each wrong number is a function of the right one: its name and formula, or what it makes of some numbers."""
    usable = floats(tap)
    if usable is None:
        return None
    actual, truth, cells = usable
    expected, wrong = truth[cells], actual[cells]
    if len(np.unique(expected)) < _FEWEST or not _depends(expected, wrong):
        return None
    for words, guess in _named().items():
        if explained(tap, guess(truth)) == 1:
            return Finding("fit.function", f"it is {words} of what it should be, x", 1.0)
    order = np.argsort(expected, kind="stable")
    shown_at = order[np.linspace(0, len(order) - 1, _SHOWN).astype(int)]
    shown = ", ".join(f"{expected[at]:.4g} → {wrong[at]:.4g}" for at in shown_at)
    return Finding("fit.function", f"each number depends on nothing but what it should be: {shown}", _LIKELY)


def _named() -> Mapping[str, Function]:
    capped = {
        words.format(cap): (lambda x, f=apply, c=cap: f(x, c)) for words, apply in _CAPPED.items() for cap in _CAPS
    }
    return {**_PLAIN, **capped}


def _depends(expected: Array, wrong: Array) -> bool:
    """Whether wrong numbers lie on a line between those of the next smaller and the next larger right number."""
    order = np.argsort(expected, kind="stable")
    x, y = expected[order], wrong[order]
    width = x[2:] - x[:-2]
    between = np.where(width > 0, (x[1:-1] - x[:-2]) / np.where(width > 0, width, 1), 0.5)
    rest = y[1:-1] - (y[:-2] + between * (y[2:] - y[:-2]))
    spread = min(float(np.std(wrong)), float(np.std(wrong - expected)))  # of next to nothing all is next to nothing
    return spread > 0 and float(np.sqrt(np.mean(np.square(rest)))) <= _LEFT * spread
