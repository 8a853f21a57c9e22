"""A layer that runs as one of another type, and angles of another base or scaling, are said as that.

It runs `edits.layers_read`, and of the grammar `grammar.layer_types` and `grammar.frequencies`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load

CASE = "model/gemma3"
CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
OF_A_PORT = re.compile(r"(?!model\.rotary|cache\.).*(?<!\.query)(?<!\.key)(?<!\.value)(?<!\.probs)(?<!attn\[1\])")
"""The taps of a port whose angles and attention stand in no module."""
SLIDING, FULL = "sliding_attention", "full_attention"


def every_layer_slides(model: Any) -> None:
    """The mask and the angles of the model's layers; its caches are of the same type."""
    model.model.config.layer_types = [SLIDING] * len(model.model.config.layer_types)


def angles_exchanged(model: Any) -> None:
    model.model.rotary_emb.forward = exchanged(model.model.rotary_emb.forward)


def exchanged(forward: Callable[..., Any]) -> Callable[..., Any]:
    across = {SLIDING: FULL, FULL: SLIDING}
    return lambda x, positions, layer_type: forward(x, positions, across[layer_type])


def frequencies(layer_type: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    def changed(model: Any) -> None:
        buffer = getattr(model.model.rotary_emb, f"{layer_type}_inv_freq")
        buffer.copy_(change(buffer))

    return changed


def of_base(theta: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda inv_freq: theta ** (-torch.arange(len(inv_freq)) / len(inv_freq))


MISTAKES: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "angles": (angles_exchanged, "edit.layer_type", "reads what rotary_emb gives as a layer of another type does"),
    "every layer slides": (
        every_layer_slides, "edit.layer_type",
        "rotary_emb and eager_mask give as a layer of another type does: sliding_attention for full_attention",
    ),
    "base": (frequencies(SLIDING, of_base(5e5)), "edit.constant", "has rope_theta 500000 for 7000"),
    "scaling": (frequencies(SLIDING, lambda f: f / 4), "edit.fitted", "by 4 (rope_parameters.full_attention.factor)"),
    "twice the factor": (frequencies(FULL, lambda f: f / 2), "edit.constant", "by 8 for 4 (rope_parameters.full"),
    "base times factor": (frequencies(FULL, of_base(28e4)), "edit.constant", "has rope_theta 280000 ("),
}  # fmt: skip


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_layer_of_another_type_is_told_with_the_types(mistake: str, tmp_path: Path) -> None:
    change, name, words = MISTAKES[mistake]
    golden = read(GOLDEN_ROOT / "cases" / f"{CASE}.pb", digests=True)
    model: Any = load(CHECKPOINTS / golden.case.checkpoint[0].name, torch.float32)
    model.set_attn_implementation("sdpa")  # which gives no probs of one shape or another
    case = qwen3_parity.golden(CASE)
    with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / "mine.pb") as recording:
        change(model)
        states = DynamicCache()
        for step in case.steps:
            model(**step, **{CACHE: states}, use_cache=True)
    candidate = read(recording.path)
    taps = [item for item in candidate if OF_A_PORT.fullmatch(item.info.name)]
    faults = diagnose(golden, replace(candidate, tensors=taps), dict(weights_of(golden, CHECKPOINTS))).faults
    first = [fault.explanations[0] for fault in faults if fault.explanations]
    assert {each.name for each in first} == {name} and len(first) == len(faults), [f.findings for f in faults]
    assert all(words in each.says for each in first), [each.says for each in first]
