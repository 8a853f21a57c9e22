"""The example port passes: a foreign implementation in NumPy, behind the door that everybody uses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from committed import Committed, committed
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity import Verdicts, check, replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


def is_forward(golden: Committed) -> bool:
    """A network that is not trained, whose weights are as they are stored."""
    case = golden.case
    network = case.mode in (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER, pb.BLOCK)
    rounded = golden.run.arithmetic != pb.ARITHMETIC_F32 and case.name != "encdec/bfloat16"
    return network and not rounded and not case.HasField("training")


CASES = [p for p in goldens(kinds=()) if is_forward(committed(p))]


@pytest.fixture(scope="module")
def port() -> Any:
    spec = importlib.util.spec_from_file_location("numpy_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(path: Path, port: Any, tmp_path: Path) -> Verdicts:
    record(read(path), tmp_path / "port.pb", port.factory)
    return check(path, tmp_path / "port.pb")


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_numpy_port_is_within_budget_at_every_tap(path: Path, port: Any, tmp_path: Path) -> None:
    verdicts = judge(path, port, tmp_path)
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared == verdicts.of and not verdicts.identical


def test_interleaved_rope_in_the_port_is_found_and_nothing_else_is_accused(
    port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interleaved(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        turned = np.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape)
        return x * cos[:, None] + turned * sin[:, None]

    monkeypatch.setattr(port, "rotate", interleaved)
    verdicts = judge(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb", port, tmp_path)
    assert verdicts.exit_code == 1 and verdicts.first_bad is not None
    assert verdicts.first_bad.name == "decoder.layers.0.merged_attn.q_rope"
    recording = read(tmp_path / "port.pb")
    wrong = {verdict.name for verdict in replay(recording, weights_of(recording, CHECKPOINTS)) if not verdict.passed}
    assert wrong == {f"decoder.layers.{n}.merged_attn.{x}_rope" for n in range(3) for x in "qk"}
