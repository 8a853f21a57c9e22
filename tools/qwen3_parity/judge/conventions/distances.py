"""How far a tap is from the golden's, roughly: enough to recognise another convention, never a verdict."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array, Tensor, place
from qwen3_parity.judge.scope import Scope


def distance(actual: Tensor, expected: Tensor, scope: Scope, values: Array | None = None) -> float:
    """RMS of the difference of judged elements over the RMS of the golden's; infinite where one is not finite.

    `values` are taken in the place of the candidate's.
    """
    judged = scope.judged(expected, place(expected.info.name, scope.layers))
    ours = actual.values() if values is None else values
    a, b = ours.astype(np.float64), expected.values().astype(np.float64)
    if judged is not None:
        counts = np.broadcast_to(judged, b.shape)
        a, b = a[counts], b[counts]
    with np.errstate(all="ignore"):
        size, error = float(np.sqrt(np.mean(b * b))) if b.size else 0.0, a - b
        relative = float(np.sqrt(np.mean(error * error))) / size if size else 0.0
    return relative if np.isfinite(relative) else np.inf
