"""Chosen ids against the golden's: the first other token of each row, and whether noise may have chosen it.

The golden was fed its own ids, so up to there both rows have the same past, and the golden's logits say how near the
two tokens are. What stands behind the first other token follows from another past, and nobody judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording
from qwen3_parity.judge.budgets import floor_for, reach
from qwen3_spec.ops.argmax import choosing_steps


class FirstFlip(NamedTuple):
    """The first token of row `at[0]` that differs; `margin` is in the golden's logits, infinite where none decide.

    `floor` is the largest honest error of a logit there, 0 where the golden has none. `near_tie`: either logit may
    honestly move as far as they are apart.
    """

    at: tuple[int, int]
    expected: int
    actual: int
    margin: float
    floor: float
    near_tie: bool


def first_flip(generated: Array, golden: Recording, candidate: Recording) -> FirstFlip | None:
    """The earliest other token that is no near-tie, else the earliest that is one; `generated` is `[batch, new]`.

    None when there is no other token, and of a golden whose logits are not those of its choices.
    """
    generation = golden.case.generation
    shown = any(item.info.name == "logits" for item in golden)
    if generation.strategy != "greedy" or generation.repetition_penalty != 1 or not shown:
        return None
    return min(_flips(generated, golden, candidate), key=lambda flip: (flip.near_tie, flip.at[1]), default=None)


def _flips(generated: Array, golden: Recording, candidate: Recording) -> Iterator[FirstFlip]:
    steps = choosing_steps(golden.case.steps, golden.case.generation)
    chosen = golden["generated_ids", 0].array
    for row, differ in enumerate(generated != chosen):
        if not differ.any():
            continue
        new = int(differ.argmax())
        expected, actual = int(chosen[row, new]), int(generated[row, new])
        margin, floor = np.inf, 0.0
        ended = np.isin(chosen[row, :new], golden.case.generation.eos_token_id).any()
        item = golden.get("logits", steps[new]) if new < len(steps) and not ended else None
        if item is not None and 0 <= actual < item.array.shape[-1]:
            logits = item.values()[row, -1]
            margin, floor = float(logits[expected]) - float(logits[actual]), floor_for(candidate, item).max
        yield FirstFlip((row, new), expected, actual, margin, floor, floor > 0 and margin <= reach(floor))
