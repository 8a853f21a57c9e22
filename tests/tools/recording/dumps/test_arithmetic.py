"""In which arithmetic the model ran that a dump is of, where a tool has saved its numbers as float32."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from dumped import Tensors, hooked, imported
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import pb, read
from qwen3_parity import Case

CASE = "llama/bfloat16"


@pytest.fixture(scope="module")
def narrow() -> Case:
    return qwen3_parity.golden(CASE)


@pytest.fixture(scope="module")
def tensors(narrow: Case) -> Tensors:
    """Hugging Face's model in bfloat16, every tensor as float32."""
    model = AutoModelForCausalLM.from_pretrained(narrow.checkpoint, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        (forward,) = hooked(model, lambda: model(**narrow.inputs))
    return {name: value.float() for name, value in forward.items()}


def arithmetic(tensors: Tensors, folder: Path, *options: str, golden: str = CASE) -> tuple[int, str]:
    """What the recording of a dump says, and what the command does."""
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "d.safetensors")
    result = imported(folder / "d.safetensors", *options, golden=golden)
    assert result.exit_code == 0, result.output
    return read(folder / "candidate.pb").run.arithmetic, result.output


def test_bfloat16_that_was_saved_as_float32_is_recognised(tensors: Tensors, tmp_path: Path) -> None:
    said, words = arithmetic(tensors, tmp_path)
    assert said == pb.ARITHMETIC_BF16 and "stored as float32, all of them numbers of bfloat16" in words
    assert {item.info.dtype for item in read(tmp_path / "candidate.pb") if item.is_float} == {pb.F32}


def test_float16_is_told_apart_from_bfloat16(tensors: Tensors, tmp_path: Path) -> None:
    assert arithmetic({n: v.half().float() for n, v in tensors.items()}, tmp_path)[0] == pb.ARITHMETIC_BF16
    halves = {name: (value * 1.001).half().float() for name, value in tensors.items()}
    said, words = arithmetic(halves, tmp_path)
    assert said == pb.ARITHMETIC_F16 and "numbers of float16" in words


def test_a_number_that_is_no_bfloat16_is_enough_for_float32(tensors: Tensors, tmp_path: Path) -> None:
    name = "model.layers.1.mlp.down_proj"
    altered = tensors[name].clone()
    altered[0, 0, 0] = 1 + 2.0**-20
    said, words = arithmetic(tensors | {name: altered}, tmp_path)
    assert said == pb.ARITHMETIC_F32 and "numbers of" not in words


@pytest.mark.parametrize("how", ["bfloat16", "float32", "float16", "other"])
def test_it_can_be_said(how: str, tensors: Tensors, tmp_path: Path) -> None:
    said, words = arithmetic(tensors, tmp_path, "--arithmetic", how)
    codes = {"bfloat16": pb.ARITHMETIC_BF16, "float32": pb.ARITHMETIC_F32, "float16": pb.ARITHMETIC_F16}
    assert said == codes.get(how, pb.ARITHMETIC_OTHER) and "numbers of" not in words


def test_copies_of_a_checkpoint_in_bfloat16_say_nothing(tensors: Tensors, tmp_path: Path) -> None:
    assert arithmetic({"embed_tokens": tensors["model.embed_tokens"]}, tmp_path)[0] == pb.ARITHMETIC_F32


def test_scripts_are_told(tensors: Tensors, tmp_path: Path) -> None:
    assert json.loads(arithmetic(tensors, tmp_path, "--json")[1])["recognised"] == "bfloat16"
    assert json.loads(arithmetic(tensors, tmp_path, "--arithmetic", "bfloat16", "--json")[1])["recognised"] is None


def test_numbers_that_are_filled_in_by_name_are_recognised_too(tensors: Tensors, tmp_path: Path) -> None:
    case = qwen3_parity.golden("llama/ragged_decode")
    shape = case.golden["decoder.layers.0.mlp.down_proj", 0].array.shape[0], sum(case.lengths), 40
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for name, array in (("wide", numbers), ("narrow", torch.from_numpy(numbers).bfloat16().float().numpy())):
        with qwen3_parity.record(None, case, path=tmp_path / f"{name}.pb") as recording:
            recording["layers.0.mlp.down_proj", :] = array[..., : case.golden.case.config.hidden_size]
    assert read(tmp_path / "wide.pb").run.arithmetic == pb.ARITHMETIC_F32
    assert read(tmp_path / "narrow.pb").run.arithmetic == pb.ARITHMETIC_BF16


@pytest.mark.parametrize("wide, expected", [(1, pb.ARITHMETIC_F16), (3, pb.ARITHMETIC_F32)])
def test_arrays_of_half_precision_say_it_where_most_are(wide: int, expected: int, tmp_path: Path) -> None:
    """A model in half precision has a few taps in float32."""
    case = qwen3_parity.golden("llama/ragged_decode")
    names = ["input_layernorm", "self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"]
    with qwen3_parity.record(None, case, path=tmp_path / "x.pb") as recording:
        for number, name in enumerate(names):
            golden = case.golden[f"decoder.layers.0.{name.replace('self_attn', 'merged_attn')}", 0].array
            recording[f"layers.0.{name}"] = golden if number < wide else golden.astype(np.float16)
    assert read(tmp_path / "x.pb").run.arithmetic == expected
