"""A compiled model is recorded from outside of the compiler: what goes in and comes out, and nothing between."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import ParityError, Recording, pb, read
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_parity.recording.left_out import LeftOut
from qwen3_parity.recording.match_names import match_names

CASE = "decoder/ragged_decode"


class Graphs:
    """A backend that counts the programs that the compiler makes, and runs them as they are."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.count += 1
        return graph.forward


@pytest.fixture
def graphs() -> Iterator[Graphs]:
    torch.compiler.reset()
    yield Graphs()
    torch.compiler.reset()


@pytest.fixture(scope="module")
def case() -> Case:
    return qwen3_parity.golden(CASE)


def hugging_face(case: Case) -> nn.Module:
    model: nn.Module = AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype=torch.float32)
    return model.eval().requires_grad_(False)


def in_place(model: nn.Module, backend: Any) -> nn.Module:
    model.compile(backend=backend)
    return model


def forward(model: nn.Module, backend: Any) -> nn.Module:
    model.forward = torch.compile(model.forward, backend=backend)  # type: ignore[method-assign]
    return model


def wrapped(model: nn.Module, backend: Any) -> nn.Module:
    compiled: nn.Module = torch.compile(model, backend=backend)  # type: ignore[assignment]
    return compiled


def wrapped_layers(model: nn.Module, backend: Any) -> nn.Module:
    layers: Any = model.get_submodule("model.layers")
    for number, layer in enumerate(layers):
        layers[number] = torch.compile(layer, backend=backend)
    return model


def layers_in_place(model: nn.Module, backend: Any) -> nn.Module:
    for layer in model.get_submodule("model.layers").children():
        layer.compile(backend=backend)
    return model


WHOLE = [in_place, forward, wrapped]
PARTS = [wrapped_layers, layers_in_place]


def recorded(model: nn.Module, case: Case, path: Path, **more: Any) -> Recording:
    with qwen3_parity.record(model, case, path=path, **more) as recording:
        model(**case.inputs)
    verdicts = qwen3_parity.check(case, recording)
    assert verdicts.word == "parity", verdicts.problems
    return read(path)


def names_in(recording: Recording) -> set[str]:
    return {item.info.name for item in recording if not item.info.name.startswith("input.")}


@pytest.mark.parametrize("compiled", WHOLE)
@pytest.mark.sample(every=3)
def test_of_a_compiled_model_its_logits_are_recorded_by_the_program_that_runs(
    compiled: Callable[..., nn.Module], case: Case, graphs: Graphs, tmp_path: Path
) -> None:
    model = compiled(hugging_face(case), graphs)
    model(**case.inputs)
    programs = graphs.count
    with pytest.warns(LeftOut, match="inside of what is compiled") as warned:
        recording = recorded(model, case, tmp_path / "compiled.pb")
    assert len(warned) == 1 and names_in(recording) == {"logits"} and recording.run.backend == pb.COMPILED
    recorded(model, case, tmp_path / "logits.pb", taps=["logits"])  # all that is asked for is there: no warning
    assert graphs.count == programs, "recording it makes other programs"


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("compiled", PARTS)
def test_of_compiled_layers_is_recorded_what_goes_in_and_comes_out(
    compiled: Callable[..., nn.Module], case: Case, graphs: Graphs, tmp_path: Path
) -> None:
    model = compiled(hugging_face(case), graphs)
    model(**case.inputs)
    programs = graphs.count
    with pytest.warns(LeftOut, match="torch.compile of model.layers.0, model.layers.1, model.layers.2"):
        recording = recorded(model, case, tmp_path / "compiled.pb")
    there = {name for name in names_in(recording) if ".layers." in name}
    assert there == {f"decoder.layers.{n}.{end}" for n in range(3) for end in ("input", "output")}
    assert {"decoder.embed_tokens", "decoder.norm", "logits"} <= names_in(recording)
    assert graphs.count == programs, "recording it makes other programs"


def test_what_is_not_asked_for_is_not_hooked(case: Case, graphs: Graphs, tmp_path: Path) -> None:
    model, inner = hugging_face(case), []
    model.model.layers[0].register_forward_hook(lambda module, *_: inner.append(len(module.mlp._forward_hooks)))
    assert names_in(recorded(model, case, tmp_path / "logits.pb", taps=["logits"])) == {"logits"} and inner == [0]
    layer = recorded(hugging_face(case), case, tmp_path / "layer.pb", taps=["layer"])
    assert "decoder.layers.2.output" in names_in(layer) and "decoder.layers.2.mlp.act" not in names_in(layer)
    with pytest.raises(ParityError, match="the golden has no such tap"):
        recorded(model, case, tmp_path / "none.pb", taps=["no_such_tap"])


def test_a_module_inside_of_a_compiled_one_cannot_be_named(case: Case, graphs: Graphs, tmp_path: Path) -> None:
    names = {"model.layers.{layer}.self_attn.o_proj": "o_proj"}
    model = wrapped(hugging_face(case), graphs)
    with (
        pytest.raises(ParityError, match="inside of one that is compiled") as caught,
        qwen3_parity.record(model, case, names, tmp_path / "inside.pb"),
    ):
        model(**case.inputs)
    assert "o_proj" in caught.value.where and "before it is compiled" in caught.value.next_step
    with pytest.raises(ParityError, match="no hook can stand") as caught:
        match_names(model, case)
    assert "leave out torch.compile" in caught.value.next_step


def test_a_compiled_function_around_a_model_is_refused(case: Case, graphs: Graphs, tmp_path: Path) -> None:
    model = hugging_face(case)
    around = torch.compile(lambda **inputs: model(**inputs), backend=graphs)
    with (
        pytest.raises(ParityError, match="inside a function that is compiled"),
        qwen3_parity.record(model, case, path=tmp_path / "around.pb"),
    ):
        around(**case.inputs)
    assert not (tmp_path / "around.pb").exists()


def test_a_compiled_encoder_says_how_its_output_is_named(graphs: Graphs, tmp_path: Path) -> None:
    case = qwen3_parity.golden("encoder/ragged")
    whole = hugging_face(case)
    whole.config.is_causal = False
    model = in_place(whole.model, graphs)
    with pytest.raises(ParityError, match="what it gives has no name") as caught:
        recorded(model, case, tmp_path / "encoder.pb")
    assert '{"": "encoder.norm"}' in caught.value.next_step
    assert names_in(recorded(model, case, tmp_path / "encoder.pb", names={"": "encoder.norm"})) == {"encoder.norm"}


def test_nothing_of_the_recorder_stays_in_a_compiled_model(case: Case, graphs: Graphs, tmp_path: Path) -> None:
    model = in_place(hugging_face(case), graphs)
    call = model._compiled_call_impl
    with pytest.raises(KeyError), qwen3_parity.record(model, case, path=tmp_path / "x.pb"):
        assert model._compiled_call_impl is not call
        raise KeyError
    assert model._compiled_call_impl is call and not (tmp_path / "x.pb").exists()


def test_a_compiled_model_is_recorded_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graphs: Graphs
) -> None:
    """Its forward calls the ids by another name."""
    text = f"""
import sys
import torch
sys.path.insert(0, {str(Path(__file__).parent)!r})
from plain_qwen3 import PlainQwen3

def build(case, checkpoints):
    return torch.compile(PlainQwen3(checkpoints["decoder"]), backend="eager")
"""
    (tmp_path / "own_compiled_model.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    run = partial(CliRunner().invoke, main)
    done = run(["record", "decoder/plain", "--impl", "own_compiled_model:build", "--taps", "logits"])
    assert done.exit_code == 0, done.output
    assert run(["check", "build/parity/decoder/plain.pb"]).exit_code == 0


@pytest.mark.slow  # a compiler of C++ runs
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("compiled", [in_place, layers_in_place])
def test_what_inductor_makes_is_recorded(compiled: Callable[..., nn.Module], case: Case, tmp_path: Path) -> None:
    torch.compiler.reset()
    with pytest.warns(LeftOut):
        recorded(compiled(hugging_face(case), "inductor"), case, tmp_path / "inductor.pb")
