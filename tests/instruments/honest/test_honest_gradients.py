"""Other honest ways to the same gradients pass, and nobody is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from detection.honest.run import VARIATIONS, run
from detection.honest.training import differentiable
from qwen3_golden import GOLDEN_ROOT, read

TRAINING = GOLDEN_ROOT / "cases" / "training"
QUICK = (
    *("sdpa", "threads_2", "gradient_checkpointing", "gradient_checkpointing_reentrant", "gradients_accumulated"),
    *("linear_backwards", "softmax_online", "norm_divides", "silu_tanh", "model_double"),
)
BY_NAME = {one.name: one for one in VARIATIONS}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", QUICK)
def test_an_honest_training_step_passes_and_nobody_is_blamed(name: str, tmp_path: Path) -> None:
    path = TRAINING / ("untied.pb" if name in QUICK[:5] else "causal.pb")
    (outcome,) = run(BY_NAME[name], [path], tmp_path)
    assert not outcome.alarms
    compared = [tap.name for tap in outcome.verdicts.taps if tap.name.startswith("gradient.")]
    assert len(compared) >= 30


def test_variations_without_a_way_back_are_not_asked_for_gradients(tmp_path: Path) -> None:
    golden = read(TRAINING / "causal.pb")
    assert not differentiable(BY_NAME["numpy_port"], golden) and differentiable(BY_NAME["sdpa"], golden)
    assert not list(run(BY_NAME["numpy_port"], [TRAINING / "causal.pb"], tmp_path))
