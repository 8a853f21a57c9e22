"""The specification itself, and our model under other kernels, choose tokens on every case of generation: no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from detection.honest.run import VARIATIONS, run
from qwen3_golden import GOLDEN_ROOT

GOLDENS = sorted((GOLDEN_ROOT / "cases" / "generation").glob("*.pb"))
NAMES = ("float64", "sequential_float32", "sdpa", "positions_from_1")


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", NAMES)
def test_an_honest_choice_of_tokens_passes_everywhere(name: str, tmp_path: Path) -> None:
    (variation,) = (one for one in VARIATIONS if one.name == name)
    outcomes = list(run(variation, GOLDENS, tmp_path))
    assert len(outcomes) == len(GOLDENS) and all(one.verdicts.compared for one in outcomes)
    assert [f"{one.case}: {alarm}" for one in outcomes for alarm in one.alarms] == []
