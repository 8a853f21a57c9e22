"""A training case whose decoder ids are the model's own, made from the labels: a wrong shift shows there alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_golden import GOLDEN_ROOT, Recording, read
from qwen3_golden.recording import minor_of
from qwen3_parity import Verdicts, check
from qwen3_parity.blame import replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record
from qwen3_reference.cases.definitions import shifted

TRAINING = GOLDEN_ROOT / "cases" / "training"
START = 1
Shift = Callable[[Any, torch.Tensor], torch.Tensor]


def unshifted(_model: Any, labels: torch.Tensor) -> torch.Tensor:
    return labels.masked_fill(labels == -100, 3)


def shifted_twice(_model: Any, labels: torch.Tensor) -> torch.Tensor:
    ids = torch.cat((labels.new_full((len(labels), 2), START), labels[:, :-2]), dim=1)
    return ids.masked_fill(ids == -100, 3)


def judge(
    name: str, tmp_path: Path, shift: Shift | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[Verdicts, Recording]:
    if shift is not None:
        monkeypatch.setattr(Qwen3ForSeq2SeqLM, "prepare_decoder_input_ids_from_labels", shift)
    record(read(TRAINING / f"{name}.pb"), tmp_path / "step.pb", factory("eager"))
    return check(TRAINING / f"{name}.pb", tmp_path / "step.pb"), read(tmp_path / "step.pb")


def test_the_ids_of_the_golden_are_hugging_faces_shift_of_its_labels() -> None:
    golden = read(TRAINING / "from_labels.pb")
    labels, ids = (golden[f"input.{name}", 0].array for name in ("labels", "decoder_input_ids"))
    training = golden.case.training
    assert training.decoder_start_token_id == START != training.padding_idx and (labels == -100).any()
    expected = shift_tokens_right(torch.from_numpy(labels.copy()), training.padding_idx, START)
    assert np.array_equal(ids, expected.numpy()) and np.array_equal(ids, shifted(labels, START))
    assert minor_of(golden.case) == 4


@pytest.mark.parametrize("shift", [unshifted, shifted_twice])
def test_a_wrong_shift_shows_where_ids_come_from_labels_alone(
    shift: Shift, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge("tied", tmp_path, shift, monkeypatch)[0].exit_code == 0
    verdicts, recording = judge("from_labels", tmp_path, shift, monkeypatch)
    assert verdicts.exit_code == 1 and verdicts.first_bad is not None
    assert verdicts.first_bad.name == "decoder.embed_tokens"
    golden = read(TRAINING / "from_labels.pb")
    ops = replay(recording, weights_of(recording, GOLDEN_ROOT / "checkpoints"), golden)
    assert {verdict.name for verdict in ops if not verdict.passed} == {"decoder.embed_tokens"}


def test_the_model_makes_the_ids_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Mapping[str, Any]] = []
    forward = Qwen3ForSeq2SeqLM.forward

    def spied(self: Any, **arguments: Any) -> Any:
        calls.append(arguments)
        return forward(self, **arguments)

    monkeypatch.setattr(Qwen3ForSeq2SeqLM, "forward", spied)
    verdicts, _ = judge("from_labels", tmp_path, None, monkeypatch)
    assert verdicts.exit_code == 0 and verdicts.compared == verdicts.of
    assert [sorted(name for name in call if "ids" in name and call[name] is not None) for call in calls] == [
        ["input_ids"]
    ]
