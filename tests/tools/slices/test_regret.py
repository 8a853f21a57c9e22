"""The regret of a choice is in units, and never NaN."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_parity.slices.judge import regret

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("scores", "taken", "expected"),
    [
        ([3, 2, 1], [1, 0], [0, 0]),  # in any order
        ([3, 2, 1], [0, 2], [0, 10]),
        ([3, 2, 1], [0, 0], [INF, INF]),
        ([3, 2, 1], [1, 3], [10, INF]),
        ([3, 2, 1], [1, -1], [10, INF]),
        ([3, -INF, -INF], [0, 7], [0, 0]),  # all that is visible is taken
        ([3, 2, -INF], [0, 7], [0, INF]),
        ([3, 2, 1, -INF], [0, 2], [0, 10]),
        ([0, 0, 0], [2, 1], [0, 0]),
        ([3, -INF, -INF], [0, 2], [0, 0]),
        ([INF, INF, 1], [0, 2], [0, INF]),
        ([3, NAN, 1], [0, 1], [0, INF]),
    ],
)
def test_regret_is_the_distance_to_the_best_that_was_left_out(
    scores: list[float], taken: list[int], expected: list[float]
) -> None:
    unit = np.full(len(scores), 0.1 if any(scores) else 0.0)
    np.testing.assert_allclose(regret(np.asarray(scores, float), unit, np.asarray(taken)), expected, rtol=1e-6)
