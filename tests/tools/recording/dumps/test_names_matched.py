"""`match-names` of a dump: its numbers say which array is which tap, and the map that comes of it imports it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from dumped import Tensors, arrays, hooked, verdict
from plain_qwen3 import PlainQwen3
from safetensors.torch import save_file

from qwen3_parity import Case
from qwen3_parity.cli import main

Arrays = dict[str, np.ndarray]


def matched(dump: Path, *options: str, golden: str = "decoder/plain") -> Result:
    out = str(dump.parent / "names.toml")
    return CliRunner().invoke(main, ["match-names", golden, str(dump), "--out", out, *options])


def by_tap(case: Case) -> Arrays:
    """Every float tap with positions of the golden, over all slots in one forward."""
    out: Arrays = {}
    for item in case.golden:
        axes = list(item.info.axes)
        if item.is_float and "query" in axes and "key" not in axes and item.info.op not in ("cos", "sin"):
            before = [out[item.info.name]] if item.info.name in out else []
            out[item.info.name] = np.concatenate([*before, item.array], axis=axes.index("query"))
    return out


WORDS = "abcdefghijklmnopqrstuvwxyz"


def disguised(name: str, style: str) -> str:
    """A name that says nothing but the layer."""
    head, _, tail = name.rpartition(".")
    word = "".join(WORDS[(WORDS.index(letter) + 7) % 26] if letter in WORDS else letter for letter in tail)
    layer = next((part for part in head.split(".") if part.isdecimal()), "")
    return style.format(word=word, layer=layer) if layer else word


@pytest.mark.parametrize("style", ["blk.{layer}.{word}", "{word}-{layer}", "name={word}_layer_{layer}_of_3_f32"])
def test_names_that_say_nothing_are_found_by_their_numbers(style: str, case: Case, tmp_path: Path) -> None:
    named = {disguised(name, style): array for name, array in by_tap(case).items()}
    np.savez(tmp_path / "dump.npz", allow_pickle=False, **named)
    done = matched(tmp_path / "dump.npz", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert {entry["sure"] for entry in said["names"]} == {"certain"}
    taps = {tap.rpartition(".")[2]: entry["module"] for entry in said["names"] for tap in entry["taps"]}
    assert taps["q_rope"] == disguised("layers.0.q_rope", style).replace("0", "{layer}")
    assert {name.rpartition(".")[2] for name in said["missing"]} == {"scores", "probs"}  # each step sees more keys
    verdicts = verdict(tmp_path / "dump.npz", "--names", str(tmp_path / "names.toml"))
    assert verdicts.exit_code == 0 and verdicts.compared > 200


def test_the_prefill_alone_and_fused_products_are_found_too(case: Case, tmp_path: Path) -> None:
    model, forwards = PlainQwen3(case.checkpoint), list[Tensors]()
    first = case.lengths[0]
    ids = case.inputs["input_ids"]
    forwards += hooked(model, lambda: model(ids[:, :first]))
    save_file({name: tensor.contiguous() for name, tensor in forwards[0].items()}, tmp_path / "dump.safetensors")
    said = json.loads(matched(tmp_path / "dump.safetensors", "--json").stdout)
    taps = {tuple(tap.rpartition(".")[2] for tap in entry["taps"]): entry["module"] for entry in said["names"]}
    assert taps["q_proj", "k_proj", "v_proj"] == "blocks.{layer}.mix.wqkv"
    assert taps["gate_proj", "up_proj"] == "blocks.{layer}.ffn.w13"


def test_a_map_of_all_slots_imports_a_model_with_names_of_its_own(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint)
    (forward,) = hooked(model, lambda: model(case.inputs["input_ids"]))
    save_file({name: tensor.contiguous() for name, tensor in forward.items()}, tmp_path / "dump.safetensors")
    done = matched(tmp_path / "dump.safetensors")
    assert done.exit_code == 0 and "next: qwen3-parity dump import decoder/plain" in done.stdout, done.output
    verdicts = verdict(tmp_path / "dump.safetensors", "--names", str(tmp_path / "names.toml"))
    assert not verdicts.problems and verdicts.compared > 100


def test_numbers_in_front_are_forwards_and_the_first_is_looked_at(steps: list[Tensors], tmp_path: Path) -> None:
    named = {f"{step}.x.{name}": array for step, forward in enumerate(steps) for name, array in arrays(forward).items()}
    np.savez(tmp_path / "dump.npz", allow_pickle=False, **named)
    said = json.loads(matched(tmp_path / "dump.npz", "--json").stdout)
    taps = {entry["module"]: [tap.rpartition(".")[2] for tap in entry["taps"]] for entry in said["names"]}
    assert taps["x.model.layers.{layer}.self_attn.q_proj"] == ["q_proj"] and taps["x.lm_head"] == ["logits"]


def test_behind_a_mistake_no_array_is_taken_for_a_tap(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint, interleaved=True)
    (forward,) = hooked(model, lambda: model(case.inputs["input_ids"]))
    save_file({name: tensor.contiguous() for name, tensor in forward.items()}, tmp_path / "dump.safetensors")
    said = json.loads(matched(tmp_path / "dump.safetensors", "--json").stdout)
    taps = {tap.rpartition(".")[2]: entry["sure"] for entry in said["names"] for tap in entry["taps"]}
    assert taps["q_norm"] == "sure" and taps["embed_tokens"] == "certain"  # right in the first layer
    assert {"o_proj", "down_proj", "norm"} <= {name.rpartition(".")[2] for name in said["missing"]}


def test_a_dump_of_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "dump.npz", allow_pickle=False, a=np.ones((3, 3), np.float32))
    for options in ({}, {"golden": "encdec/ragged"}):
        done = matched(tmp_path / "dump.npz", **options)
        assert done.exit_code == 2 and not (tmp_path / "names.toml").exists()
