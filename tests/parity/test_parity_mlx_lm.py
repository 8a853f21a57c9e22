"""A third party's engine, unmodified: mlx-lm is parity where it has the features, and is blamed where it has a bug."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_parity import check
from qwen3_parity.blame import replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.recording.record import Factory, load_factory, record

pytestmark = pytest.mark.slow
EXAMPLES = GOLDEN_ROOT.parent / "examples" / "engines"
DECODER = ("plain", "plain_two_rows", "multiples_of_256", "inputs_embeds", "mask_4d", "ragged_decode", "yarn_mscale")
CASES = [*(f"decoder/{name}" for name in DECODER), "long/deep", "long/position_32768"]


@pytest.fixture(scope="module")
def factory() -> Factory:
    pytest.importorskip("mlx.core", reason="mlx, mlx-cpu and mlx-lm are not installed: see examples/engines/README.md")
    pytest.importorskip("mlx_lm", reason="mlx-lm is not installed: see examples/engines/README.md")
    sys.path.insert(0, str(EXAMPLES))
    try:
        return load_factory("mlx_lm_qwen3:factory")
    finally:
        sys.path.remove(str(EXAMPLES))


def recorded(case: str, factory: Factory, folder: Path) -> tuple[Any, Any]:
    golden, path = read(GOLDEN_ROOT / "cases" / f"{case}.pb"), folder / "run.pb"
    record(golden, path, factory)
    return golden, read(path)


@pytest.mark.parametrize("case", CASES)
def test_mlx_lm_is_parity_in_its_run_and_in_every_op(case: str, factory: Factory, tmp_path: Path) -> None:
    golden, candidate = recorded(case, factory, tmp_path)
    verdicts = check(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert (verdicts.word, verdicts.judged, verdicts.problems) == ("parity", "run and ops", [])


def test_both_numbers_that_it_drops_of_a_yarn_config_are_named(factory: Factory, tmp_path: Path) -> None:
    golden, candidate = recorded("decoder/yarn_stated", factory, tmp_path)
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    assert check(golden, candidate, weights).exit_code == 1
    assert {verdict.op for verdict in replay(candidate, weights, golden) if not verdict.passed} == {"rope"}
    names = {fault.name for fault in diagnose(golden, candidate, weights).faults}
    assert names == {"yarn.truncate+yarn.attention_factor"}


def test_a_window_is_refused_in_words(factory: Factory, tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="without sliding windows"):
        recorded("decoder/window_even", factory, tmp_path)
