"""In the thousands of ops of a delta rule what stands near the tap is tried first, and states are named to record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.explained import Explained
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load

CASE, NORM = "model/qwen3_next", "model.layers.*.linear_attn.norm"
CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MODULES = re.compile(
    r"(?!cache\.|parameter\.).*(?<!\.query)(?<!\.key)(?<!\.value)(?<!\.context)(?<!\.probs)(?<!attn\[1\])"
)


def faults_of(change: Callable[[Any], None], folder: Path) -> list[Explained]:
    """What is said of the model with a mistake, recorded by its modules."""
    golden = read(GOLDEN_ROOT / "cases" / f"{CASE}.pb", digests=True)
    model: Any = load(CHECKPOINTS / golden.case.checkpoint[0].name, torch.float32)
    model.set_attn_implementation("eager")
    change(model)
    case, states = qwen3_parity.golden(CASE), None
    with torch.no_grad(), qwen3_parity.record(model, case, path=folder / "mine.pb") as recording:
        for step in case.steps:
            states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]
    candidate = read(recording.path)
    taps = [item for item in candidate if MODULES.fullmatch(item.info.name)]
    candidate = replace(candidate, tensors=taps, parameters=[])
    return list(diagnose(golden, candidate, dict(weights_of(golden, CHECKPOINTS))).faults)


def linear_attention(model: Any) -> Any:
    return next(layer.linear_attn for layer in model.model.layers if hasattr(layer, "linear_attn"))


@pytest.mark.slow
def test_a_mistake_of_the_norm_behind_the_rule_is_named(tmp_path: Path) -> None:
    (fault,) = faults_of(lambda model: linear_attention(model).norm.weight.data.add_(1), tmp_path)
    assert fault.explanations[0].name == "edit.parameter" and "adds 1 to" in fault.explanations[0].says


@pytest.mark.slow
def test_what_has_no_name_says_which_states_to_record(tmp_path: Path) -> None:
    def otherwise(model: Any) -> None:
        attention = linear_attention(model)
        attention.A_log.data.copy_(torch.linspace(-0.7, 0.4, len(attention.A_log)) ** 2)
        attention.conv1d.weight.data[:, :, :2].mul_(torch.tensor([0.3, 1.9]))

    faults = faults_of(otherwise, tmp_path)
    says = [finding.says for fault in faults for finding in fault.findings]
    assert any("more lines: record cache.*.conv_states, cache.*.recurrent_states next" in text for text in says), says
