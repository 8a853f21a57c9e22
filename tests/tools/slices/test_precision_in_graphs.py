"""An engine that is lossy everywhere is told apart from one that also makes a mistake.

It runs `diagnosis.precision`, `diagnosis.joined` and `diagnosis.by_layer`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from test_slices_committed import CHECKPOINTS, golden_of, network, step_by_step
from torch import nn

import qwen3_parity
from qwen3_golden import read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.known_words import READ_FIX
from qwen3_parity.diagnosis.precision import in_few_bits
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.folder.check import check_folder
from qwen3_parity.folder.diagnose import diagnose_folder
from qwen3_parity.judge.match import is_parameter
from qwen3_parity.report.diagnoses import terminal, to_json
from qwen3_parity.report.next_step import after_diagnosis, after_folder_diagnosis
from qwen3_reference.cases.models import MODEL_CASES

NAME = "model/gemma3"
UP = "model.layers.{layer}.mlp.up_proj"


def in_integers(x: torch.Tensor, most: int = 127) -> torch.Tensor:
    """Integers up to `most`, with a scale for each row."""
    scale = x.abs().amax(-1, keepdim=True) / most
    return torch.round(x / scale) * scale


def eight_bits(model: nn.Module) -> None:
    for linear in linears(model):
        linear.weight.data = in_integers(linear.weight.data)


def four_bits(model: nn.Module) -> None:
    for linear in linears(model):
        linear.weight.data = in_integers(linear.weight.data, 7)


def eight_bit_floats(model: nn.Module) -> None:
    """One scale for a weight."""
    for linear in linears(model):
        scale = linear.weight.data.abs().max() / 448
        linear.weight.data = (linear.weight.data / scale).to(torch.float8_e4m3fn).float() * scale


def both_sides(model: nn.Module) -> None:
    eight_bits(model)
    for linear in linears(model):
        linear.register_forward_pre_hook(lambda _, inputs: (in_integers(inputs[0]),))


def linears(model: nn.Module) -> list[nn.Linear]:
    return [module for name, module in model.named_modules() if isinstance(module, nn.Linear) and "layers" in name]


ENGINES: dict[str, Callable[[nn.Module], None]] = {
    "weights of 8 bits": eight_bits,
    "weights of 4 bits": four_bits,
    "weights of float8": eight_bit_floats,
    "weights and activations of 8 bits": both_sides,
}


def diagnosed(
    *changes: Callable[[Any], None],
    folder: Path,
    arithmetic: str = "other",
    only: Collection[str] = (),
    work: float = ENOUGH / 25,
) -> Diagnosis:
    case = next(case for case in MODEL_CASES if case.name == NAME)
    model, asked = network(case), qwen3_parity.golden(NAME)
    for change in changes:
        change(model)
    with torch.no_grad(), qwen3_parity.record(model, asked, path=folder / "mine.pb") as recording:
        recording.arithmetic = arithmetic  # type: ignore[assignment]  # as a user says it
        step_by_step(model, asked)
    golden = golden_of(NAME)
    mine = read(recording.path)
    mine = replace(mine, tensors=[item for item in mine if not only or item.info.name in only])
    return diagnose(golden, mine, weights_of(golden, CHECKPOINTS), work=work)


def printed(diagnosis: Diagnosis) -> str:
    console = Console(width=300)
    with console.capture() as text:
        console.print(terminal(diagnosis))
    return text.get()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_lossy_engine_is_said_to_do_nothing_else_otherwise(engine: str, tmp_path: Path) -> None:
    diagnosis = diagnosed(ENGINES[engine], folder=tmp_path)
    assert len(diagnosis.faults) == 7 and all(in_few_bits(fault) for fault in diagnosis.faults)
    text = printed(diagnosis)
    assert "all 7 hold numbers in few bits, as a lossy engine does; nothing else is otherwise" in text
    assert "no known mistake" not in text
    assert all(fault["few_bits"] for fault in to_json(diagnosis)["faults"])
    assert "fix:" not in text and "there is nothing to fix; read what it costs, KL and ranks, and decide" in text
    following = after_diagnosis(diagnosis)
    assert following["do"] == "stop" and "nats a token" in str(following["says"]) and diagnosis.verdicts.exit_code == 1


def test_a_folder_of_a_lossy_engine_has_nothing_to_fix_either(tmp_path: Path) -> None:
    diagnosed(eight_bits, folder=tmp_path)
    diagnosis = diagnose_folder(check_folder(tmp_path))
    assert [mistake.name for mistake in diagnosis.mistakes] == [""] and diagnosis.folder.exit_code == 1
    assert "numbers in few bits, as the recording declares: nothing else" in diagnosis.mistakes[0].sentence
    assert after_folder_diagnosis(diagnosis)["do"] == "stop"


def test_the_same_numbers_have_a_fix_where_nobody_declares_them(tmp_path: Path) -> None:
    diagnosis = diagnosed(eight_bits, folder=tmp_path, arithmetic="float32")
    text = printed(diagnosis)
    assert "fix:" in text and after_diagnosis(diagnosis)["do"] == "fix"
    assert text.count('if that is meant, declare it, recording.arithmetic = "other"') == 1


def test_of_too_few_taps_of_a_lossy_engine_more_are_asked_for(tmp_path: Path) -> None:
    diagnosis = diagnosed(eight_bits, folder=tmp_path, only=("model.layers.0", "model.layers.1", "logits"))
    following = after_diagnosis(diagnosis)
    assert following["do"] == "record" and "errors scatter as roundings do" in str(following["says"])
    undeclared = diagnosed(eight_bits, folder=tmp_path, arithmetic="float32", only=("model.layers.0", "logits"))
    assert after_diagnosis(undeclared)["do"] == "fix"


@pytest.mark.parametrize(("times", "is_said"), [(1.0, True), (1.002, False)])
def test_a_weight_on_a_tie_is_no_mistake_beside_the_rounding_and_a_row_is(
    times: float, *, is_said: bool, tmp_path: Path
) -> None:
    """One layer's weight stands halfway between two codes, and the engine took the other one."""
    case, asked = next(case for case in MODEL_CASES if case.name == NAME), qwen3_parity.golden(NAME)
    golden = golden_of(NAME)
    model, weights = network(case), dict(weights_of(golden, CHECKPOINTS))
    name = "model.layers.1.mlp.up_proj.weight"
    tied, rows = weights[name].copy(), model.get_submodule(name.removesuffix(".weight"))
    scale = float(abs(tied[3]).max()) / 127
    tied[3, abs(tied[3]).argmin()] = 2.5 * scale
    eight_bits(model)
    rows.weight.data = in_integers(torch.from_numpy(tied.copy()))
    at = int(abs(tied[3] - 2.5 * scale).argmin())
    rows.weight.data[3, at] = scale * (5 - round(float(tied[3, at]) / scale))  # 2 for 3, or 3 for 2
    rows.weight.data[3] *= times
    with torch.no_grad(), qwen3_parity.record(model, asked, path=tmp_path / "mine.pb") as recording:
        recording.arithmetic = "other"
        step_by_step(model, asked)
    mine = read(recording.path)  # of an engine whose linears have no `weight`
    packed = replace(mine, tensors=[x for x in mine if not is_parameter(x)], parameters=())
    diagnosis = diagnose(golden, packed, {**weights, name: tied}, work=ENOUGH / 25)
    here = [fault for fault in diagnosis.faults if fault.fault.place == UP]
    assert here and all(map(in_few_bits, here)) == is_said
    assert any("few weights, which stand at the edge of a step" in str(fault.explanations) for fault in here) == is_said


def other_weight(model: Any) -> None:
    model.model.norm.weight.data *= 1.5


def one_row(layer: int) -> Callable[[Any], None]:
    """A row of a projection of one layer that is off beside its rounding, by less than that."""

    def change(model: Any) -> None:
        model.model.layers[layer].mlp.up_proj.weight.data[3] *= 1.002

    return change


BESIDE = [
    (eight_bits, other_weight, "model.norm"),
    (eight_bits, one_row(0), UP),
    (eight_bit_floats, one_row(0), UP),
    (eight_bit_floats, one_row(1), UP),
]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(("engine", "mistake", "place"), BESIDE)
def test_what_such_an_engine_does_otherwise_beside_it_comes_first(
    engine: Callable[[Any], None], mistake: Callable[[Any], None], place: str, tmp_path: Path
) -> None:
    diagnosis = diagnosed(engine, mistake, folder=tmp_path)
    assert [fault.fault.place for fault in diagnosis.faults if not in_few_bits(fault)] == [place]
    text, shown = printed(diagnosis), place.replace("{layer}", "*")
    assert f"of them hold numbers in few bits, as a lossy engine does; the other one is {shown}" in text
    assert text.index(f"\n{shown}") < text.index("self_attn.q_proj\n")
    following = after_diagnosis(diagnosis)
    assert following["do"] == "fix" and shown in str(following["says"])


def behind(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    """A module that does something with its result that the reference does not."""

    def hook(_module: nn.Module, _inputs: Any, y: Any) -> Any:
        return (change(y[0]), *y[1:]) if isinstance(y, tuple) else change(y)

    return lambda model: model.get_submodule(name).register_forward_hook(hook)


def overflowing(y: torch.Tensor) -> torch.Tensor:
    return torch.where(y > y.max() * 0.9, torch.inf, y)


def in_bfloat16(y: torch.Tensor) -> torch.Tensor:
    return y.bfloat16().float()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("model.layers.1.self_attn", torch.zeros_like, "has zeros for layers.*.self_attn.o_proj"),
        ("model.layers.0.mlp", lambda y: 1.2 * y, "by 1.2"),
        ("model.layers.0.mlp", overflowing, "numbers are infinite"),
    ],
)
def test_what_is_done_to_the_result_of_a_weight_in_few_bits_is_not_cleared_with_it(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], says: str, tmp_path: Path
) -> None:
    diagnosis = diagnosed(eight_bits, behind(name, change), folder=tmp_path)
    first, *others = diagnosis.faults if change is overflowing else sorted(diagnosis.faults, key=in_few_bits)
    assert first.fault.place == name.replace(name.split(".")[2], "{layer}") and all(map(in_few_bits, others))
    assert {verdict.name for verdict in first.fault.wrong} == {name}
    text = printed(diagnosis)
    assert says in text and "the reference does nothing here" in text and "nothing to fix" not in text
    assert ("no KL and no ranks: logits (step 0) is not finite" in text) == (change is overflowing)
    assert after_diagnosis(diagnosis)["do"] == "fix"


def test_a_lossy_engine_that_is_not_finite_at_padding_is_not_cleared(tmp_path: Path) -> None:
    mask = torch.from_numpy(golden_of(NAME)["input.attention_mask", 0].array.copy()).bool()

    def nothing_at_padding(y: torch.Tensor) -> torch.Tensor:
        return y if y.shape[1] == 1 else y.masked_fill(~mask[:, : y.shape[1], None], torch.nan)

    diagnosis = diagnosed(eight_bits, behind("model.layers.0.input_layernorm", nothing_at_padding), folder=tmp_path)
    assert all(map(in_few_bits, diagnosis.faults))
    text = printed(diagnosis)
    sentence = "NaN or infinities stand first at model.layers.0.input_layernorm (step 0)"
    assert text.index(sentence) < text.index("few bits") and "nothing else is otherwise" not in text
    assert "nothing to fix" not in text and after_diagnosis(diagnosis)["do"] != "stop"


def test_what_is_rounded_beside_the_weights_is_said_by_itself_and_has_a_fix(tmp_path: Path) -> None:
    diagnosis = diagnosed(eight_bits, behind("model.norm", in_bfloat16), folder=tmp_path)
    text = printed(diagnosis)
    assert "; also rounded, which is seldom meant: model.norm" in text and "nothing to fix" not in text
    assert text.index("\nmodel.norm") < text.index("self_attn.q_proj\n")
    following = after_diagnosis(diagnosis)
    assert following["do"] == "fix" and "model.norm" in str(following["says"])


def zero_points_off(layer: int) -> Callable[[Any], None]:
    """A projection in packed bits, whose weight nobody can record, with its zero points one too small."""

    def change(model: Any) -> None:
        linear = model.model.layers[layer].mlp.up_proj
        weight = linear.weight.data
        low, high = weight.amin(-1, keepdim=True).clamp(max=0), weight.amax(-1, keepdim=True).clamp(min=0)
        scale = (high - low) / 15
        zero = torch.round(-low / scale)
        codes = (torch.round(weight / scale) + zero).clamp(0, 15)
        packed = (codes - (zero - 1)) * scale
        linear.register_forward_hook(lambda _module, inputs, _y: nn.functional.linear(inputs[0], packed))

    return change


def test_a_packed_weight_that_is_read_otherwise_is_named_in_its_layer_and_has_a_fix(tmp_path: Path) -> None:
    diagnosis = diagnosed(zero_points_off(1), eight_bits, folder=tmp_path)
    (fault,) = (fault for fault in diagnosis.faults if not in_few_bits(fault))
    assert {verdict.name for verdict in fault.fault.wrong} == {"model.layers.1.mlp.up_proj"} and fault.misread
    text = printed(diagnosis)
    assert "its zero points are one too small" in text and f"fix: {READ_FIX}" in text
    assert "no known mistake" not in text and "its numbers name the mistake" in text
    following = after_diagnosis(diagnosis)
    assert following["mistake"] == "structure.misread" and READ_FIX in str(following["says"])


def fewer_bits(model: Any) -> None:
    linear = model.model.layers[1].mlp.up_proj
    packed = in_integers(linear.weight.data, 7)
    linear.register_forward_hook(lambda _module, inputs, _y: nn.functional.linear(inputs[0], packed))


def test_layers_in_other_bits_than_the_rest_are_said(tmp_path: Path) -> None:
    text = printed(diagnosed(fewer_bits, eight_bits, folder=tmp_path))
    assert "as a lossy engine does (not the same in all layers of model.layers.*.mlp.up_proj); nothing else" in text
    assert "up_proj.weight to int4" in text and "3 of 6 taps wrong, layer 1 (of 0–1)" in text
