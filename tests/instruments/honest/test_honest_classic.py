"""Every other way to compute the classic encoder passes on all of its cases, and no op is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from detection.honest import classic
from detection.honest.run import VARIATIONS, run
from detection.honest.variation import Variation
from qwen3_golden import GOLDEN_ROOT

GOLDENS = sorted((GOLDEN_ROOT / "cases" / "classic").glob("*.pb"))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("variation", classic.VARIATIONS, ids=lambda variation: variation.name)
def test_an_honest_classic_encoder_passes_everywhere(variation: Variation, tmp_path: Path) -> None:
    outcomes = list(run(variation, GOLDENS, tmp_path))
    assert len(outcomes) == len(GOLDENS) and all(outcome.verdicts.compared for outcome in outcomes)
    assert [f"{outcome.case}: {alarm}" for outcome in outcomes for alarm in outcome.alarms] == []


def test_most_classic_variations_compute_other_bits(tmp_path: Path) -> None:
    same = {
        variation.name
        for variation in classic.VARIATIONS
        if all(o.verdicts.identical for o in run(variation, GOLDENS[1:2], tmp_path))
    }
    assert len(same) < len(classic.VARIATIONS) / 2


def test_variations_of_another_network_leave_the_classic_encoder_alone(tmp_path: Path) -> None:
    others = [variation for variation in VARIATIONS if variation not in classic.VARIATIONS and not variation.slow]
    assert len(others) > 20
    assert [variation.name for variation in others if list(run(variation, GOLDENS, tmp_path))] == []
