"""Taps that are assigned by name, without a model: results that were chosen, and what the golden does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of

GREEDY = "generation/greedy"


def filled(name: str, path: Path, *more: str) -> Path:
    """Every tap of a golden by its name, and more that it does not have."""
    case = qwen3_parity.golden(name)
    with qwen3_parity.record(None, case, path=path) as recording:
        for item in case.golden:
            if not item.info.name.startswith("input."):
                recording[item.info.name, item.info.step] = item.array
        for tap in more:
            recording[tap, 0] = np.zeros((3, 3, 12), np.float32)
    return recording.path


@pytest.mark.parametrize("name", [GREEDY, "generation/sample", "generation/equal_logits"])
def test_chosen_tokens_and_probabilities_are_taken_by_name(name: str, tmp_path: Path) -> None:
    recorded, golden = read(filled(name, tmp_path / "mine.pb")), qwen3_parity.golden(name).golden
    assert {item.key for item in golden if not item.info.name.startswith("input.")} <= {i.key for i in recorded}
    verdicts = check(golden, recorded, dict(weights_of(golden, GOLDEN_ROOT / "checkpoints")))
    assert verdicts.word == "parity", verdicts.problems[:2]


def test_tokens_of_another_batch_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(
            ParityError, match=r"its shape is not that of generated_ids, in any order of its axes: \[\d.*\], not \["
        ),
        qwen3_parity.record(None, qwen3_parity.golden(GREEDY), path=tmp_path / "mine.pb") as recording,
    ):
        recording["generated_ids", 0] = np.zeros((2, 4), np.int64)
    assert not (tmp_path / "mine.pb").exists()


def test_a_tap_that_the_golden_was_captured_without_is_left_out(tmp_path: Path) -> None:
    case = qwen3_parity.golden(GREEDY)
    assert case.golden.get("decoder.layers.1.merged_attn.o_proj", 0) is None
    recorded = read(filled(GREEDY, tmp_path / "mine.pb", "layers.1.self_attn.o_proj"))
    assert recorded.get("decoder.layers.1.merged_attn.o_proj", 0) is None
    with (
        pytest.raises(ParityError, match=r"(?s)nothing was recorded.*does not have: decoder\.layers\.1"),
        qwen3_parity.record(None, case, path=tmp_path / "none.pb") as recording,
    ):
        recording["layers.1.self_attn.o_proj", 0] = np.zeros((3, 3, 12), np.float32)


def test_a_layer_that_the_network_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match=r"(?s)the golden has no decoder\.layers\.7.*layers 0 to 1"):
        filled(GREEDY, tmp_path / "mine.pb", "layers.7.self_attn.o_proj")
