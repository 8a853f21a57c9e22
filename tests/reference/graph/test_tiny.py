"""A family's name alone gives a loud tiny checkpoint and its golden, which says by itself how each tap comes about.

It runs `graph.reason`, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from qwen3_golden import ParityError, Recording, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import load
from qwen3_reference.graph.settings import as_reference
from qwen3_reference.graph.tiny import GOLDEN, tiny_inputs, tiny_model, write_tiny
from qwen3_reference.graph.traced import run, traced

FAMILIES = ("qwen3_moe", "gemma3", "gpt_oss", "lfm2", "bert", "t5gemma2", "qwen3", "mamba2")


def differences(golden: Recording, folder: Path) -> dict[tuple[str, int], float]:
    """How far the recorded taps are from their graph's float64, in parts of their RMS; where indices differ, 1."""
    graph = graph_of(golden.graph, golden.source)
    arrays = {tensor.info.name.removeprefix("input."): tensor.values() for tensor in golden}
    arrays |= {name: value.numpy() for name, value in load(folder).named_parameters(remove_duplicate=False)}
    values = graph.run(graph.leaf_values(arrays))
    errors = dict[tuple[str, int], float]()
    for key, number in graph.taps.items():
        mine, theirs = np.asarray(values[number]), golden[key].values()
        assert mine.shape == theirs.shape
        if theirs.dtype.kind != "f":
            errors[key] = float(np.any(np.sort(mine, -1) != np.sort(theirs, -1)))
        else:
            counted = np.abs(theirs) < 1e37
            size, error = (np.sqrt(np.mean(np.square(array[counted]))) for array in (theirs, theirs - mine))
            errors[key] = float(error / max(size, 1e-30))
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tiny_golden_is_what_its_own_graph_computes(family: str, tmp_path: Path) -> None:
    path = write_tiny(family, tmp_path / family)
    golden = read(path, digests=True)
    names = [tensor.key for tensor in golden if not tensor.info.name.startswith("input.")]
    assert names == [(tap.name, tap.step) for tap in golden.graph.tap]
    assert max(differences(golden, path.parent).values()) < 1e-4
    assert golden.case.mode == pb.GRAPH and not golden.case.HasField("config")
    assert [checkpoint.role for checkpoint in golden.case.checkpoint] == [
        "model"
    ] and golden.provenance.producer == "qwen3_reference"
    assert path.stat().st_size < 1 << 20
    heads = {name.partition(".")[2] for name, _ in names if name.endswith((".query", ".context"))}
    assert bool(heads) == (family != "mamba2")
    for tensor in golden:
        assert set(tensor.info.axes) <= {"batch", "query", "key", "row", "channel"}
        sizes = dict(zip(tensor.info.axes, tensor.info.shape, strict=True))
        assert sizes.get("batch", 2) == 2


@pytest.mark.slow  # two exports
def test_the_same_command_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    first, again = (write_tiny("bert", tmp_path / place / "mine").parent for place in ("here", "there"))
    names = sorted(path.name for path in first.iterdir())
    assert {"config.json", "model.safetensors", GOLDEN} <= set(names)
    for name in names:
        assert (first / name).read_bytes() == (again / name).read_bytes(), name
    assert [checkpoint.name for checkpoint in read(first / GOLDEN).case.checkpoint] == ["mine"]


@pytest.mark.slow
def test_the_bytes_are_the_same_whatever_order_a_set_has(tmp_path: Path) -> None:
    code = (
        "import sys; from qwen3_reference.graph.tiny import write_tiny; write_tiny('gemma3', sys.argv[1], floors=False)"
    )
    contents = []
    for seed in ("0", "1"):  # two orders of Gemma's two kinds of layers
        folder = tmp_path / seed / "mine"
        subprocess.run([sys.executable, "-c", code, folder], env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_weights_are_loud_and_two_tokens_are_quiet(tmp_path: Path) -> None:
    folder = write_tiny("qwen2_moe", tmp_path / "it").parent
    model = load(folder)
    assert model.config.num_experts >= 11 and model.config.num_experts_per_tok == 3
    for name, value in model.named_parameters():
        if name.endswith("bias"):
            assert float(value.abs().mean()) > 0.2
        elif value.ndim == 1:
            assert float((value - 1).abs().mean()) > 0.3 and 0.4 <= float(value.min()) <= float(value.max()) <= 2.2
    rows = model.get_input_embeddings().weight.pow(2).mean(-1).sqrt()
    assert [int(token) for token in (rows < 0.01).nonzero()] == [5, 9]
    shown = read(folder / GOLDEN)["input.input_ids", 0].array
    assert {5, 9} <= set(shown.ravel().tolist())


class Constant(nn.Module):
    """A number of the source that a bfloat16 model would round: its export there is another function."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 4), nn.Linear(4, 3)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        return self.head(x * torch.tensor(0.3, dtype=x.dtype))  # type: ignore[no-any-return]


def test_where_bfloat16_rounds_a_constant_the_export_is_float32_and_a_plain_module_gives_logits(
    tmp_path: Path,
) -> None:
    capture(Constant().requires_grad_(False), {"input_ids": torch.tensor([[1, 2], [3, 4]])}, tmp_path / "it.pb")
    golden = read(tmp_path / "it.pb")
    assert {flag.key: flag.value for flag in golden.provenance.flags}["export"] == "float32"
    assert [tensor.info.name for tensor in golden] == ["input.input_ids", "embed", "head", "logits"]
    assert {node.dtype for node in graph_of(golden.graph, "it").nodes if node.dtype} == {"float32"}


class Branching(nn.Module):
    """What no export can follow: which way it goes is for the numbers to say."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 4), nn.Linear(4, 3)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        return self.head(x) if float(x.sum()) > 0 else x


class Embedding(nn.Module):
    """A model of layers of a kind, as its configuration says, and no cache."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.config, self.embed = SimpleNamespace(layer_types=[kind]), nn.Embedding(11, 4)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.embed(input_ids))


@pytest.mark.parametrize(("kind", "shape"), [("full_attention", (None, None, 4)), ("linear_attention", (2, 3, 4))])
def test_sizes_stay_free_but_for_chunk_rules_whose_loops_take_minutes_with_them(kind: str, shape: object) -> None:
    model, inputs = Embedding(kind), {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}
    with as_reference(model):
        graph = traced(model, inputs, (3,)).graph
    assert graph.nodes[-1].shape == shape


def test_a_model_that_cannot_be_exported_is_one_sentence_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="torch cannot export this model") as error:
        capture(Branching(), {"input_ids": torch.tensor([[1, 2]])}, tmp_path / "it.pb")
    assert len(error.value.got) < 300 and "\n" not in error.value.got
    assert not list(tmp_path.iterdir())


def test_a_model_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="does not run on these inputs"):
        capture(Branching(), {"input_ids": torch.tensor([[1, 99]])}, tmp_path / "it.pb")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ParityError, match="something here already"):
        write_tiny("bert", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("family", ["no_such_family", "config.json"])
def test_a_family_that_transformers_does_not_know_is_refused(family: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": 7}')
    name = tmp_path / family if family.endswith("json") else family
    with pytest.raises(ParityError, match="does not know this family"):
        write_tiny(name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("family", "reads"), [("vit", "pixel_values"), ("siglip_vision_model", "pixel_values"), ("hubert", "input_values")]
)
def test_a_family_that_reads_images_or_sound_is_refused_as_one(family: str, reads: str, tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="this family reads no text") as refused:
        write_tiny(family, tmp_path / "out")
    assert refused.value.got.endswith(f"which takes {reads}") and not (tmp_path / "out").exists()


def test_a_decoder_of_an_encoder_decoder_is_refused_as_one_side(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="one side of this encoder–decoder alone would run") as refused:
        write_tiny("canary_decoder", tmp_path / "out")
    assert refused.value.got == "CanaryDecoder, which takes input_ids"


@pytest.mark.parametrize(
    ("family", "name", "shape"),
    [
        ("whisper", "input_features", (2, 8, 32)),
        ("speech_to_text", "input_features", (2, 32, 8)),
        ("moonshine", "input_values", (2, 2048)),
    ],
)
def test_a_family_that_hears_has_sound_for_text_and_goes_on_from_its_encoder(
    family: str, name: str, shape: tuple[int, ...]
) -> None:
    model = tiny_model(family)
    inputs, steps = tiny_inputs(model, 1)
    assert inputs[name].shape == shape and inputs["decoder_input_ids"].shape == (2, 4) and len(inputs) == 2
    with as_reference(model):
        cut, whole = run(model, inputs, steps), run(model, inputs, (4,))
    last = torch.cat([cut["logits", step] for step in range(3)], 1)
    torch.testing.assert_close(last, whole["logits", 0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_graph_reads_no_other_names_than_its_golden_has(tmp_path: Path) -> None:
    golden = read(write_tiny("bert", tmp_path / "it"))
    graph = graph_of(golden.graph, golden.source)
    recorded = {parameter.name for parameter in golden.parameters}
    assert set(graph.parameters) <= recorded
    assert {f"input.{name}" for name in graph.inputs} == {t.info.name for t in golden if t.info.op == "input"}


@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5_text"])
def test_more_than_two_channels_of_a_head_turn_and_not_all(family: str) -> None:
    config = tiny_model(family).config
    assert 4 <= int(config.head_dim * config.rope_parameters["partial_rotary_factor"]) < config.head_dim


def test_keys_and_values_of_a_state_differ_in_width_and_clamps_are_reached() -> None:
    config = tiny_model("qwen3_next").config
    assert config.linear_key_head_dim != config.linear_value_head_dim
    model, bounds = tiny_model("gpt_oss"), list[tuple[float, float]]()
    for layer in model.model.layers:
        apply, limit = layer.mlp.experts._apply_gate, layer.mlp.experts.limit

        def watched(gate_up: torch.Tensor, apply: Any = apply) -> torch.Tensor:
            bounds.extend((float(part.min()), float(part.max())) for part in (gate_up[..., ::2], gate_up[..., 1::2]))
            return apply(gate_up)

        layer.mlp.experts._apply_gate = watched
    inputs, _ = tiny_inputs(model, 1)
    with torch.no_grad():
        model(**inputs)
    lowest, highest = min(low for low, _ in bounds), max(high for _, high in bounds)
    assert lowest < -limit and highest > limit


@pytest.mark.slow  # an export each
@pytest.mark.parametrize("family", ["nomic_bert", "youtu"])
def test_what_a_load_splits_or_clears_is_found_in_the_files(family: str, tmp_path: Path) -> None:
    golden = read(write_tiny(family, tmp_path / "it", floors=False))
    weights = weights_of(golden, tmp_path)
    loaded = dict(load(tmp_path / "it").named_parameters(remove_duplicate=False))
    assert len(weights) > 10
    for name, value in weights.items():
        np.testing.assert_array_equal(np.asarray(value), loaded[name].numpy(), err_msg=name)
