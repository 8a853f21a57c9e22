"""Runs of a committed golden's own model with a mistake in it, recorded by modules or by layers alone."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Array, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load

CASE = "model/qwen3_moe_dense_layers"
CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
LEVELS = {
    "modules": re.compile(r"(?!cache\.).*(?<!\.query)(?<!\.key)(?<!\.value)(?<!\.context)(?<!\.probs)(?<!attn\[1\])"),
    "layers": re.compile(r"model\.layers\.\d+|model\.embed_tokens|logits"),
}
"""The taps that an implementation shows."""


@cache
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{CASE}.pb", digests=True)


@cache
def weights() -> dict[str, Array]:
    return dict(weights_of(golden(), CHECKPOINTS))


def network() -> Any:
    model = load(CHECKPOINTS / golden().case.checkpoint[0].name, torch.float32)
    model.set_attn_implementation("eager")
    return model


def candidate(model: Any, folder: Path, level: str = "modules") -> Recording:
    """What a run of a model gives at a level's taps."""
    case = qwen3_parity.golden(CASE)
    with torch.no_grad(), qwen3_parity.record(model, case, path=folder / "mine.pb") as recording:
        states = None
        for step in case.steps:
            states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]
    every = read(recording.path)
    return replace(every, tensors=[item for item in every if LEVELS[level].fullmatch(item.info.name)])


def diagnosed(model: Any, folder: Path, level: str = "modules") -> Diagnosis:
    return diagnose(golden(), candidate(model, folder, level), weights())
