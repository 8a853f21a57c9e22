"""What contradicts an explanation counts where its mistake is made: in layers and steps that have a wrong tap."""

from __future__ import annotations

import pytest

from qwen3_parity.diagnosis.explanation import Explanation, where_made
from qwen3_parity.report.explanations import in_taps

WRONG = [("decoder.layers.1.mlp", 2), ("decoder.layers.1.mlp", 3)]


@pytest.mark.parametrize(
    ("contradicting", "doubted"),
    [
        ((), 0),
        ((("decoder.layers.0.mlp", 2), ("decoder.layers.2.mlp", 3)), 0),
        ((("decoder.layers.1.mlp", 0),), 0),
        ((("decoder.layers.1.mlp", 3), ("decoder.layers.0.mlp", 3)), 1),
    ],
)
def test_right_taps_where_nothing_is_wrong_are_no_doubt(
    contradicting: tuple[tuple[str, int], ...], doubted: int
) -> None:
    count = len(contradicting)
    said = Explanation("mlp.twice", "runs twice", "once", "", 0.1, 2, 0, 2, count, 4, contradicting=contradicting)
    (explanation,) = where_made([said], WRONG)
    assert (explanation.contradicted, explanation.elsewhere, explanation.doubted) == (count, count - doubted, doubted)
    assert ("would be wrong too" in in_taps(explanation, "your")) == bool(doubted)
