"""A tokenizer against the goldens, stage by stage: look at the first red stage, what follows may be downstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen3_golden import STAGES, read
from qwen3_parity.judge.not_parity import require, require_complete
from qwen3_parity.plugin import Judge
from qwen3_parity.recording.suite import tokenization_goldens

GOLDENS = {path: set(read(path).run.materialised) for path in tokenization_goldens()}
PAIRS = [
    pytest.param(stage, path, id=f"tokenizer.{stage}-{path.parent.name}/{path.stem}")
    for stage in STAGES
    for path, present in GOLDENS.items()
    if stage in present
]


@pytest.mark.parametrize("golden", [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in GOLDENS])
def test_the_recording_of_a_tokenizer_is_complete_and_of_the_same_case(golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    require_complete(verdicts)
    assert verdicts.compared > 0


@pytest.mark.parametrize(("stage", "golden"), PAIRS)
def test_a_stage_of_a_tokenizer_is_the_goldens(stage: str, golden: Path, judge: Judge) -> None:
    taps = [tap for tap in judge(golden).taps if tap.op == stage]
    if not taps:
        pytest.skip(f"never materialised: tokenizer.{stage}")
    require(judge(golden), taps)


def test_every_stage_is_shown_by_some_golden() -> None:
    assert set().union(*GOLDENS.values()) == set(STAGES)
