"""Dumps in each format, made by the code of the tool whose format it is, become recordings that are judged.

It runs `dumps.safetensors_files`, too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from dumped import Tensors, arrays, imported, verdict
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.model_debugging_utils import model_addition_debugger_context

import qwen3_parity
from qwen3_golden import pb, read
from qwen3_parity import Case

TAPS = 255
"""What the hooks of `conftest` see of decoder/plain, step by step."""


def test_a_safetensors_file_of_one_forward_serves_every_step(whole: Tensors, tmp_path: Path) -> None:
    save_file(whole, dump := tmp_path / "dump.safetensors")
    verdicts = verdict(dump)
    assert (verdicts.word, verdicts.compared) == ("parity", TAPS)


def test_files_that_name_the_same_are_the_steps(steps: list[Tensors], tmp_path: Path) -> None:
    for number, tensors in enumerate(steps):  # step10 comes behind step9
        (tmp_path / "dump").mkdir(exist_ok=True)
        save_numpy(arrays(tensors), tmp_path / "dump" / f"step{number + 7}.safetensors")
    verdicts = verdict(tmp_path / "dump")
    assert (verdicts.word, verdicts.compared) == ("parity", TAPS)


def test_files_that_share_no_name_are_one_forward(whole: Tensors, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    for part in range(2):
        save_file({name: whole[name] for name in sorted(whole)[part::2]}, tmp_path / "dump" / f"{part}.safetensors")
    assert verdict(tmp_path / "dump").compared == TAPS


def test_an_npz_is_read(whole: Tensors, tmp_path: Path) -> None:
    np.savez(dump := tmp_path / "dump.npz", **arrays(whole))
    assert verdict(dump).word == "parity"


def test_a_compressed_npz_is_read(whole: Tensors, tmp_path: Path) -> None:
    np.savez_compressed(dump := tmp_path / "dump.npz", **arrays(whole))
    assert verdict(dump).word == "parity"


def test_folders_of_npy_are_the_steps(steps: list[Tensors], tmp_path: Path) -> None:
    for number, tensors in enumerate(steps):
        (tmp_path / "dump" / f"{number}").mkdir(parents=True)
        for name, array in arrays(tensors).items():
            np.save(tmp_path / "dump" / f"{number}" / f"{name}.npy", np.asfortranarray(array).astype(">f4"))
    verdicts = verdict(tmp_path / "dump")
    assert (verdicts.word, verdicts.compared) == ("parity", TAPS)


def sglang(folder: Path, tensors: Tensors, step: int, *, wrapped: bool) -> None:
    """As SGLang's dumper writes them, by its documented format: SGLang itself does not install here.

    The name is tags `key=value` between three underscores, among them name, step, rank and dump_index; the file holds
    the tensor, or since 2026 a dict of it and what is known of it.
    """
    folder.mkdir(exist_ok=True)
    for index, (name, tensor) in enumerate(tensors.items()):
        tags = {"step": step, "rank": 0, "dump_index": index + 1, "name": f"non_intrusive__{renamed(name)}"}
        value = {"value": tensor, "meta": {**tags, "dims": "b s h", "world_size": 1}} if wrapped else tensor
        torch.save(value, folder / ("___".join(f"{key}={one}" for key, one in tags.items()) + ".pt"))


def renamed(name: str) -> str:
    return f"{name.removesuffix(':input')}.inputs.0" if name.endswith(":input") else f"{name}.output"


@pytest.mark.parametrize("wrapped", [False, True])
def test_sglangs_files_are_read(wrapped: bool, steps: list[Tensors], tmp_path: Path) -> None:
    for number, tensors in enumerate(steps):
        sglang(tmp_path / "dump", tensors, number, wrapped=wrapped)
    verdicts = verdict(tmp_path / "dump")
    assert (verdicts.word, verdicts.compared) == ("parity", TAPS)


def test_the_layer_of_sglangs_own_names_is_a_key(whole: Tensors, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    for layer in range(3):
        name = f"curr_step=0___rank=0___name=mlp___dump_index={layer}___layer_id={layer}___tp_rank=0.pt"
        torch.save(whole[f"model.layers.{layer}.mlp"], tmp_path / "dump" / name)
    (tmp_path / "names.toml").write_text('"mlp___layer_id={layer}" = "down_proj"\n')
    made = imported(tmp_path / "dump", "--names", str(tmp_path / "names.toml"))
    assert "15 tensors from 3 arrays (SGLang)" in made.output, made.output


def test_transformers_debugger_is_read_also_in_the_layers_that_its_tree_leaves_out(
    model: PreTrainedModel, case: Case, tmp_path: Path
) -> None:
    with model_addition_debugger_context(model, debug_path=str(tmp_path / "dump"), use_repr=False):
        model(**case.inputs)
    verdicts = verdict(tmp_path / "dump")
    assert (verdicts.word, verdicts.compared) == ("parity", TAPS)


def test_a_tree_of_texts_asks_for_tensors(model: PreTrainedModel, case: Case, tmp_path: Path) -> None:
    with model_addition_debugger_context(model, debug_path=str(tmp_path / "dump")):
        model(**case.inputs)
    assert "use_repr=False" in imported(tmp_path / "dump").output


LLAMA_CPP = {
    "model.embed_tokens": "embd",
    "input_layernorm": "attn_norm",
    "self_attn.q_norm": "Qcur_normed",
    "self_attn.k_norm": "Kcur_normed",
    "self_attn.v_proj": "Vcur",
    "self_attn.o_proj:input": "kqv_out",
    "post_attention_layernorm:input": "ffn_inp",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj:input": "ffn_swiglu",
    "mlp.down_proj": "ffn_out",
    "model.norm": "result_norm",
    "lm_head": "result_output",
}


def test_llama_cpps_names_come_as_a_ready_map(whole: Tensors, tmp_path: Path) -> None:
    """By its names and its layout, without a batch: llama.cpp writes no files of its own."""
    tensors = {}
    for name, value in whole.items():
        _, layered, rest = name.partition(".layers.")
        layer, _, end = rest.partition(".")
        theirs = LLAMA_CPP.get(end if layered else name) or ("l_out" if layer.isdecimal() and not end else "")
        if theirs:
            tensors[f"{theirs}-{layer}" if layer else theirs] = value[0].contiguous()
    save_file(tensors, dump := tmp_path / "dump.safetensors")
    verdicts = verdict(dump, "--names", "llama.cpp")
    assert verdicts.word == "parity" and verdicts.compared == 5 * len(tensors) == 195


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_model_in_bfloat16_is_read_as_one(ending: str, tmp_path: Path) -> None:
    case = qwen3_parity.golden("llama/bfloat16")
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        logits = model(**case.inputs).logits
    if ending == "npz":  # as ml_dtypes' bfloat16 is saved
        np.savez(tmp_path / "dump.npz", logits=logits.view(torch.int16).numpy().view("V2"))
    else:
        save_file({"logits": logits}, tmp_path / "dump.safetensors")
    made = imported(tmp_path / f"dump.{ending}", golden="llama/bfloat16")
    assert made.exit_code == 0, made.output
    recording = read(tmp_path / "candidate.pb")
    assert recording.run.arithmetic == pb.ARITHMETIC_BF16 and recording["logits", 0].info.dtype == pb.BF16
    assert qwen3_parity.check(case, tmp_path / "candidate.pb").word == "parity"
