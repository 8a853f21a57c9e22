"""A number that follows from a position: linear, logarithmic, a power, geometric."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from qwen3_golden import Array

_MORE = 2
"""Positions that a law must tell beside those that its numbers are read off."""
_SURE = math.log(1e4)
_Fitted = tuple[str, Array]
"""A law in words, with its values."""


def law(positions: Array, values: Array, tolerances: Array) -> str:
    """The plainest law that gives `values` at `positions`, each within its tolerance; empty where none does.

    The words have {} for the position. All three have the same shape. What is the same everywhere is no law, nor is
    what no position could contradict.
    """
    where, first = np.unique(positions, return_index=True)
    y, limits = values[first], np.maximum(tolerances[first], np.abs(values[first]) * 2.0**-22)
    same = y[np.searchsorted(where, positions)]
    if not (np.abs(values - same) <= tolerances + limits[np.searchsorted(where, positions)]).all():
        return ""  # it depends on more than the position
    for fitted, fit in _LAWS:
        if len(where) < fitted + _MORE:
            continue
        with np.errstate(all="ignore"):
            words, guess = fit(where, y)
        if not (np.abs(guess - y) <= limits).all():
            continue
        scatter = np.sort(np.log(np.maximum(np.abs(y - y.mean()), limits) / limits))
        if float(scatter[: len(where) - fitted].sum()) >= _SURE:
            return words
    return ""


def _round(number: float) -> str:
    return f"{number:.5g}"


def _grown(shape: Callable[[Array], Array], words: str) -> Callable[[Array, Array], _Fitted]:
    def fit(x: Array, y: Array) -> _Fitted:
        part = shape(x)
        slope = float(part @ (y - 1) / (part @ part))
        return words.format(_round(slope)), 1 + slope * part

    return fit


def _power(x: Array, y: Array) -> _Fitted:
    base = np.log(1 + x)
    exponent = float(base @ np.log(y) / (base @ base))
    return f"(1 + {{}}) ** {_round(exponent)}", (1 + x) ** exponent


def _geometric(x: Array, y: Array) -> _Fitted:
    ratio = float(np.exp(x @ np.log(y) / (x @ x)))
    return f"{_round(ratio)} ** {{}}", ratio**x


def _linear(x: Array, y: Array) -> _Fitted:
    slope = float((x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean())))
    start = float(y.mean() - slope * x.mean())
    return f"{_round(start)} + {_round(slope)} × {{}}", start + slope * x


_LAWS: tuple[tuple[int, Callable[[Array, Array], _Fitted]], ...] = (
    (1, _grown(lambda x: x, "1 + {} × {{}}")),
    (1, _grown(lambda x: np.log(1 + x), "1 + {} × log(1 + {{}})")),
    (1, _power),
    (1, _geometric),
    (2, _linear),
)
"""How many numbers are fitted, and how."""
