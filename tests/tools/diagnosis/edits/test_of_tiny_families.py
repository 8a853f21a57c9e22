"""Mistakes of networks that no committed golden has: what an encoder hides, a router's correction, fused q, k and v."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file

import qwen3_parity
from qwen3_golden import Array, Recording, read
from qwen3_parity.checkpoints.graph_weights import weights_in
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.graph.load import load

pytestmark = pytest.mark.slow


def captured(family: str, folder: Path) -> Recording:
    assert CliRunner().invoke(main, ["capture", "--tiny", family, "--out", str(folder)]).exit_code == 0
    return read(folder / "golden.pb", digests=True)


def first(golden: Recording, folder: Path, names: tuple[str, ...], changed: Mapping[str, Array]) -> str:
    """What is said first where these taps of step 0 were recorded alone, some of them changed."""
    tensors = [
        replace(item, array=np.asarray(changed.get(item.info.name, item.array), item.array.dtype))
        for item in golden
        if not item.info.step and item.info.name.startswith(("input.", *names))
    ]
    candidate = replace(golden, tensors=tensors)
    fault, *_ = diagnose(golden, candidate, weights_in(golden, folder), partial=True).faults
    return f"{fault.explanations[0].name}: {fault.explanations[0].says}"


def test_an_encoder_that_hides_what_is_ahead_is_told(tmp_path: Path) -> None:
    golden, attention = captured("bert", tmp_path / "bert"), "bert.encoder.layer.0.attention.self"
    probs, values = (golden[f"{attention}.{name}", 0].values().astype(np.float64) for name in ("probs", "value"))
    behind = np.tril(probs)
    sums = behind.sum(-1, keepdims=True)
    context = np.divide(behind, sums, out=np.zeros_like(behind), where=sums > 0) @ values
    names = tuple(f"{attention}.{name}" for name in ("query", "key", "value", "context"))
    said = first(golden, tmp_path / "bert", names, {names[-1]: context.swapaxes(1, 2)})
    assert said.startswith("edit.sibling: hides the keys ahead of each query, as a decoder does, at modeling_bert.py:")


def test_a_routers_correction_that_enters_the_weights_is_told(tmp_path: Path) -> None:
    folder, gate = tmp_path / "deepseek", "model.layers.1.mlp.gate"
    golden = captured("deepseek_v3", folder)
    correction = load_file(folder / "model.safetensors")[f"{gate}.e_score_correction_bias"].astype(np.float64)
    logits, indices = golden[gate, 0].values().astype(np.float64), golden[f"{gate}[2]", 0].values()
    chosen = np.take_along_axis(1 / (1 + np.exp(-logits)) + correction, indices, -1)
    factor = json.loads(golden.graph.config)["routed_scaling_factor"]
    said = first(golden, folder, (gate,), {f"{gate}[1]": factor * chosen / chosen.sum(-1, keepdims=True)})
    assert said.startswith("edit.added: adds layers.*.mlp.gate.e_score_correction_bias to the result of sigmoid, at ")


def test_a_time_step_that_is_clamped_to_the_configs_bounds_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its init has the bounds `time_step_min` and `time_step_max`, and its forward none; prompts and steps differ."""
    golden, states = captured("mamba2", tmp_path / "mamba2"), None
    model: Any = load(tmp_path / "mamba2", torch.float32)
    softplus, path = torch.nn.functional.softplus, tmp_path / "mine.pb"
    monkeypatch.setattr(torch.nn.functional, "softplus", lambda x: softplus(x).clamp(0.001, 0.1))
    case = qwen3_parity.golden(str(tmp_path / "mamba2" / "golden.pb"))
    with torch.no_grad(), qwen3_parity.record(model, case, path=path):
        for step in case.steps:
            states = model(**step, cache_params=states, use_cache=True).cache_params
    faults = diagnose(golden, read(path), weights_in(golden, tmp_path / "mamba2")).faults
    for fault in faults:
        best = fault.explanations[0]
        assert "clamps the result of softplus at 0.001 (time_step_min) and 0.1 (time_step_max)" in best.says
        assert best.reproduced == best.of


def test_fused_channels_that_are_taken_head_by_head_are_told(tmp_path: Path) -> None:
    golden, attention = captured("phi3", tmp_path / "phi3"), "model.layers.0.self_attn"
    config = json.loads(golden.graph.config)
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    qkv = golden[f"{attention}.qkv_proj", 0].values()
    dim = qkv.shape[-1] // (heads + 2 * groups)
    values = qkv.reshape(*qkv.shape[:2], groups, -1)[..., -dim:].swapaxes(1, 2)
    names = (f"{attention}.qkv_proj", f"{attention}.value")
    said = first(golden, tmp_path / "phi3", names, {names[1]: values})
    size = heads // groups * dim
    assert said.startswith(
        f"edit.order: takes channels as if they lay head by head, {groups} × ({size} + {dim} + {dim}), where they lie "
        f"part by part, {groups} × {size}, {groups} × {dim}, {groups} × {dim}, at modeling_phi3.py:"
    )
