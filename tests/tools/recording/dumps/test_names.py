"""What the names of a dump mean, which forward is which step, and what is said of what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from dumped import Tensors, arrays, hooked, imported, verdict
from plain_qwen3 import PlainQwen3
from safetensors.torch import save_file
from test_wire_models import PLAIN
from transformers import AutoModelForCausalLM, PreTrainedModel

import qwen3_parity
from qwen3_golden import ParityError, pb, read
from qwen3_parity import Case
from qwen3_parity.recording.dumps.import_dump import import_dump


@pytest.fixture(scope="module")
def plain(case: Case) -> Tensors:
    """A model of its own names, fused products and positions first."""
    model = PlainQwen3(case.checkpoint)
    (forward,) = hooked(model, lambda: model(case.inputs["input_ids"]))
    return forward


def saved(tensors: Tensors, path: Path) -> Path:
    save_file({name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}, path)
    return path


def test_a_name_map_says_what_own_names_are_also_fused_ones(plain: Tensors, case: Case, tmp_path: Path) -> None:
    made = import_dump(saved(plain, tmp_path / "d.safetensors"), case, PLAIN, tmp_path / "x.pb")
    verdicts = qwen3_parity.check(case, made.path)
    assert (verdicts.word, verdicts.compared) == ("partial", 5 * (2 + 3 * 15)) and not verdicts.problems
    assert "decoder.layers.{layer}.mlp.gate_proj" in read(made.path).run.materialised
    assert {"blocks.{layer}.mix", "blocks.{layer}.ffn", "blocks.{layer}.mix:input"} <= made.unmatched.keys()


def test_a_map_as_toml_means_the_same(plain: Tensors, tmp_path: Path) -> None:
    lines = (f'"{name}" = {taps!r}'.replace("'", '"') for name, taps in PLAIN.items())
    (tmp_path / "names.toml").write_text("\n".join(lines))
    made = imported(saved(plain, tmp_path / "d.safetensors"), "--names", str(tmp_path / "names.toml"))
    assert made.exit_code == 0 and "235 tensors" in made.output, made.output


def test_a_mistake_in_a_dump_is_named(case: Case, tmp_path: Path) -> None:
    model = PlainQwen3(case.checkpoint)
    model.blocks[1].ffn.forward = lambda x: model.blocks[1].ffn.w2(  # type: ignore[method-assign]
        torch.nn.functional.gelu(model.blocks[1].ffn.w13(x).chunk(2, -1)[0])
        * model.blocks[1].ffn.w13(x).chunk(2, -1)[1]
    )
    (forward,) = hooked(model, lambda: model(case.inputs["input_ids"]))
    import_dump(saved(forward, tmp_path / "d.safetensors"), case, PLAIN, tmp_path / "x.pb")
    (fault,) = qwen3_parity.diagnose(case, tmp_path / "x.pb").faults
    assert fault.fault.place.endswith("mlp.act") and fault.name == "mlp.activation"


def test_names_of_taps_need_no_map_long_or_short(whole: Tensors, tmp_path: Path) -> None:
    some = {
        "decoder.layers.1.merged_attn.q_proj": whole["model.layers.1.self_attn.q_proj"],
        "layers.0.q_proj": whole["model.layers.0.self_attn.q_proj"],
        "logits": whole["lm_head"],
    }
    verdicts = verdict(saved(some, tmp_path / "d.safetensors"))
    assert {tap.name for tap in verdicts.taps if tap.compared} == {
        *(f"decoder.layers.{layer}.merged_attn.q_proj" for layer in (0, 1)),
        "logits",
    }


def test_a_number_in_front_is_the_forward(steps: list[Tensors], case: Case, tmp_path: Path) -> None:
    named = {f"{step}.{name}": value for step, one in enumerate(steps) for name, value in arrays(one).items()}
    named |= {f"{step}.input_ids": inputs["input_ids"].numpy() for step, inputs in enumerate(case.steps)}
    np.savez(tmp_path / "d.npz", **named)
    verdicts = verdict(tmp_path / "d.npz")
    assert (verdicts.word, verdicts.compared) == ("parity", 255)


def test_a_model_without_a_cache_dumps_its_row_again_at_each_step(
    model: PreTrainedModel, case: Case, tmp_path: Path
) -> None:
    (tmp_path / "dump").mkdir()
    for stop in (5, 6, 7, 8, 9):
        (forward,) = hooked(model, lambda stop=stop: model(case.inputs["input_ids"][:, :stop]))  # type: ignore[misc]
        saved(forward, tmp_path / "dump" / f"{stop}.safetensors")
    verdicts = verdict(tmp_path / "dump")
    assert (verdicts.word, verdicts.compared) == ("parity", 255)


def test_a_dump_that_ends_before_the_case_is_refused(steps: list[Tensors], tmp_path: Path) -> None:
    made = imported(saved(steps[0], tmp_path / "d.safetensors"))
    assert made.exit_code == 2 and "1 forwards, 5 slots" in made.output and not (tmp_path / "candidate.pb").exists()


def test_one_forward_more_than_the_case_has_is_refused(steps: list[Tensors], tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    for number, one in enumerate([*steps, steps[-1]]):
        saved(one, tmp_path / "dump" / f"{number}.safetensors")
    made = imported(tmp_path / "dump")
    assert made.exit_code == 2 and "one more forward" in made.output


def test_rows_of_a_batch_are_kept_apart(tmp_path: Path) -> None:
    case = qwen3_parity.golden("decoder/ragged_decode")

    other = AutoModelForCausalLM.from_pretrained(
        case.checkpoint, attn_implementation="eager", dtype=torch.float32
    ).eval()
    with torch.no_grad():
        (forward,) = hooked(other, lambda: other(**case.inputs))
    assert verdict(saved(forward, tmp_path / "d.safetensors"), golden="decoder/ragged_decode").word == "parity"


def test_what_means_no_tap_is_listed_with_the_nearest(whole: Tensors, tmp_path: Path) -> None:
    some = {
        "logits": whole["lm_head"],
        "h.0.attn.q_projj": whole["lm_head"],
        "h.1.attn.q_projj": whole["lm_head"],
        "zzz": whole["lm_head"],
    }
    output = imported(saved(some, tmp_path / "d.safetensors")).output
    assert "names that mean no tap: 2" in output and "  h.{layer}.attn.q_projj: like q_proj" in output
    assert "  zzz: like no tap" in output
    assert "taps without a tensor" in output and "  decoder.layers.{layer}.input\n" in output


def test_another_shape_is_listed_with_both(whole: Tensors, tmp_path: Path) -> None:
    some = {"logits": whole["lm_head"], "model.norm": whole["model.norm"][..., :-1]}
    output = imported(saved(some, tmp_path / "d.safetensors")).output
    assert "another shape: 1" in output and "model.norm: [1, 9, 39], expected norm [1, 9, 40]" in output


def test_no_shape_that_fits_is_an_error(whole: Tensors, tmp_path: Path) -> None:
    made = imported(saved({"model.norm": whole["model.norm"][..., :-1]}, tmp_path / "d.safetensors"))
    assert made.exit_code == 2 and "no array has the shape of its tap" in made.output


def test_no_name_that_means_a_tap_is_an_error(whole: Tensors, tmp_path: Path) -> None:
    made = imported(saved({"foo.3.k_nrm": whole["lm_head"]}, tmp_path / "d.safetensors"))
    assert made.exit_code == 2 and "foo.{layer}.k_nrm (like k_norm)" in made.output and "--names" in made.output


def test_two_arrays_that_are_one_tap_and_differ_are_refused(whole: Tensors, tmp_path: Path) -> None:
    some = {"logits": whole["lm_head"], "lm_head": whole["lm_head"]}
    assert imported(saved(some, tmp_path / "d.safetensors")).exit_code == 0
    some["lm_head"] = whole["lm_head"] + 1
    made = imported(saved(some, tmp_path / "d.safetensors"))
    assert made.exit_code == 2 and "which differ" in made.output and "lm_head" in made.output


@pytest.mark.parametrize("name", ["input_ids", "model.embed_tokens:input", "input.decoder_input_ids"])
def test_a_dump_of_other_inputs_is_refused(name: str, whole: Tensors, case: Case, tmp_path: Path) -> None:
    ids = case.inputs["input_ids"].clone()
    some = {"logits": whole["lm_head"], name: ids}
    assert imported(saved(some, tmp_path / "d.safetensors")).exit_code == 0
    some[name] = ids + (torch.arange(9) == 4)
    made = imported(saved(some, tmp_path / "d.safetensors"))
    assert made.exit_code == 2 and "is another than that of decoder/plain" in made.output


def test_heads_and_positions_of_one_length_are_told_apart_by_the_map(model: PreTrainedModel, tmp_path: Path) -> None:
    """Six heads and six positions: the shape alone would let either come first."""
    case = qwen3_parity.golden("decoder/plain")
    (tmp_path / "dump").mkdir()
    for stop in (6, 9):
        (forward,) = hooked(model, lambda stop=stop: model(case.inputs["input_ids"][:, :stop]))  # type: ignore[misc]
        q = {f"q{layer}": forward[f"model.layers.{layer}.self_attn.q_norm"].transpose(1, 2) for layer in range(3)}
        saved({**q, "logits": forward["lm_head"]}, tmp_path / "dump" / f"{stop}.safetensors")
    names = {"q{layer}": "q_norm", "logits": "logits"}
    with pytest.raises(ParityError, match="say its axes in the name map"):
        import_dump(tmp_path / "dump", case, names, tmp_path / "x.pb")
    with_axes = names | {"q{layer}": {"tap": "q_norm", "axes": "batch heads query head_dim"}}
    import_dump(tmp_path / "dump", case, with_axes, tmp_path / "x.pb")
    assert qwen3_parity.check(case, tmp_path / "x.pb").word == "parity"


def test_the_dump_says_that_it_is_one(whole: Tensors, case: Case, tmp_path: Path) -> None:
    import_dump(saved(whole, tmp_path / "d.safetensors"), case, path=tmp_path / "x.pb")
    recording = read(tmp_path / "x.pb", digests=True)
    assert recording.provenance.producer == "safetensors dump"
    assert recording.run.arithmetic == pb.ARITHMETIC_F32 and recording.run.backend == pb.FOREIGN
    assert np.array_equal(
        recording["input.decoder_input_ids", 0].array, case.golden["input.decoder_input_ids", 0].array
    )


def test_a_dump_is_of_the_arithmetic_that_most_of_it_is_stored_in(whole: Tensors, case: Case, tmp_path: Path) -> None:
    some = {f"model.layers.{n}.mlp.down_proj": whole[f"model.layers.{n}.mlp.down_proj"].bfloat16() for n in range(3)}
    import_dump(saved(some | {"logits": whole["lm_head"]}, tmp_path / "d.safetensors"), case, path=tmp_path / "x.pb")
    assert read(tmp_path / "x.pb").run.arithmetic == pb.ARITHMETIC_BF16


def test_a_case_of_several_stacks_has_no_dump(whole: Tensors, tmp_path: Path) -> None:
    made = imported(saved(whole, tmp_path / "d.safetensors"), golden="encdec/ragged")
    assert made.exit_code == 2 and "a dump is of one stack of layers" in made.output


def test_a_map_says_all_that_is_taken(whole: Tensors, case: Case, tmp_path: Path) -> None:
    names = {"model.layers.{layer}": "down_proj", "lm_head": "logits"}
    made = import_dump(saved(whole, tmp_path / "d.safetensors"), case, names, tmp_path / "x.pb")
    taken = {pattern.rpartition(".")[2] for pattern in read(made.path).run.materialised if "input." not in pattern}
    assert taken == {"down_proj", "logits"}
    assert "model.layers.{layer}.self_attn.q_proj" in made.unmatched


def test_a_map_that_leaves_names_out_leaves_the_others_as_they_are(whole: Tensors, case: Case, tmp_path: Path) -> None:
    path = saved(whole, tmp_path / "d.safetensors")
    without = {"model.layers.{layer}": "", "model.layers.{layer}.post_attention_layernorm:input": ""}
    import_dump(path, case, None, tmp_path / "all.pb")
    made = import_dump(path, case, without, tmp_path / "x.pb")
    every, some = ({item.info.name for item in read(tmp_path / name)} for name in ("all.pb", "x.pb"))
    left = {name.rpartition(".")[2] for name in every - some}
    assert left == {"output", "attn_residual"} and not some - every
    assert not made.unmatched.keys() & {"model.layers.{layer}", "model.layers.{layer}.post_attention_layernorm:input"}
    assert qwen3_parity.check(case, made.path).word == "parity"


def test_logits_of_the_last_position_alone_are_those_of_the_last_step(
    whole: Tensors, case: Case, tmp_path: Path
) -> None:
    some = whole | {"lm_head": whole["lm_head"][:, -1]}
    made = import_dump(saved(some, tmp_path / "d.safetensors"), case, None, tmp_path / "x.pb")
    verdicts = qwen3_parity.check(case, made.path)
    assert not made.misfits and verdicts.word == "partial" and not verdicts.problems
    assert verdicts.no_results == [f"logits (step {step})" for step in range(4)]


def vllms(whole: Tensors) -> Tensors:
    """The tensors as vLLM's modules have them: tokens in a row, fused products, a layer that adds in the next norm."""
    found = {name: value for name, value in whole.items() if "q_proj" not in name and "gate_proj" not in name}
    for layer in range(3):
        path = f"model.layers.{layer}"
        attention, mlp, norm = f"{path}.self_attn", f"{path}.mlp", f"{path}.post_attention_layernorm"
        for fused, parts in (
            (f"{attention}.qkv_proj", [f"{attention}.{one}_proj" for one in "qkv"]),
            (f"{mlp}.gate_up_proj", [f"{mlp}.gate_proj", f"{mlp}.up_proj"]),
        ):
            found[fused] = torch.cat([whole[one] for one in parts], -1)
            found = {name: value for name, value in found.items() if name.partition(":")[0] not in parts}
        stream = whole[f"{norm}:input"]
        found |= {path: whole[f"{mlp}.down_proj"], f"{path}:output.1": stream, f"{norm}:output.1": stream}
        found[f"{norm}:input"] = whole[f"{attention}.o_proj"]
        found.pop(f"{path}:input", None)
    found["lm_head"] = whole["lm_head"][:, -1]  # what it generates from
    return {name: value.flatten(0, 1) if value.ndim > 2 else value for name, value in found.items()}


VLLM = {
    "model.embed_tokens": "embed_tokens",
    "model.layers.{layer}.input_layernorm": "input_layernorm",
    "model.layers.{layer}.self_attn.qkv_proj": ["q_proj", "k_proj", "v_proj"],
    "model.layers.{layer}.self_attn.o_proj": "o_proj",
    "model.layers.{layer}.post_attention_layernorm": "post_attention_layernorm",
    "model.layers.{layer}.post_attention_layernorm:output.1": "attn_residual",
    "model.layers.{layer}.mlp.gate_up_proj": ["gate_proj", "up_proj"],
    "model.layers.{layer}": "down_proj",
    "model.norm": "norm",
    "lm_head": "logits",
}


@pytest.mark.parametrize("names", [None, VLLM], ids=["by their names", "by a map"])
def test_a_dump_of_vllms_layers_is_partial_and_says_what_its_layers_give(
    names: dict[str, str | list[str]] | None, whole: Tensors, case: Case, tmp_path: Path
) -> None:
    made = import_dump(saved(vllms(whole), tmp_path / "d.safetensors"), case, names, tmp_path / "x.pb")
    found = qwen3_parity.diagnose(case, made.path)
    assert found.verdicts.word == "partial" and not found.verdicts.problems and not found.faults
    assert any("dual residual stream" in note for note in found.verdicts.notes) == (names is None)
    assert {one.rpartition(" (")[0] for one in found.verdicts.no_results} == {"logits"}
    taken = {item.info.name for item in read(made.path)}
    assert ("decoder.layers.1.merged_attn.q_proj" in taken) == (names is not None)
