"""A weight is given back but for codes on a tie; another weight is none."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product
from qwen3_parity.diagnosis.findings.structure.ties import share_but_ties

DRAWS = np.random.Generator(np.random.PCG64(3))
X, W = DRAWS.standard_normal((12, 32)), DRAWS.integers(-7, 8, (16, 32)) + DRAWS.uniform(-0.4, 0.4, (16, 32))
W[::3, 4] = np.floor(W[::3, 4]) + 0.5


def share(held: Array, guess: Array) -> float:
    y = X @ held.T
    return share_but_ties(Product("w", X, W, np.zeros(len(W)), y, np.zeros(y.shape), 12.0), guess)


def test_codes_on_a_tie_are_the_same_weight_on_either_side() -> None:
    up, down = np.floor(W + 0.5), np.ceil(W - 0.5)
    assert not np.array_equal(up, down)
    assert share(down, up) == share(up, down) == 1.0


def test_a_code_that_stands_on_no_tie_is_another_weight() -> None:
    guess = np.rint(W)
    held = guess.copy()
    held[:, 9] += 1
    assert share(held, guess) == 0.0
