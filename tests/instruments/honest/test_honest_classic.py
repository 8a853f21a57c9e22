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
@pytest.mark.parametrize("variation", classic.VARIATIONS, ids=lambda one: one.name)
def test_an_honest_classic_encoder_passes_everywhere(variation: Variation, tmp_path: Path) -> None:
    outcomes = list(run(variation, GOLDENS, tmp_path))
    assert len(outcomes) == len(GOLDENS) and all(one.verdicts.compared for one in outcomes)
    assert [f"{one.case}: {alarm}" for one in outcomes for alarm in one.alarms] == []


def test_most_classic_variations_compute_other_bits(tmp_path: Path) -> None:
    same = {
        one.name for one in classic.VARIATIONS if all(o.verdicts.identical for o in run(one, GOLDENS[1:2], tmp_path))
    }
    assert len(same) < len(classic.VARIATIONS) / 2


def test_variations_of_another_network_leave_the_classic_encoder_alone(tmp_path: Path) -> None:
    others = [one for one in VARIATIONS if one not in classic.VARIATIONS and not one.slow]
    assert len(others) > 20
    assert [one.name for one in others if list(run(one, GOLDENS, tmp_path))] == []
