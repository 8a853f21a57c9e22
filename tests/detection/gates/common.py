"""Gates in common use: whether each lets a run pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array

Pair = tuple[Array, Array]
"""What a run computed and what the reference did, [positions, width], float64; positions that are padding left out."""


@dataclass(frozen=True)
class Outputs:
    """What gates look at: the output of each layer in each forward, and the logits of all of them.

    `ratio` is the L2 distance of the run's bfloat16 logits from the reference's float32 ones, over that of a right
    implementation in bfloat16.
    """

    layers: Sequence[Pair]
    logits: Pair
    ratio: float


def cosine(actual: Array, expected: Array) -> float:
    """Of the angle between two arrays, each taken as one vector."""
    return float(np.vdot(actual, expected) / (np.linalg.norm(actual) * np.linalg.norm(expected)))


def nmse(actual: Array, expected: Array) -> float:
    """The mean squared error over the reference's variance."""
    return float(np.mean((actual - expected) ** 2) / np.var(expected))


GATES: Mapping[str, Callable[[Outputs], bool]] = {
    "cosine ≥ 0.99 of every layer's output": lambda run: all(cosine(*pair) >= 0.99 for pair in run.layers),
    "NMSE of the logits < 0.01": lambda run: nmse(*run.logits) < 0.01,
    "the same top-1 at every position": lambda run: np.array_equal(*(side.argmax(-1) for side in run.logits)),
    "R ≤ 1.2, in bfloat16": lambda run: run.ratio <= 1.2,
    "torch.allclose of the logits, its defaults": lambda run: np.allclose(*run.logits, rtol=1e-5, atol=1e-8),
}
"""By what a gate asks. The defaults of torch.allclose are NumPy's."""
