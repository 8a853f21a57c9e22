"""A clamp that lacks a bound, or has one more, is said as that: numbers of the tiny checkpoint reach its bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

import qwen3_parity
from qwen3_golden import read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import write_tiny


def applied(low: float | None, up_low: float | None) -> Callable[..., Any]:
    """The experts' activation with other bounds below."""

    def apply(self: Any, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate, up = gate.clamp(min=low, max=self.limit), up.clamp(min=up_low, max=self.limit)
        return (up + 1) * (gate * torch.sigmoid(gate * self.alpha))

    return apply


MISTAKES = {
    "both sides": (applied(-2.0, -2.0), "edit.constant", "clamps below too, at -2"),
    "above alone": (applied(None, None), "edit.left_out", "does not clamp below, at -2"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny("gpt_oss", tmp_path_factory.mktemp("tiny") / "gpt_oss", floors=False).parent


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_bound_more_or_less_is_told(
    mistake: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, name, words = MISTAKES[mistake]
    monkeypatch.setattr(GptOssExperts, "_apply_gate", apply)
    golden, model = read(folder / "golden.pb", digests=True), load(folder)
    model.set_attn_implementation("eager")
    case, states = qwen3_parity.golden(folder / "golden.pb"), None
    with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / "mine.pb") as recording:
        for step in case.steps:
            states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]
    faults = diagnose(golden, read(recording.path), dict(weights_of(golden, folder.parent))).faults
    assert faults and {fault.explanations[0].name for fault in faults} == {name}
    assert all(words in fault.explanations[0].says for fault in faults)
