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
from transformers import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextModel

import qwen3_parity
from qwen3_golden import Array, Recording, read
from qwen3_parity.checkpoints.graph_weights import weights_in
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.graph.capture import capture
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
    assert faults
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


def test_a_part_that_is_taken_by_another_ones_index_is_told(tmp_path: Path) -> None:
    """Keys for values, in the sum alone: what exchanged the two would have other probabilities."""
    folder, attention = tmp_path / "bloom", "transformer.h.0.self_attention"
    golden = captured("bloom", folder)
    weights = load_file(folder / "model.safetensors")
    weight, bias = (np.float64(weights[f"{attention}.dense.{name}"]) for name in ("weight", "bias"))
    probs = golden[f"{attention}.attention_dropout", 0].values().astype(np.float64)
    qkv = golden[f"{attention}.query_key_value", 0].values()
    keys = qkv.reshape(*qkv.shape[:2], probs.shape[1], 3, -1)[..., 1, :].swapaxes(1, 2)
    context = (probs @ keys).swapaxes(1, 2).reshape(*qkv.shape[:2], -1)
    names = tuple(f"{attention}.{name}" for name in ("query_key_value", "attention_dropout", "dense"))
    said = first(golden, folder, names, {names[-1]: context @ weight.T + bias})
    assert said.startswith("edit.order: takes part 1 of 3 for value_layer, at modeling_bloom.py:")


def test_parts_of_keys_that_are_written_in_each_others_place_are_told(tmp_path: Path) -> None:
    golden, attention = captured("deepseek_v2", tmp_path / "deepseek"), "model.layers.0.self_attn"
    size = json.loads(golden.graph.config)["qk_nope_head_dim"]
    keys = golden[f"{attention}.key", 0].values()
    names = (f"{attention}.kv_a_proj_with_mqa", f"{attention}.kv_b_proj", f"{attention}.key")
    changed = {names[-1]: np.concatenate([keys[..., size:], keys[..., :size]], -1)}
    said = first(golden, tmp_path / "deepseek", names, changed)
    assert said.startswith(
        "edit.order: has its two parts in each other's place: in the order 1, 0, at modeling_deepseek"
    )


def test_a_filter_that_is_reversed_in_prompts_alone_is_told(tmp_path: Path) -> None:
    """A later step has the same filter in the graph: the mistake is what one line reads."""
    golden, mixer = captured("mamba", tmp_path / "mamba"), "backbone.layers.0.mixer"
    weights = load_file(tmp_path / "mamba" / "model.safetensors")
    kernel, bias = weights[f"{mixer}.conv1d.weight"][:, 0, ::-1].astype(np.float64), weights[f"{mixer}.conv1d.bias"]
    x = golden[f"{mixer}.in_proj", 0].values()[..., : len(kernel)]
    padded = np.pad(x, ((0, 0), (kernel.shape[1] - 1, 0), (0, 0)))
    summed = bias + sum(padded[:, at : at + x.shape[1]] * kernel[:, at] for at in range(kernel.shape[1]))
    projected = summed / (1 + np.exp(-summed)) @ weights[f"{mixer}.x_proj.weight"].T
    names = (f"{mixer}.in_proj", f"{mixer}.x_proj")
    said = first(golden, tmp_path / "mamba", names, {names[-1]: projected})
    assert said.startswith("edit.reversed: reads the filter reversed along axis 2 in conv1d, at modeling_mamba.py:")


def test_rows_of_chosen_experts_that_are_summed_as_if_they_lay_by_experts_are_told(tmp_path: Path) -> None:
    golden = captured("qwen3_vl_moe", tmp_path / "moe")
    mlp = next(item.info.name for item in golden if item.info.name.endswith("layers.0.mlp.experts")).rpartition(".")[0]
    loaded = load_file(tmp_path / "moe" / "model.safetensors")
    both, down = (next(x for name, x in loaded.items() if name.endswith(f"layers.0.mlp.experts.{each}"))
                  for each in ("gate_up_proj", "down_proj"))  # fmt: skip
    x = golden[f"{mlp.removesuffix('.mlp')}.post_attention_layernorm", 0].values().astype(np.float64)
    x = x.reshape(-1, x.shape[-1])
    factors, chosen = (golden[f"{mlp}.gate[{place}]", 0].values() for place in (1, 2))
    gate, up = np.split(np.einsum("tkij,tj->tki", both[chosen], x), 2, -1)
    rows = np.einsum("tkij,tkj->tki", down[chosen], gate / (1 + np.exp(-gate)) * up) * factors[..., None]
    summed = rows.reshape(*chosen.shape[::-1], -1).sum(0)
    names = (f"{mlp.removesuffix('.mlp')}.post_attention_layernorm", f"{mlp}.gate", f"{mlp}.experts")
    said = first(golden, tmp_path / "moe", names, {names[-1]: summed})
    tokens, count = chosen.shape
    assert said.startswith(
        f"edit.order: takes rows as if they lay {count} × {tokens}, where they lie {tokens} × {count}, at moe.py:"
    )


def test_positions_on_several_axes_are_told(tmp_path: Path) -> None:
    sizes = [2, 1, 1]
    config = Qwen2_5_VLTextConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, layer_types=["full_attention"], bos_token_id=1,
        eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 100.0, "mrope_section": sizes},
    )  # fmt: skip
    torch.manual_seed(0)
    model, ids = Qwen2_5_VLTextModel(config).eval().float(), torch.arange(3, 13)[None]
    capture(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, tmp_path / "golden.pb", floors=False)
    golden = read(tmp_path / "golden.pb", digests=True)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    cos = golden["rotary_emb", 0].values()
    unmoved = np.where(np.arange(cos.shape[-1]) % sum(sizes) < sizes[0], cos, 1)
    begun = cos[..., [channel for size in sizes for channel in range(size)] * 2]
    answers = {
        "edit.rotation: has position 0 for all axes but the first of 3, at modeling_qwen2_5_vl.py:": unmoved,
        "edit.order: cuts each of the 3 parts of the channels from channel 0 on, not behind the one before it": begun,
    }
    for says, changed in answers.items():
        tensors = [item for item in golden if item.info.name.startswith("input.")]
        tensors.append(replace(golden["rotary_emb", 0], array=changed.astype(np.float32)))
        (fault,) = diagnose(golden, replace(golden, tensors=tensors), weights, partial=True).faults
        assert f"{fault.explanations[0].name}: {fault.explanations[0].says}".startswith(says)
