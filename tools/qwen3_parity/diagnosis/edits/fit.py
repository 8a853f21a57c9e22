"""One free number of an edit: what it must be for the candidate's numbers, and what it was meant to be."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Edit, Free
from qwen3_parity.diagnosis.edits.target import Target

_STEPS = 10
_LEAST = 1e-9
"""A relative step below which a number stands."""
_SNAPPED = 2e-3
"""How far a round number may be from the fitted one, of its size: it is tried, and must fit by itself."""
_HOPELESS = 0.9
"""The part of what is left that a step must be able to take away, else the number is another edit's."""
_DIGITS = (1, 2, 3, 4)


def fit(free: Free, target: Target) -> Iterator[Edit]:
    """The edits of a family that come near, round numbers first."""
    best = math.inf
    number: float | None = None
    for start in free.starts:
        reached, error = _descend(free, target, start)
        if error < best:
            best, number = error, reached
    if number is None or best > target.error * _SNAPPED:
        return
    if free.plain is not None and abs(number - free.plain) <= free.least * abs(free.plain):
        return
    for value in dict.fromkeys((*_round(number), number)):
        yield free.edit(value)


def _descend(free: Free, target: Target, start: float) -> tuple[float, float]:
    """Gauss and Newton from a start: the number that was reached, and the root of the squares that it leaves."""
    number, best, reached = start, math.inf, start
    for _ in range(_STEPS):
        rest = _rest(free, target, number)
        if rest is None or (best == math.inf and free.plain is not None and _is_hopeless(rest, target)):
            break
        error = float(np.sqrt(np.square(rest).sum()))
        if not math.isfinite(error) or error > 4 * best:
            break
        if error < best:
            best, reached = error, number
        step = max(abs(number) * 1e-6, 1e-12)
        beside = _rest(free, target, number + step)
        if beside is None:
            break
        slope = (beside - rest) / step
        size = float(slope @ slope)
        if size == 0 or not math.isfinite(size):
            break
        if error**2 - float(slope @ rest) ** 2 / size > (_HOPELESS * error) ** 2:
            break
        change = -float(slope @ rest) / size
        if number:
            change = max(-0.7 * abs(number), min(2 * abs(number), change))
        if abs(change) <= _LEAST * abs(number):
            break
        number += change
    return reached, best


def _is_hopeless(rest: Array, target: Target) -> bool:
    """Whether what a first number changes points elsewhere than what is wrong."""
    wrong = (target.actual - target.truth)[target.cells]
    moved = wrong - rest
    size = float(moved @ moved)
    return size == 0 or target.error**2 - float(moved @ wrong) ** 2 / size > (_HOPELESS * target.error) ** 2


def _rest(free: Free, target: Target, number: float) -> Array | None:
    """What an edit leaves of the wrong cells."""
    predicted = target.predicted(free.edit(number))
    if predicted is None:
        return None
    rest = (target.actual - predicted)[target.cells]
    return rest if np.isfinite(rest).all() else None


def _round(number: float) -> Iterator[float]:
    """Numbers that people write, near this one."""
    if number == 0 or not math.isfinite(number):
        return
    near = [round(number, digits - 1 - math.floor(math.log10(abs(number)))) for digits in _DIGITS]
    near += [1 / round(1 / number)] if abs(1 / number) >= 1 else []
    square = number * number
    near += [math.copysign(math.sqrt(round(square)), number)] if square >= 1 else []
    near += [math.copysign(1 / math.sqrt(round(1 / square)), number)] if 0 < square <= 1 else []
    yield from (value for value in near if abs(value - number) <= _SNAPPED * abs(number))
