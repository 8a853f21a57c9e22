"""Rows of a batch, or steps, that were recorded in another order than the golden's: an engine sorts its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.diagnosis.elsewhere import EVERY_TAP, ROWS, STEPS, Elsewhere
from qwen3_parity.diagnosis.other_names import FAR, NEAR, Judgement, as_declared, wrong_alone
from qwen3_parity.judge.match import is_input
from qwen3_parity.judge.verdict import Verdicts

_BATCH, _FLAT = "batch", "row"
"""Axes that rows stand in: one by one, or each with its positions."""


def in_right_order(
    golden: Recording,
    candidate: Recording,
    counts: Callable[[Tensor], Array],
    before: Judgement,
    judge: Callable[[Recording], Judgement],
) -> tuple[Verdicts, list[Elsewhere]] | None:
    """The verdicts of a candidate with its rows, or its steps, in the golden's order, and in which they were.

    None where they are in that order, where something is wrong by itself in that which is right as they are, and where
    nothing less is wrong. As `under_right_names` in all else.
    """
    first = next((item for item in golden if _is_far(item, golden, candidate, counts)), None)
    if first is None:
        return None
    rows, steps = _rows(first, candidate, counts), _steps(first, golden, candidate, counts)
    for of, order, put in ((ROWS, rows, _in_rows), (STEPS, steps, _in_steps)):
        if order is None:
            continue
        again = judge(put(candidate, golden, order))
        if wrong_alone(again) < wrong_alone(before):
            place = Elsewhere(EVERY_TAP, of=of, order=order)
            return replace(before.verdicts, taps=as_declared(before.verdicts, again.verdicts, {}, place)), [place]
    return None


def _is_far(item: Tensor, golden: Recording, candidate: Recording, counts: Callable[[Tensor], Array]) -> bool:
    """Whether a candidate's tap is far from the golden's: floats, each row of the batch by itself."""
    actual = candidate.get(*item.key)
    if is_input(item, golden.case.mode) or not item.is_float or list(item.info.axes[:1]) != [_BATCH]:
        return False
    if actual is None or not actual.is_float or actual.array.shape != item.array.shape:
        return False
    return _distance(actual.values(), item.values(), counts(item)) > FAR


def _rows(item: Tensor, candidate: Recording, counts: Callable[[Tensor], Array]) -> tuple[int, ...] | None:
    """The golden's row of each of the candidate's, each of them once; None where no other than its own is near."""
    expected, judged = item.values(), counts(item)

    def row_of(mine: Array) -> int:
        near = (row for row in range(len(expected)) if _distance(mine, expected[row], judged[row]) <= NEAR)
        return next(near, -1)

    return _permuted([row_of(mine) for mine in candidate[item.key].values()])


def _steps(
    item: Tensor, golden: Recording, candidate: Recording, counts: Callable[[Tensor], Array]
) -> tuple[int, ...] | None:
    """The golden's step of each of the candidate's, as `_rows`."""
    steps = [part for part in golden if part.info.name == item.info.name]

    def step_of(mine: Tensor) -> int:
        alike = (part for part in steps if part.array.shape == mine.array.shape)
        near = (part for part in alike if _distance(mine.values(), part.values(), counts(part)) <= NEAR)
        return next((part.info.step for part in near), -1)

    mine = sorted((part for part in candidate if part.info.name == item.info.name), key=lambda part: part.info.step)
    return _permuted([step_of(part) for part in mine])


def _permuted(order: list[int]) -> tuple[int, ...] | None:
    return tuple(order) if sorted(order) == [*range(len(order))] != order else None


def _distance(numbers: Array, expected: Array, judged: Array) -> float:
    """How far numbers are from a golden's where these count, in their size."""
    mine, theirs = (np.asarray(x[judged], np.float64) for x in (numbers, expected))
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True):
        return np.inf
    mine, theirs = mine[finite], theirs[finite]
    far = float(np.linalg.norm(mine - theirs) / max(np.linalg.norm(theirs), np.finfo(np.float64).tiny))
    return far if np.isfinite(far) else np.inf


def _in_rows(candidate: Recording, golden: Recording, order: Sequence[int]) -> Recording:
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


def _in_steps(candidate: Recording, golden: Recording, order: Sequence[int]) -> Recording:
    """A candidate whose steps are the golden's."""

    def ordered(item: Tensor) -> Tensor:
        if is_input(item, golden.case.mode):
            return item
        info = pb.Tensor()
        info.CopyFrom(item.info)
        info.step = order[item.info.step]
        return replace(item, info=info)

    return replace(candidate, tensors=[*map(ordered, candidate)])
