"""A graph's parameters are found in the files that their model was loaded from, and read again bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from detection.families.models import tiny
from qwen3_golden import ParityError, Recording, pb, read, tensor, write
from qwen3_parity.checkpoints.weights import checkpoint_directories, weights_at_hand, weights_of
from qwen3_reference.checkpoints.weights import checkpoint_message
from qwen3_reference.graph.pieces import pieces_of

SAVED = ("qwen3_moe.Qwen3Moe", "gpt_oss.GptOss", "mixtral.Mixtral", "deepseek_v3.DeepseekV3", "glm4_moe.Glm4Moe")
RENAMED = ("granitemoe.GraniteMoe", "gemma3.Gemma3")
TORCH = {torch.float32: pb.F32, torch.bfloat16: pb.BF16, torch.float16: pb.F16}


@cache
def saved(family: str, folder: Path, dtype: torch.dtype = torch.float32, **how: Any) -> Any:
    """A tiny model of a family as it comes back from a folder."""
    model = tiny(family)
    model.save_pretrained(folder, **how)
    loaded = type(model).from_pretrained(folder, dtype=dtype)
    return dict(loaded.named_parameters(remove_duplicate=False))


def golden(parameters: Mapping[str, Any], folder: Path, pieces: Mapping[str, tuple[str, ...]]) -> Recording:
    """A golden of mode GRAPH, in memory, whose graph has nothing but these parameters."""
    case = pb.Case(name="graph/tiny", mode=pb.GRAPH, steps=[1], checkpoint=[checkpoint_message("model", folder, "m")])
    graph = pb.Graph(parameter=[pb.GraphLeaf(name=name, piece=pieces.get(name, ())) for name in parameters])
    stated = [pb.Parameter(name=n, dtype=TORCH[p.dtype], shape=p.shape) for n, p in parameters.items()]
    tensors = [tensor("logits", np.zeros(1, "f4"))]
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32)
    return Recording(case, pb.Provenance(producer="qwen3_reference"), run, tensors, stated, graph=graph)


def read_again(parameters: Mapping[str, Any], recording: Recording, folder: Path) -> None:
    weights = weights_of(recording, Path("nowhere"), folder)
    assert list(weights) == list(parameters)
    for name, parameter in parameters.items():
        values = np.asarray(weights[name])
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, parameter.detach().float().numpy(), err_msg=name)


@pytest.mark.parametrize("family", [*SAVED, *RENAMED])
def test_every_parameter_is_found_and_read_again(family: str, tmp_path: Path) -> None:
    parameters = saved(family, tmp_path)
    pieces = pieces_of(parameters, tmp_path)
    read_again(parameters, golden(parameters, tmp_path, pieces), tmp_path)


def test_experts_are_named_in_the_order_of_their_numbers_gate_before_up(tmp_path: Path) -> None:
    pieces = pieces_of(saved("qwen3_moe.Qwen3Moe", tmp_path), tmp_path)
    experts = "model.layers.0.mlp.experts"
    expected = [f"{experts}.{number}.{part}_proj.weight" for number in range(6) for part in ("gate", "up")]
    assert list(pieces[f"{experts}.gate_up_proj"]) == expected
    assert len(pieces) == 4


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    assert pieces_of(saved("gemma3.Gemma3", tmp_path), tmp_path) == {"lm_head.weight": ("model.embed_tokens.weight",)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_that_is_loaded_narrower_than_it_is_stored_is_read_as_it_was_loaded(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    parameters = saved("qwen3_moe.Qwen3Moe", tmp_path, dtype)
    assert {parameter.dtype for parameter in parameters.values()} == {dtype}
    read_again(parameters, golden(parameters, tmp_path, pieces_of(parameters, tmp_path)), tmp_path)


def test_parts_with_an_index_are_read_as_one(tmp_path: Path) -> None:
    parameters = saved("qwen3_moe.Qwen3Moe", tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    read_again(parameters, golden(parameters, tmp_path, pieces_of(parameters, tmp_path)), tmp_path)


def test_arrays_that_are_equal_are_used_once_each_in_the_order_of_numbers(tmp_path: Path) -> None:
    zero, ones = np.zeros((2, 3), "f4"), np.ones(5, "f4")
    stored = {f"e.{number}": zero for number in (10, 2, 1)}
    save_file({**stored, "o": ones, "x": np.zeros(1, "f4")}, tmp_path / "model.safetensors")
    parameters = {"e": np.zeros((3, 2, 3), "f4"), "o": ones, "both": np.concatenate([ones, zero.reshape(-1)])}
    assert pieces_of(parameters, tmp_path) == {"e": ("e.1", "e.2", "e.10"), "both": ("o", "e.1")}


ORDERED = np.arange(6, dtype="f4").reshape(2, 3)


@pytest.mark.parametrize("parameter", [ORDERED + 7, ORDERED.reshape(3, 2).T.copy(), np.zeros(7, "f4")])
def test_a_parameter_that_is_made_in_another_way_is_named(parameter: np.ndarray[Any, Any], tmp_path: Path) -> None:
    save_file({"w": ORDERED, "z": np.zeros(4, "f4")}, tmp_path / "model.safetensors")
    with pytest.raises(ParityError, match=r"model\.experts: the parameter is not made of the checkpoint's") as caught:
        pieces_of({"model.experts": parameter}, tmp_path)
    assert caught.value.fault == "input" and "save_pretrained" in caught.value.next_step


FUSED = {
    "first": ORDERED + 20,
    "a.qkv": np.arange(18, dtype="f4").reshape(6, 3) + 40,
    "b.qkv": np.arange(6, dtype="f4"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_parameter_that_is_some_rows_of_a_tensor_is_a_run_of_it(dtype: torch.dtype, tmp_path: Path) -> None:
    save_file({**FUSED, "whole": FUSED["a.qkv"][1:3]}, tmp_path / "model.safetensors")
    rows = {"q": FUSED["a.qkv"][:3], "k": FUSED["a.qkv"][3:5], "v": FUSED["a.qkv"][5:], "bias": FUSED["b.qkv"][2:5]}
    rows |= {"plain": FUSED["a.qkv"][1:3]}
    parameters = {name: torch.from_numpy(value.copy()).to(dtype) for name, value in rows.items()}
    expected = {"q": ("a.qkv[0:9]",), "k": ("a.qkv[9:15]",), "v": ("a.qkv[15:18]",), "bias": ("b.qkv[2:5]",)}
    expected |= {"plain": ("whole",)}
    pieces = pieces_of(parameters, tmp_path)
    assert pieces == expected
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    read_again(parameters, golden(parameters, tmp_path, pieces), tmp_path)


def test_columns_and_rows_of_another_width_are_no_rows_of_a_tensor(tmp_path: Path) -> None:
    save_file(FUSED, tmp_path / "model.safetensors")
    for part in (FUSED["a.qkv"][:, :2].copy(), FUSED["a.qkv"][:2].reshape(-1), FUSED["a.qkv"][::2].copy()):
        with pytest.raises(ParityError, match="not made of the checkpoint's"):
            pieces_of({"w": part}, tmp_path)


def simple(folder: Path, **changes: Any) -> tuple[Recording, dict[str, np.ndarray[Any, Any]]]:
    """A golden of two parameters, one of two pieces, written into its checkpoint's folder and read again."""
    stored = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.ones((2, 3), "f4"), "c": np.array([1.5], "f4")}
    stored |= {"mask": np.zeros(2, np.int64)}  # type: ignore[dict-item]
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "any"}', encoding="utf-8")
    parameters = {"ab": torch.zeros(2, 2, 3), "c": torch.zeros(1)}
    whole = golden(parameters, folder, {"ab": ("a", "b")})
    for name, value in changes.items():
        getattr(whole.graph.parameter[0], name).extend(value) if isinstance(value, list) else setattr(
            whole.parameters[1], name, value
        )
    write(folder / "golden.pb", whole)
    return read(folder / "golden.pb"), stored


def test_the_checkpoint_beside_a_golden_is_taken_where_it_is_the_goldens(tmp_path: Path) -> None:
    recording, stored = simple(tmp_path / "m")
    for root in (tmp_path, tmp_path / "nowhere"):
        weights = weights_at_hand(recording, root)
        assert weights is not None
        np.testing.assert_array_equal(weights["ab"], np.stack([stored["a"], stored["b"]]))
        np.testing.assert_array_equal(weights["c"], stored["c"])


def test_a_golden_without_a_checkpoint_has_no_weights_but_those_that_are_given(tmp_path: Path) -> None:
    recording, stored = simple(tmp_path / "m")
    recording.case.ClearField("checkpoint")
    assert weights_at_hand(recording, tmp_path) is None
    with pytest.raises(ParityError, match="is not there"):
        weights_of(recording, tmp_path)
    np.testing.assert_array_equal(weights_of(recording, tmp_path, tmp_path / "m")["c"], stored["c"])


def test_any_models_checkpoint_is_one_for_a_case_of_a_graph(tmp_path: Path) -> None:
    recording, _ = simple(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text('{"model_type": "qwen3_moe", "num_experts": 4}', encoding="utf-8")
    assert checkpoint_directories(recording.case, tmp_path) == {"model": tmp_path / "m"}
    recording.case.mode = pb.CAUSAL
    with pytest.raises(ParityError, match="a mixture of experts, which is not supported"):
        checkpoint_directories(recording.case, tmp_path)


def test_another_checkpoint_is_not_taken_and_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    recording, stored = simple(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    save_file({**load_file(file), "c": stored["c"] + 1}, file)
    assert weights_at_hand(recording, tmp_path) is None
    with pytest.raises(ParityError, match="the checkpoint of the golden's model is not there"):
        weights_of(recording, tmp_path)
    with pytest.raises(ParityError, match="this is not the checkpoint 'm' that graph/tiny was captured from"):
        weights_of(recording, tmp_path, tmp_path / "m")
    with pytest.raises(ParityError, match=r"(there are no weights|cannot be read)"):
        weights_of(recording, tmp_path, tmp_path / "empty")


def test_a_name_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    recording, _ = simple(tmp_path / "m")
    recording.case.checkpoint[0].name = "../m"
    (tmp_path / "m" / "golden.pb").rename(tmp_path / "golden.pb")
    (tmp_path / "root").mkdir()
    assert weights_at_hand(read(tmp_path / "golden.pb"), tmp_path / "root") is not None  # tmp_path / "m", by its name
    moved = Recording(
        recording.case,
        recording.provenance,
        recording.run,
        recording.tensors,
        recording.parameters,
        graph=recording.graph,
    )
    assert weights_at_hand(moved, tmp_path / "root") is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"piece": ["d"]}, "ab is not in the checkpoint\n.*\n.*no d"),
        ({"piece": ["c[0:2]"]}, r"ab is not in the checkpoint\n.*\n.*no c\[0:2\]"),
        ({"piece": ["b[2:4]"]}, "ab is not in the checkpoint\n.*each once"),
        ({"piece": ["b"]}, "ab is not in the checkpoint\n.*each once"),
        ({"piece": ["c"]}, "ab has another shape than the golden says"),
        ({"dtype": pb.I64}, "c has another kind of numbers than the golden says"),
    ],
)
def test_what_the_checkpoint_does_not_have_is_named(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    recording, _ = simple(tmp_path / "m", **changes)
    with pytest.raises(ParityError, match=says):
        weights_of(recording, tmp_path)


def test_a_parameter_whose_shape_nobody_states_is_as_it_is_stored(tmp_path: Path) -> None:
    recording, stored = simple(tmp_path / "m", name="d")
    np.testing.assert_array_equal(weights_of(recording, tmp_path)["c"], stored["c"])
    recording.parameters[0].name = "e"  # type: ignore[index]
    with pytest.raises(ParityError, match="does not say the shape of a parameter of several tensors"):
        weights_of(recording, tmp_path)
    recording.graph.parameter[0].MergeFrom(pb.GraphLeaf(dtype="float32", shape=[2, 2, 3]))
    assert weights_of(recording, tmp_path)["ab"].shape == (2, 2, 3)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.array([1, np.nan], "f4")}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParityError, match="a is not finite"):
        weights_of(golden({"a": torch.zeros(2)}, tmp_path, {}), tmp_path, tmp_path)
