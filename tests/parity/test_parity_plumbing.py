"""The file format by itself: what a reader and a writer, ours or a candidate's, make of the goldens `plumbing/*`."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen3_parity.judge.not_parity import require
from qwen3_parity.plugin import Judge
from qwen3_parity.recording.suite import plumbing_goldens


@pytest.mark.parametrize("golden", plumbing_goldens(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_that_was_read_and_written_is_the_same_bit_for_bit(golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    require(verdicts)
    assert verdicts.compared == verdicts.of > 0
