"""Choices that noise may decide: a flipped argmax whose two best logits are closer than float32 can tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Recording, place
from qwen3_parity.judge.budgets import floor_for, reach
from qwen3_parity.judge.scope import Scope

_SHOWN = 20


@dataclass(frozen=True)
class Flip:
    """One position where the candidate's best token is another than the golden's.

    `margin` is how far apart the two tokens' logits are in the golden, `floors` the same in units of the largest honest
    error of a logit. `near_tie`: each of the two logits may honestly move that far, and none moved farther, so the flip
    says nothing.
    """

    where: str
    expected: int
    actual: int
    margin: float
    floors: float
    near_tie: bool

    def __str__(self) -> str:
        word = "near-tie" if self.near_tie else "a real flip"
        distance = f"{self.margin:.3g} apart, {self.floors:.3g} × the noise floor"
        far = distance if self.margin else "equal, and of equals the lower id is chosen"
        return f"{self.where}: token {self.actual} instead of {self.expected}, {word}: the golden's logits are {far}"


def flips(golden: Recording, candidate: Recording) -> list[Flip]:
    """Every judged position whose argmax differs, teacher-forced: both sides were fed the same ids."""
    return [flip for of_tap in _by_tap(golden, candidate) for flip in of_tap][:_SHOWN]


def _by_tap(golden: Recording, candidate: Recording) -> Iterator[Iterator[Flip]]:
    scope = Scope(golden)
    for item in golden:
        actual = candidate.get(*item.key)
        if item.info.name != "logits" or actual is None or actual.array.shape != item.array.shape:
            continue
        tap_place = place(item.info.name, golden.case.config.num_hidden_layers)
        judged = scope.judged(item, tap_place)
        yield _step(item.values(), actual.values(), judged, item.info.step, floor_for(candidate, item).max)


def _step(
    expected: np.ndarray, actual: np.ndarray, judged: np.ndarray | None, step: int, floor: float
) -> Iterator[Flip]:
    ours, theirs = expected.argmax(axis=-1), actual.argmax(axis=-1)
    differ = (ours != theirs) & np.isfinite(actual).all(axis=-1)
    if judged is not None:
        differ &= np.broadcast_to(judged, expected.shape).any(axis=-1)
    for row, position in np.argwhere(differ):
        best, chosen = int(ours[row, position]), int(theirs[row, position])
        margin = float(expected[row, position, best]) - float(expected[row, position, chosen])
        floors = margin / floor if floor > 0 else np.inf
        where = f"logits (step {step}) [{row}, {position}]"
        moved = np.abs(actual[row, position].astype(np.float64) - expected[row, position])[[best, chosen]].max()
        yield Flip(where, best, chosen, margin, floors, floor > 0 and max(margin, 2 * float(moved)) <= reach(floor))
