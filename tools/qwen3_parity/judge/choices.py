"""Chosen ids against the golden's: the first other token of each row, and whether noise may have chosen it.

The golden was fed its own ids, so up to there both rows have the same past, and the golden's logits say how near the
two tokens are. What stands behind the first other token follows from another past, and nobody judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.judge.budgets import floor_for, reach
from qwen3_spec.ops.argmax import choosing_steps


class FirstFlip(NamedTuple):
    """The first token of row `at[0]` that differs; `margin` is in the golden's logits, infinite where none decide.

    `floor` is the largest honest error of a logit there, 0 where the golden has none. `theirs` is the margin in the
    candidate's own logits, NaN where they do not tell. `near_tie`: either logit may honestly move as far as they are
    apart, and the candidate's own do not say that it should have chosen as the golden did.
    """

    at: tuple[int, int]
    expected: int
    actual: int
    margin: float
    floor: float
    theirs: float
    near_tie: bool

    @property
    def contradicted(self) -> bool:
        """Whether the candidate's own logits choose the golden's token before this one: of equals the lower id."""
        return self.theirs > 0 or (self.theirs == 0 and self.expected < self.actual)


def first_flip(generated: Array, golden: Recording, candidate: Recording) -> FirstFlip | None:
    """The earliest other token that is no near-tie, else the earliest that is one; `generated` is `[batch, new]`.

    None when there is no other token, and of a golden whose logits are not those of its choices.
    """
    generation = golden.case.generation
    shown = any(item.info.name == "logits" for item in golden)
    if generation.strategy != "greedy" or generation.repetition_penalty != 1 or not shown:
        return None
    return min(_flips(generated, golden, candidate), key=lambda flip: (flip.near_tie, flip.at[1]), default=None)


def behind_near_ties(generated: Array, golden: Recording, candidate: Recording) -> Array:
    """Where ids `[batch, new]` tell nothing: from a row's first other token on, where noise may have chosen it."""
    behind = np.zeros(generated.shape, bool)
    chosen = golden.get("generated_ids")
    if chosen is not None and chosen.array.shape == generated.shape and first_flip(generated, golden, candidate):
        for flip in _flips(generated, golden, candidate):
            behind[flip.at[0], flip.at[1] :] = flip.near_tie
    return behind


def _flips(generated: Array, golden: Recording, candidate: Recording) -> Iterator[FirstFlip]:
    steps = choosing_steps(golden.case.steps, golden.case.generation)
    chosen = golden["generated_ids", 0].array
    for row, differ in enumerate(generated != chosen):
        if not differ.any():
            continue
        new = int(differ.argmax())
        expected, actual = int(chosen[row, new]), int(generated[row, new])
        margin, floor, theirs = np.inf, 0.0, np.nan
        ended = np.isin(chosen[row, :new], golden.case.generation.eos_token_id).any()
        item = golden.get("logits", steps[new]) if new < len(steps) and not ended else None
        if item is not None and 0 <= actual < item.array.shape[-1]:
            logits = item.values()[row, -1]
            margin, floor = float(logits[expected]) - float(logits[actual]), floor_for(candidate, item).max
            theirs = _theirs(candidate.get(*item.key), item, row, (expected, actual))
        flip = FirstFlip((row, new), expected, actual, margin, floor, theirs, floor > 0 and margin <= reach(floor))
        yield flip._replace(near_tie=flip.near_tie and not flip.contradicted)


def _theirs(logits: Tensor | None, expected: Tensor, row: int, tokens: tuple[int, int]) -> float:
    """How far the first of two tokens is above the second in what a candidate recorded, NaN where that does not tell.

    Numbers that a narrower type has made equal may have been apart when the token was chosen.
    """
    shape = expected.array.shape
    if logits is None or (logits.array.shape[0], logits.array.shape[-1]) != (shape[0], shape[-1]):
        return np.nan
    best, chosen = (float(logits.values()[row, -1, token]) for token in tokens)
    return best - chosen if best != chosen or logits.info.dtype in (pb.F32, pb.F64) else np.nan
