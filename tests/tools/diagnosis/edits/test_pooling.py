"""An embedding that is pooled otherwise, or of another length, is told with that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from by_taps import firsts, golden

from qwen3_golden import Array

CASE = "model/embedding"
HIDDEN = golden(CASE)["last_hidden_state", 0].values()
MASK = golden(CASE)["input.attention_mask", 0].values() != 0
ROWS, WIDTH = np.arange(len(HIDDEN)), 11
LAST = MASK.shape[1] - 1 - MASK[:, ::-1].argmax(1)
POOLED = HIDDEN[ROWS, LAST]


def cut(pooled: Array) -> Array:
    """The first channels, of length 1."""
    short = pooled[:, :WIDTH]
    return short / np.linalg.norm(short, axis=1, keepdims=True)


POOLS: dict[str, Array] = {
    "the token before the last": HIDDEN[ROWS, np.maximum(LAST - 1, 0)],
    "the mean of all tokens": np.stack([row[tokens].mean(0) for row, tokens in zip(HIDDEN, MASK, strict=True)]),
    "the largest of all tokens, channel by channel": np.stack(
        [row[tokens].max(0) for row, tokens in zip(HIDDEN, MASK, strict=True)]
    ),
    "the last token of the row behind": np.roll(POOLED, -1, 0),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("says", POOLS)
def test_what_is_pooled_is_told_instead_of_the_last_token(says: str) -> None:
    (first,) = firsts(CASE, {"pooled": POOLS[says], "embedding": cut(POOLS[says])})
    assert first.startswith(f"edit.pooling: pools {says}, at pooled.py:81")


LENGTHS: dict[str, Callable[[Array], Array]] = {
    "edit.left_out: does not take the length out, in all 2 lines": lambda x: x[:, :WIDTH],
    "edit.left_out: does not take the length out, at pooled.py:84": lambda x: (
        x / np.linalg.norm(x, axis=1, keepdims=True)
    )[:, :WIDTH],
    "edit.length: divides by the sum of its absolute numbers, not by the length": lambda x: (
        x[:, :WIDTH] / np.abs(x[:, :WIDTH]).sum(1, keepdims=True)
    ),
    "edit.length: divides by its squared length, not by the length, and once alone": lambda x: (
        x[:, :WIDTH] / np.square(x[:, :WIDTH]).sum(1, keepdims=True)
    ),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("says", LENGTHS)
def test_what_a_vector_is_divided_by_is_told_instead_of_its_length(says: str) -> None:
    (first,) = firsts(CASE, {"embedding": LENGTHS[says](POOLED)})
    assert first.startswith(says)
