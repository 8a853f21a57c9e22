"""A torch model's parameters are recorded by the taps that they make; others than the checkpoint's are said.

It runs `recording.held`, `mistakes.as_loaded` and `diagnosis.as_held`, too.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_qwen3 import PlainQwen3
from test_wire_models import PLAIN
from torch import nn
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read, tensor
from qwen3_parity import Case
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.recording import held as held_module
from qwen3_parity.recording.parameters import bias_of, may_have_bias

BFLOAT16 = "llama/bfloat16"


def hugging_face(case: Case, dtype: torch.dtype = torch.bfloat16) -> Any:
    return AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=dtype).eval().requires_grad_(False)


def recorded(model: nn.Module, case: Case, path: Path, **more: Any) -> Recording:
    with qwen3_parity.record(model, case, path=path, **more) as recording:
        if isinstance(model, PlainQwen3):
            model(case.inputs["input_ids"])
        else:
            model(**case.inputs)
    return read(recording.path)


def digests(recording: Recording) -> dict[str, bytes]:
    return {parameter.name: parameter.sha256 for parameter in recording.parameters if parameter.sha256}


@pytest.fixture
def case() -> Case:
    return qwen3_parity.golden(BFLOAT16)


@pytest.fixture
def plain() -> Case:
    return qwen3_parity.golden("decoder/plain")


def rounded(model: Any, bits: int) -> set[str]:
    """Round each row of the projections to so many bits, in place; their names."""
    projections = {name: weight for name, weight in model.named_parameters() if "_proj" in name}
    for weight in projections.values():
        scale = weight.float().abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
        weight.copy_((weight.float() / scale).round() * scale)
    return set(projections)


@pytest.mark.parametrize(("bits", "by_taps"), [(8, "parity"), pytest.param(6, "divergence", marks=pytest.mark.slow)])
def test_rounded_weights_under_bfloat16_are_said(bits: int, by_taps: str, case: Case, tmp_path: Path) -> None:
    """What bfloat16 resolves: by taps alone int8 is within its noise, six bits are not."""
    model = hugging_face(case)
    count = len(rounded(model, bits))
    recording = recorded(model, case, tmp_path / "rounded.pb")
    weights = weights_of(case.golden, GOLDEN_ROOT / "checkpoints")
    assert check(case.golden, replace(recording, parameters=()), weights).word == by_taps
    diagnosis = diagnose(case.golden, recording, weights, work=0)
    assert diagnosis.verdicts.exit_code == 1 and f"{count} × other bytes" in diagnosis.verdicts.problems[0].got
    assert {fault.name for fault in diagnosis.parameters} == {name for name in digests(recording) if "_proj" in name}
    assert all(fault.says.startswith("holds values of no tensor of the checkpoint") for fault in diagnosis.parameters)


def held(recording: Recording) -> dict[str, Any]:
    names = (item.info.name for item in recording)
    return {name.removeprefix("parameter."): recording[name, 0] for name in names if name.startswith("parameter.")}


def test_other_numbers_than_the_checkpoints_are_recorded_and_are_no_taps(plain: Case, tmp_path: Path) -> None:
    model = hugging_face(plain, torch.float32)
    weight = model.model.layers[1].mlp.down_proj.weight
    weight.mul_(1.5)
    recording = recorded(model, plain, tmp_path / "other.pb", taps=["logits"])
    assert set(held(recording)) == {name := "decoder.layers.1.mlp.down_proj.weight"}
    assert held(recording)[name].array.tobytes() == weight.numpy().tobytes()
    verdicts = check(plain.golden, recording)
    assert verdicts.exit_code == 1 and not [x for x in verdicts.problems if "extra" in x.rule or "declared" in x.rule]
    unknown = tensor("parameter.of_nobody", weight.numpy())
    rules = [x.rule for x in check(plain.golden, replace(recording, tensors=[*recording, unknown])).problems]
    assert "extra tap: no such name" in rules


def test_of_a_large_parameter_the_first_rows_are_recorded(
    plain: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_module, "_MOST", 4 * 40 * 3)
    model = hugging_face(plain, torch.float32)
    for layer in model.model.layers:
        layer.mlp.gate_proj.weight.mul_(1.5)
    numbers = held(recorded(model, plain, tmp_path / "rows.pb", taps=["logits"]))
    assert {item.array.shape for item in numbers.values()} == {(3, 40)}
    monkeypatch.setattr(held_module, "_MOST_OF_ALL", 4 * 40 * 5)
    assert len(held(recorded(model, plain, tmp_path / "fewer.pb", taps=["logits"]))) == 1


def test_by_the_logits_alone_it_is_said_what_a_weight_is_that_was_loaded(plain: Case, tmp_path: Path) -> None:
    """Numbers in blocks whose scales are the row's before: no tap is near them."""
    model = hugging_face(plain, torch.float32)
    weight = model.model.layers[1].mlp.down_proj.weight
    blocks = weight.reshape(40, 7, 10)
    scale = blocks.abs().amax(-1, keepdim=True) / 7
    weight.copy_(((blocks / scale).round() * scale.roll(1, 0)).reshape(40, 70))
    recording = recorded(model, plain, tmp_path / "scales.pb", taps=["logits"])
    weights = weights_of(plain.golden, GOLDEN_ROOT / "checkpoints")
    diagnosis = diagnose(plain.golden, recording, weights, work=5e8)
    (fault,), (parameter,) = diagnosis.faults, diagnosis.parameters  # no other place is looked at
    assert not fault.stopped
    assert fault.name == "structure.block_scaled" and fault.explanations[0].place.endswith("mlp.down_proj")
    says = fault.explanations[0].says
    assert says.startswith(
        "computes with what was loaded as down_proj, which is not the checkpoint's there. down_proj: "
    )
    assert "integers of 4 bits, a scale for each 10 numbers of a row, and each block is multiplied" in says
    assert parameter.says.startswith("holds values of no tensor of the checkpoint: its weight is in integers of 4 bits")
    unsaid = [item for item in recording if not item.info.name.startswith("parameter.")]
    (fault,) = diagnose(plain.golden, replace(recording, tensors=unsaid), weights, work=3e7).faults
    assert fault.name not in ("structure.block_scaled", "weight.as_loaded")


@pytest.mark.parametrize("name", [BFLOAT16, "decoder/plain", "llama/ragged_decode"])
def test_hugging_faces_parameters_are_the_goldens(name: str, tmp_path: Path) -> None:
    case = qwen3_parity.golden(name)
    model = hugging_face(case, torch.bfloat16 if name == BFLOAT16 else torch.float32)
    recording = recorded(model, case, tmp_path / "hf.pb", taps=["logits"])  # whatever taps are asked for
    assert digests(recording) == digests(case.golden) and qwen3_parity.check(case, tmp_path / "hf.pb").exit_code == 0


def test_a_compiled_models_parameters_are_seen(case: Case, tmp_path: Path) -> None:
    model: Any = torch.compile(hugging_face(case), backend="eager")
    assert digests(recorded(model, case, tmp_path / "compiled.pb", taps=["logits"])) == digests(case.golden)
    torch.compiler.reset()


def test_own_names_and_fused_products_are_the_checkpoints_parameters(plain: Case, tmp_path: Path) -> None:
    recording = recorded(PlainQwen3(plain.checkpoint), plain, tmp_path / "plain.pb", names=PLAIN)
    stored = digests(plain.golden)
    assert stored.pop("lm_head.weight") == stored["decoder.embed_tokens.weight"]  # used by a function, without a module
    assert digests(recording) == stored


def test_what_a_map_does_not_name_is_not_missing(plain: Case, tmp_path: Path) -> None:
    names = {"wte": "embed_tokens"}
    recording = recorded(PlainQwen3(plain.checkpoint), plain, tmp_path / "few.pb", names=names)
    assert set(digests(recording)) == {"decoder.embed_tokens.weight"}
    assert len(recording.parameters) == len(plain.golden.parameters)  # the others are listed as not seen
    assert qwen3_parity.check(plain, tmp_path / "few.pb").word == "parity"


def test_a_wrong_part_of_a_fused_product_is_found(plain: Case, tmp_path: Path) -> None:
    model = PlainQwen3(plain.checkpoint)
    fused: Any = model.blocks[1].get_submodule("mix.wqkv")
    q, k, v = fused.weight.split([60, 20, 20])
    fused.weight = nn.Parameter(torch.cat([q, v, k]), requires_grad=False)
    recorded(model, plain, tmp_path / "wrong.pb", names=PLAIN)
    faults = qwen3_parity.diagnose(plain, tmp_path / "wrong.pb").parameters
    begin = "decoder.layers.1.merged_attn"
    assert {fault.name: fault.says for fault in faults} == {
        f"{begin}.k_proj.weight": f"holds the values of {begin}.v_proj.weight",
        f"{begin}.v_proj.weight": f"holds the values of {begin}.k_proj.weight",
    }


class Transposed(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.kernel = nn.Parameter(linear.weight.T.contiguous(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.kernel


def test_a_weight_that_is_stored_the_other_way_round_is_the_same(plain: Case, tmp_path: Path) -> None:
    model = PlainQwen3(plain.checkpoint)
    for block in model.blocks:
        mix: Any = block.get_submodule("mix")
        mix.wo, mix.wqkv = Transposed(mix.wo), Transposed(mix.wqkv)
    ours = digests(recorded(model, plain, tmp_path / "kernel.pb", names=PLAIN))
    assert len(ours) == 35 and ours.items() <= digests(plain.golden).items()


class Float32Norm(nn.Module):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight, self.norm = nn.Parameter(norm.weight.float(), requires_grad=False), norm

    def forward(self, x: torch.Tensor) -> Any:
        return self.norm(x)


def test_a_wider_type_that_holds_nothing_more_is_the_same(case: Case, tmp_path: Path) -> None:
    model = hugging_face(case)
    model.model.norm = Float32Norm(model.model.norm)
    recording = recorded(model, case, tmp_path / "wide.pb")
    assert digests(recording) == digests(case.golden)
    assert {parameter.dtype for parameter in recording.parameters} == {pb.BF16}


class OwnNames(nn.Module):
    """A linear layer whose parameters are called otherwise than torch's."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.w, self.b = linear.weight, linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.w, self.b)


def test_a_bias_of_another_name_is_the_goldens(tmp_path: Path) -> None:
    """It had never been loaded."""
    case = qwen3_parity.golden("model/gpt_oss")
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, attn_implementation="eager").eval()
    for layer in model.model.layers:
        layer.self_attn.o_proj = OwnNames(layer.self_attn.o_proj)
    with torch.no_grad():
        recording = recorded(model, case, tmp_path / "x.pb")
    expected = {item.name: item.sha256 for item in case.golden.parameters if "o_proj" in item.name}
    assert {name for name in expected if name.endswith("bias")}
    assert {name: digest for name, digest in digests(recording).items() if "o_proj" in name} == expected


def test_a_norms_only_vector_is_no_bias_and_where_there_are_two_nobody_knows() -> None:
    vector, matrix = torch.ones(3), torch.ones(3, 3)

    def holding(**parameters: torch.Tensor) -> nn.Module:
        module = nn.Module()
        for name, values in parameters.items():
            module.register_parameter(name, nn.Parameter(values))
        return module

    assert bias_of(holding(w=matrix, b=vector)) is not None
    for module in (holding(w=vector), holding(w=matrix, scale=vector, shift=vector)):
        assert bias_of(module) is None and may_have_bias(module)
    for module in (holding(weight=vector), holding(weight=matrix)):
        assert bias_of(module) is None and not may_have_bias(module)
