"""A port that knows no padding, windows or scaled RoPE has cases of its own: one sequence, or rows of equal length."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity import Verdicts, check
from qwen3_parity.blame import replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.record import record

DECODER = GOLDEN_ROOT / "cases" / "decoder"
PLAIN = ("plain", "plain_two_rows")


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The NumPy port, causal and no more: what is padding or behind a window is seen, whoever asks."""
    spec = importlib.util.spec_from_file_location("plain_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def causal(_self: Any, _layer: int, padding: np.ndarray, query: int) -> np.ndarray:
        slots = np.arange(padding.shape[1])
        visible = slots[None, None] <= slots[-query:, None]
        return np.broadcast_to(visible, (len(padding), query, len(slots)))

    monkeypatch.setattr(module.Qwen3, "mask", causal)
    return module


def judge(name: str, port: Any, tmp_path: Path) -> Verdicts:
    record(read(DECODER / f"{name}.pb"), tmp_path / "port.pb", port.factory)
    return check(DECODER / f"{name}.pb", tmp_path / "port.pb")


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_port_is_at_parity_on_the_plain_cases(name: str, port: Any, tmp_path: Path) -> None:
    verdicts = judge(name, port, tmp_path)
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared == verdicts.of


@pytest.mark.parametrize("name", PLAIN)
def test_the_plain_cases_have_no_padding_no_window_and_no_scaling(name: str) -> None:
    golden = read(DECODER / f"{name}.pb")
    config = golden.case.config
    assert golden["input.decoder_attention_mask", 0].array.all() and set(config.layer_types) == {"full_attention"}
    assert (
        not config.HasField("rope_scaling") and config.rms_norm_eps == 1e-6 and list(golden.case.steps)[1:] == [1] * 4
    )


def test_a_plain_port_fails_where_there_is_padding(port: Any, tmp_path: Path) -> None:
    assert judge("ragged_decode", port, tmp_path).exit_code == 1


def test_positions_that_start_again_at_each_step_are_found_in_the_plainest_case(
    port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = port.Qwen3.forward

    def restarted(self: Any, ids: Any, positions: Any, padding: Any, tables: Any, cache: Any, tap: Any) -> Any:
        positions = positions - positions[:, :1]
        return forward(self, ids, positions, padding, self.tables(positions), cache, tap)

    monkeypatch.setattr(port.Qwen3, "forward", restarted)
    assert judge("plain", port, tmp_path).exit_code == 1
    recording = read(tmp_path / "port.pb")
    verdicts = replay(recording, weights_of(recording, GOLDEN_ROOT / "checkpoints"), read(DECODER / "plain.pb"))
    assert {verdict.name for verdict in verdicts if not verdict.passed} == {"decoder.position_ids"}


def test_rows_that_are_exchanged_need_two_of_them(port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = port.softmax
    monkeypatch.setattr(port, "softmax", lambda scores, mask: softmax(scores[::-1], mask))
    assert judge("plain", port, tmp_path).exit_code == 0
    verdicts = judge("plain_two_rows", port, tmp_path)
    assert verdicts.exit_code == 1 and verdicts.first_bad is not None
    assert verdicts.first_bad.name == "decoder.layers.0.merged_attn.probs"
