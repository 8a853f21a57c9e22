"""Norms that stand behind a part of a layer: before it, or the two of a layer exchanged, said alike at every place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qwen3_parity
from qwen3_golden import read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import write_tiny

pytestmark = pytest.mark.slow
NAMES = "layers.*.post_attention_layernorm and layers.*.post_feedforward_layernorm"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny("olmo2", tmp_path_factory.mktemp("tiny") / "olmo2", floors=False).parent


def before(layer: Any) -> Callable[..., torch.Tensor]:
    def forward(x: torch.Tensor, **named: Any) -> torch.Tensor:
        x = x + layer.self_attn(hidden_states=layer.post_attention_layernorm(x), **named)[0]
        return x + layer.mlp(layer.post_feedforward_layernorm(x))

    return forward


def exchanged(layer: Any) -> Callable[..., torch.Tensor]:
    def forward(x: torch.Tensor, **named: Any) -> torch.Tensor:
        x = x + layer.post_feedforward_layernorm(layer.self_attn(hidden_states=x, **named)[0])
        return x + layer.post_attention_layernorm(layer.mlp(x))

    return forward


MISTAKES = {
    "before": (before, f"edit.moved: runs {NAMES} before what they are to stand behind, on the residual, at "),
    "exchanged": (exchanged, f"edit.exchanged: runs {NAMES} in each other's place, at "),
}


@pytest.mark.parametrize("taps", ["*", "sub-layer"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_norms_that_stand_elsewhere_are_told_once(mistake: str, taps: str, folder: Path, tmp_path: Path) -> None:
    forward, says = MISTAKES[mistake]
    golden, model = read(folder / "golden.pb", digests=True), load(folder)
    model.set_attn_implementation("eager")
    for layer in model.model.layers:
        layer.forward = forward(layer)
    case = qwen3_parity.golden(folder / "golden.pb")
    with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / "mine.pb", taps=[taps]) as recording:
        model(**case.inputs)
    faults = diagnose(golden, read(recording.path), dict(weights_of(golden, folder.parent)), partial=True).faults
    assert len(faults) > 2
    for fault in faults:
        assert [f"{said.name}: {said.says}"[: len(says)] for said in fault.explanations] == [says]
