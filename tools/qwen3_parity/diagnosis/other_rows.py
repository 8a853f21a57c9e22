"""Rows of a batch that were recorded in another order than the golden's: an engine sorts its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_parity.diagnosis.elsewhere import EVERY_TAP, Elsewhere
from qwen3_parity.diagnosis.other_names import FAR, NEAR, Judgement, as_declared, wrong_alone
from qwen3_parity.judge.match import is_input
from qwen3_parity.judge.verdict import Verdicts

_BATCH, _FLAT = "batch", "row"
"""Axes that rows stand in: one by one, or each with its positions."""


def in_right_rows(
    golden: Recording,
    candidate: Recording,
    counts: Callable[[Tensor], Array],
    before: Judgement,
    judge: Callable[[Recording], Judgement],
) -> tuple[Verdicts, list[Elsewhere]] | None:
    """The verdicts of a candidate with its rows in the golden's order, and in which they were.

    None where they are in that order, where something is wrong by itself in that which is right as they are, and where
    nothing less is wrong. As `under_right_names` in all else.
    """
    order = _order(golden, candidate, counts)
    if order is None:
        return None
    again = judge(_ordered(candidate, golden, order))
    if not wrong_alone(again) < wrong_alone(before):
        return None
    place = Elsewhere(EVERY_TAP, rows=order)
    return replace(before.verdicts, taps=as_declared(before.verdicts, again.verdicts, {}, place)), [place]


def _order(golden: Recording, candidate: Recording, counts: Callable[[Tensor], Array]) -> tuple[int, ...] | None:
    """The golden's row of each of the candidate's, by the first tap that is far from the golden's; None where no other.

    Each of the golden's is there once.
    """
    for item in golden:
        actual = candidate.get(*item.key)
        if is_input(item, golden.case.mode) or not item.is_float or list(item.info.axes[:1]) != [_BATCH]:
            continue
        if actual is None or not actual.is_float or actual.array.shape != item.array.shape:
            continue
        expected, numbers, judged = item.values(), actual.values(), counts(item)
        if _distance(numbers, expected, judged) <= FAR:
            continue
        order = [
            next((row for row in range(len(expected)) if _distance(mine, expected[row], judged[row]) <= NEAR), -1)
            for mine in numbers
        ]
        return tuple(order) if sorted(order) == [*range(len(order))] != order else None
    return None


def _distance(numbers: Array, expected: Array, judged: Array) -> float:
    """How far numbers are from a golden's where these count, in their size."""
    difference, size = (np.asarray(x[judged], np.float64) for x in (numbers - expected, expected))
    far = float(np.linalg.norm(difference) / max(np.linalg.norm(size), np.finfo(np.float64).tiny))
    return far if np.isfinite(far) else np.inf


def _ordered(candidate: Recording, golden: Recording, order: Sequence[int]) -> Recording:
    """A candidate whose rows stand as the golden's."""
    back = np.argsort(order)

    def ordered(item: Tensor) -> Tensor:
        expected = golden.get(*item.key)
        axes = [] if expected is None or is_input(item, golden.case.mode) else [*expected.info.axes]
        for axis in (_BATCH, _FLAT):
            if axis in axes and item.array.shape[at := axes.index(axis)] % len(order) == 0:
                rows = np.split(item.array, len(order), at)
                return replace(item, array=np.concatenate([rows[row] for row in back], at))
        return item

    return replace(candidate, tensors=[*map(ordered, candidate)])
