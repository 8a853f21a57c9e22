"""A checkpoint is used whole or refused: what, where, expected, got."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from qwen3_golden import ParityError, pb
from qwen3_reference.capture.models import load_reference
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.weights import checkpoint_message, load_weights, parameters
from qwen3_reference.torch_tensors import parameter_messages


@pytest.fixture
def copy(checkpoints: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copied(name: str) -> Path:
        return Path(shutil.copytree(checkpoints / name, tmp_path / name))

    return copied


def edit(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    tensors = dict(load_file(directory / "model.safetensors"))
    change(tensors)
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def configure(directory: Path, **fields: Any) -> None:
    path = directory / "config.json"
    config = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({name: value for name, value in config.items() if value != "absent"}))


def test_every_tensor_has_its_canonical_name(checkpoints: Path) -> None:
    weights = load_weights(checkpoints / "tied-encoder", checkpoints / "tied-decoder")
    assert weights["encoder.layers.2.self_attn.q_proj.weight"].shape == (60, 40)
    assert weights["decoder.layers.2.merged_attn.k_norm.weight"].shape == (10,)
    assert np.array_equal(weights["lm_head.weight"], weights["decoder.embed_tokens.weight"])
    assert "decoder.layers.0.merged_attn.q_proj.bias" not in weights


@pytest.mark.parametrize("name", ["tied-encoder", "tied-decoder", "window-encoder", "bfloat16", "qwen2-decoder"])
def test_digests_are_those_of_the_parameters_that_hf_loads(checkpoints: Path, name: str) -> None:
    dtype, code = (torch.bfloat16, pb.BF16) if name == "bfloat16" else (torch.float32, pb.F32)
    model = load_reference(None, checkpoints / name, dtype=dtype).decoder
    held = {
        (n if n == "lm_head.weight" else f"decoder.{n.removeprefix('model.')}").replace("self_attn", "merged_attn"): p
        for n, p in model.named_parameters(remove_duplicate=False)
    }
    assert parameters(load_weights(None, checkpoints / name, code)) == parameter_messages(held)


def test_a_bfloat16_checkpoint_in_float32_has_the_digests_of_the_widened_values(checkpoints: Path) -> None:
    wide = parameters(load_weights(None, checkpoints / "bfloat16", pb.F32))
    model = load_reference(None, checkpoints / "bfloat16", dtype=torch.float32).decoder
    digest = parameter_messages({"x": model.model.layers[1].mlp.up_proj.weight})[0].sha256
    assert digest in {p.sha256 for p in wide if p.name == "decoder.layers.1.mlp.up_proj.weight"}


def test_one_checkpoint_in_both_roles_is_hashed_under_both_names(checkpoints: Path) -> None:
    directory = checkpoints / "even-window"
    digests = {p.name: p.sha256 for p in parameters(load_weights(directory, directory))}
    assert digests["encoder.norm.weight"] == digests["decoder.norm.weight"]


def test_a_changed_byte_changes_the_checkpoints_digest(copy: Callable[[str], Path]) -> None:
    directory = copy("even-window")
    before = checkpoint_message("decoder", directory, "x").sha256
    edit(directory, lambda t: t["model.norm.weight"].__setitem__(0, 0.123))
    assert checkpoint_message("decoder", directory, "x").sha256 != before


def refused(directory: Path, *words: str) -> None:
    with pytest.raises(ParityError) as caught:
        load_weights(None, directory)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.fault == "input"


@pytest.mark.parametrize("kept", [0, 5, 300, -1])
def test_a_truncated_file_is_refused(copy: Callable[[str], Path], kept: int) -> None:
    path = copy("even-window") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(path.parent, "cut off")


@pytest.mark.parametrize("field", ["rms_norm_eps", "vocab_size", "num_key_value_heads"])
def test_a_config_must_state_what_hf_would_otherwise_default(copy: Callable[[str], Path], field: str) -> None:
    directory = copy("even-window")
    configure(directory, **{field: "absent"})
    refused(directory, field)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_attention_heads": 5},
        {"layer_types": ["full_attention"]},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"hidden_act": "quick_gelu"},
    ],
)
def test_an_impossible_config_is_refused(copy: Callable[[str], Path], fields: dict[str, Any]) -> None:
    directory = copy("even-window")
    configure(directory, **fields)
    refused(directory, "config.json")


def test_both_layouts_of_rope_theta_are_read(copy: Callable[[str], Path]) -> None:
    nested = copy("even-window")
    flat = model_config(nested)
    configure(nested, rope_theta="absent", rope_parameters={"rope_type": "default", "rope_theta": 7777.0})
    assert model_config(nested) == flat


def test_two_stacks_with_other_embeddings_are_refused(checkpoints: Path, copy: Callable[[str], Path]) -> None:
    directory = copy("tied-encoder")
    edit(directory, lambda t: t["model.embed_tokens.weight"].__setitem__((50, 0), 1.5))
    with pytest.raises(ParityError, match="different embeddings"):
        load_weights(directory, checkpoints / "tied-decoder")


def test_two_stacks_with_other_configurations_are_refused(checkpoints: Path) -> None:
    with pytest.raises(ParityError, match="different configurations"):
        load_weights(checkpoints / "tied-encoder", checkpoints / "window-decoder")
