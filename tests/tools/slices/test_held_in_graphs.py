"""Weights in few bits are told apart from what is otherwise, whatever the engine computes in, and by few taps.

It runs `diagnosis.right_as_held`, too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from test_slices_committed import CHECKPOINTS, golden_of, network, step_by_step

import qwen3_parity
from qwen3_golden import Recording, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import by_graph, diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.known_words import READ_FIX
from qwen3_parity.diagnosis.precision import summary
from qwen3_parity.diagnosis.right_as_held import ALL
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.mistakes.as_loaded import LOAD
from qwen3_parity.slices.network import network as network_of
from qwen3_reference.cases.models import MODEL_CASES

NAME = "model/qwen3_moe"
V = "model.layers.1.self_attn.v_proj"
MODULES = re.compile(r"(?!cache\.).*(?<!\.query)(?<!\.key)(?<!\.value)(?<!\.context)(?<!\.probs)(?<!attn\[1\])")
LEVELS = {"modules": MODULES, "layers": re.compile(r"(input|parameter)\..*|model\.layers\.\d+|logits")}


def four_bits(weight: torch.Tensor, zero_point: float = 0.0) -> torch.Tensor:
    blocks = weight.float().unflatten(-1, (-1, 8))
    scale = blocks.abs().amax(-1, keepdim=True) / 7
    return ((blocks / scale).round() - zero_point).mul(scale).flatten(-2)


@cache
def recording(folder: Path, dtype: torch.dtype, *, shifted: bool) -> Recording:
    """Hugging Face's model with its projections in 4 bits, of one the zero points a step off, by every tap."""
    model: Any = network(next(case for case in MODEL_CASES if case.name == NAME)).to(dtype)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("_proj.weight"):
                weight.copy_(four_bits(weight, float(shifted and name == f"{V}.weight")))
        case = qwen3_parity.golden(NAME)
        with qwen3_parity.record(model, case, path=folder / f"{dtype}{shifted}.pb") as recorder:
            recorder.arithmetic = "other"
            step_by_step(model, case)
    return read(recorder.path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bits")


def diagnosed(every: Recording, level: str) -> Diagnosis:
    golden, pattern = golden_of(NAME), LEVELS[level]
    taken = [item for item in every if item.info.name.startswith("parameter.") or pattern.fullmatch(item.info.name)]
    return diagnose(golden, replace(every, tensors=taken), weights_of(golden, CHECKPOINTS), work=ENOUGH / 25)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_engine_in_few_bits_holds_numbers_in_few_bits_and_nothing_else_is_otherwise(
    dtype: torch.dtype, level: str, folder: Path
) -> None:
    diagnosis = diagnosed(recording(folder, dtype, shifted=False), level)
    assert diagnosis.faults and not diagnosis.parameters
    assert summary(diagnosis.faults).endswith("as a lossy engine does; nothing else is otherwise")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_points_that_are_off_in_a_single_layer_are_not_cleared_with_the_rest(
    dtype: torch.dtype, level: str, folder: Path
) -> None:
    diagnosis = diagnosed(recording(folder, dtype, shifted=True), level)
    assert "nothing else is otherwise" not in summary(diagnosis.faults)
    says = " ".join(each.says for fault in diagnosis.faults for each in (*fault.explanations, *fault.findings))
    where = " ".join(fault.where for fault in diagnosis.faults if fault.fault.place.endswith(".v_proj"))
    assert "v_proj of layer 1: " in says or "layer 1 (of 0–1)" in where
    assert dtype == torch.bfloat16 or "its zero points are one too large" in says
    fixes = {each.fix for fault in diagnosis.faults for each in fault.explanations if "too large" in each.says}
    assert dtype == torch.bfloat16 or (READ_FIX in fixes and LOAD not in fixes)


def test_a_narrower_models_weights_have_numbers_and_no_digests(folder: Path) -> None:
    every = recording(folder, torch.bfloat16, shifted=False)
    held = {item.info.name: item.info.dtype for item in every if item.info.name.startswith("parameter.")}
    assert held[f"parameter.{V}.weight"] == pb.BF16
    assert not any(parameter.sha256 for parameter in every.parameters)


def test_a_lossy_engine_is_judged_in_what_most_of_its_taps_are_in(folder: Path) -> None:
    golden = golden_of(NAME)
    weights = weights_of(golden, CHECKPOINTS)
    narrow = [network_of(golden, recording(folder, dtype, shifted=False), weights).narrow
              for dtype in (torch.float32, torch.bfloat16)]  # fmt: skip
    assert narrow == [False, True]


def merged(folder: Path, *, negated: bool = False) -> Recording:
    """A run with projections that a merge moved; `negated`: its result of an attention, too."""
    model: Any = network(next(case for case in MODEL_CASES if case.name == NAME))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("model.layers.1.self_attn.") and name.endswith("_proj.weight"):
                weight.add_(0.05 * weight.std() * torch.randn(weight.shape, generator=random))
        if negated:
            model.model.layers[1].self_attn.register_forward_hook(lambda _m, _x, y: (-y[0], *y[1:]))
        case = qwen3_parity.golden(NAME)
        with qwen3_parity.record(model, case, path=folder / f"{negated}.pb") as recorder:
            step_by_step(model, case)
    return read(recorder.path)


def test_many_weights_that_were_loaded_otherwise_are_looked_at_before_any_edit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = merged(folder)
    monkeypatch.setattr(by_graph, "explain", lambda *_, **__: pytest.fail("nothing is to be searched"))
    diagnosis = diagnosed(every, "layers")
    (fault,) = diagnosis.faults
    assert fault.name == "weight.unknown" and fault.explanations[0].fix == LOAD and not diagnosis.failures
    assert diagnosis.meaning == [ALL] and not diagnosis.parameters and not fault.findings


def test_what_is_otherwise_beside_many_other_weights_is_looked_for(folder: Path) -> None:
    diagnosis = diagnosed(merged(folder, negated=True), "layers")
    assert ALL not in diagnosis.meaning and diagnosis.parameters
