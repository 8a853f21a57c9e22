"""Any torch model is recorded on a golden with a graph, by the names of its modules or by a map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from graph_goldens import BATCH, FLAT, SLOTS, STEPS, Flat, Taps, Twice, distance, golden_of, hooked, inputs, moe, write
from torch import nn

import qwen3_parity
from qwen3_golden import ParityError, pb, read
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_parity.recording.left_out import LeftOut
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.capture import capture

PROBS = ("self_attn[1]", "self_attn.probs")
"""What torch's fused attention never has."""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("graph") / "moe.pb"
    return qwen3_parity.golden(golden_of(moe(), path, inputs(), STEPS))


def keys(case: Case, *, states: bool = True) -> set[tuple[str, int]]:
    return {item.key for item in case.golden if states or not item.info.name.startswith("cache.")}


def test_the_case_gives_what_the_forward_takes_whole_and_in_steps(case: Case) -> None:
    assert set(case.inputs) == {"input_ids", "attention_mask", "position_ids"}
    assert {tuple(array.shape) for array in case.inputs.values()} == {(BATCH, SLOTS)}
    assert [tuple(step["input_ids"].shape) for step in case.steps] == [(BATCH, length) for length in STEPS]
    assert [step["attention_mask"].shape[1] for step in case.steps] == [7, 8, 12]
    assert [int(step["position_ids"][0, 0]) for step in case.steps] == [0, 7, 8]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_hugging_faces_model_is_recorded_step_by_step(case: Case, attention: str, tmp_path: Path) -> None:
    model, cache = moe(attention), None
    with qwen3_parity.record(model, case, path=tmp_path / "steps.pb") as recording:
        for step in case.steps:
            cache = model(**step, **{CACHE: cache}, use_cache=True)[CACHE]
    recorded = read(recording.path, digests=True)
    without = {key for key in keys(case) if attention == "sdpa" and key[0].endswith(PROBS)}
    assert {item.key for item in recorded} == keys(case) - without
    assert distance(recorded, case.golden) < 1e-5
    assert set(recorded.run.materialised) == {name for name, _ in keys(case) - without if not name.startswith("input.")}
    assert recorded.parameters and recorded.run.backend == {"sdpa": pb.SDPA, "eager": pb.EAGER}[attention]


@pytest.mark.parametrize("ends", [(3,), (1, 3), (2, 3)])
def test_forwards_over_several_steps_are_cut_into_them(case: Case, ends: tuple[int, ...], tmp_path: Path) -> None:
    model, cache, start = moe("sdpa"), None, 0
    with qwen3_parity.record(model, case, path=tmp_path / "chunks.pb") as recording:
        for end in ends:
            stop = sum(STEPS[:end])
            now = {
                name: array[:, 0 if name == "attention_mask" else start : stop] for name, array in case.inputs.items()
            }
            cache, start = model(**now, **{CACHE: cache}, use_cache=True)[CACHE], stop
    recorded = read(recording.path)
    assert {item.key for item in recorded} == {key for key in keys(case) if not key[0].endswith(PROBS)}
    assert distance(recorded, case.golden) < 1e-5


def test_what_attention_gets_and_gives_is_recorded_under_its_modules_path(case: Case, tmp_path: Path) -> None:
    model = moe("sdpa")
    with qwen3_parity.record(
        model, case, path=tmp_path / "one.pb", taps=("*.query", "*.key", "*.context")
    ) as recording:
        model(**case.inputs)
    assert {item.info.name for item in read(recording.path) if not item.info.name.startswith("input.")} == {
        f"model.layers.{layer}.self_attn.{part}" for layer in range(2) for part in ("query", "key", "context")
    }


def test_a_module_of_other_names_and_flat_rows_is_recorded_by_a_map(case: Case, tmp_path: Path) -> None:
    model = Flat(moe())
    with qwen3_parity.record(model, case, FLAT, tmp_path / "flat.pb") as recording, torch.no_grad():
        model(case.inputs["input_ids"])
    recorded = read(recording.path)
    assert distance(recorded, case.golden) < 1e-5
    assert len({name for name, _ in (item.key for item in recorded)}) == 3 + 3 + 2 * 11
    golden = {parameter.name: parameter for parameter in case.golden.parameters}
    digested = [parameter for parameter in recorded.parameters if parameter.sha256]
    assert len(digested) > 10 and all(parameter == golden[parameter.name] for parameter in digested)


class Around(nn.Module):
    """A model inside of another one, which has one more part in its names."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.wrapped = inner

    def forward(self, **named: Any) -> Any:
        return self.wrapped(**named)


@pytest.mark.parametrize("form", ["around", "base"])
def test_a_prefix_may_be_missing_or_added(case: Case, form: str, tmp_path: Path) -> None:
    model: nn.Module = Around(moe("sdpa")) if form == "around" else moe("sdpa").model
    with qwen3_parity.record(model, case, path=tmp_path / "prefix.pb") as recording:
        model(**case.inputs)
    recorded = read(recording.path)
    lacking = {"lm_head", "logits"} if form == "base" else set[str]()
    assert {item.info.name for item in recorded} == {
        name for name, _ in keys(case) if not name.endswith(PROBS) and name not in lacking
    }
    assert distance(recorded, case.golden) < 1e-5


def test_a_model_whose_modules_are_called_otherwise_is_refused_with_the_nearest(case: Case) -> None:
    with (
        pytest.raises(ParityError, match=r"none of its modules is called(.|\n)*nearest are .*blocks") as said,
        qwen3_parity.record(nn.Sequential(nn.ModuleDict({"blocks": nn.Linear(2, 2)})), case),
    ):
        pass
    assert "model.embed_tokens" in str(said.value)


def test_what_has_a_shape_of_its_own_is_left_out_in_one_sentence(case: Case, tmp_path: Path) -> None:
    model = moe("sdpa")
    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(  # in the first step alone, so that a step is not recorded by itself
            lambda _m, _a, result: (result[0][:, :4] if len(result[0]) == 21 else result[0], *result[1:])
        )
    with (
        pytest.warns(LeftOut, match=r"gate: its shape is not that of .*mlp.gate: \[21, 4\], not \[21, 5\]\n"),
        qwen3_parity.record(model, case, path=tmp_path / "own.pb") as recording,
    ):
        cache = None
        for step in case.steps:
            cache = model(**step, **{CACHE: cache}, use_cache=True)[CACHE]
    names = {item.info.name for item in read(recording.path)}
    assert "model.layers.0.mlp.gate[1]" in names and "model.layers.0.mlp.gate" not in names


def test_calls_and_places_have_names_and_a_row_a_text_needs_no_positions(tmp_path: Path) -> None:
    model, arrays, taps = Twice(), {"input_ids": inputs()["input_ids"]}, Taps()
    with hooked(model, taps, 0), torch.no_grad():
        taps |= {(name, 0): value for name, value in model(**arrays).items()}
    write(tmp_path / "twice.pb", taps, arrays, (SLOTS,), {})
    assert {"norm", "norm#2", "pair", "pair[2]", "pool", "pooler_output"} <= {name for name, _ in taps}
    case = qwen3_parity.golden(tmp_path / "twice.pb")
    with qwen3_parity.record(model, case, path=tmp_path / "made.pb") as recording, torch.no_grad():
        model(**case.inputs)
    recorded = read(recording.path)
    assert {item.key for item in recorded} == keys(case) and distance(recorded, case.golden) == 0


def test_half_precision_is_recorded_as_it_is(case: Case, tmp_path: Path) -> None:
    model = moe("sdpa").bfloat16()
    with qwen3_parity.record(model, case, path=tmp_path / "half.pb") as recording:
        model(**case.inputs)
    recorded = read(recording.path)
    assert recorded["model.norm", 1].info.dtype == pb.BF16 and recorded.run.arithmetic == pb.ARITHMETIC_BF16


def test_of_a_compiled_model_what_is_outside_is_recorded_and_the_rest_said(case: Case, tmp_path: Path) -> None:
    model = moe("sdpa")
    model.model.layers[1].compile(backend="eager")
    with (
        pytest.warns(LeftOut, match=r"it is compiled(.|\n)*torch.compile of model.layers.1\n"),
        qwen3_parity.record(model, case, path=tmp_path / "compiled.pb") as recording,
    ):
        model(**case.inputs)
    names = {item.info.name for item in read(recording.path)}
    assert {"model.layers.1", "model.layers.0.mlp"} <= names and "model.layers.1.mlp" not in names
    assert "model.layers.{layer}.mlp" in recording.left_out


def test_the_command_runs_a_factorys_module_on_the_goldens_inputs(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "from graph_goldens import Flat, moe\n\ndef build(*_):\n    return Flat(moe())\n"
    )
    lines = [f"{json.dumps(name)} = {json.dumps(taps)}\n" for name, taps in FLAT.items()]
    (tmp_path / "names.toml").write_text("".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "made.pb"
    args = ["record", str(case.path), "--impl", "theirs:build", "--names", str(tmp_path / "names.toml")]
    result = CliRunner().invoke(main, [*args, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert distance(read(out), case.golden) < 1e-5
    alone = CliRunner().invoke(main, ["record", str(case.path)])
    assert alone.exit_code == 2 and "give the --impl" in alone.output


@pytest.mark.parametrize("value", ["other", "ARITHMETIC_OTHER", pb.ARITHMETIC_OTHER])
def test_what_a_run_computed_in_is_said_by_its_name(case: Case, value: object, tmp_path: Path) -> None:
    with qwen3_parity.record(None, case, path=tmp_path / "mine.pb") as recording:
        name, step = next(item.key for item in case.golden if item.info.name == "logits")
        recording[name, step] = case.golden[name, step].array
        recording.arithmetic = value
    assert read(recording.path).run.arithmetic == pb.ARITHMETIC_OTHER


@pytest.mark.parametrize("value", ["int8", 99, None])
def test_an_arithmetic_of_no_name_is_refused_where_it_is_said(case: Case, value: object, tmp_path: Path) -> None:
    refused = pytest.raises(ParityError, match="a run is in no such arithmetic")
    with refused, qwen3_parity.record(None, case, path=tmp_path / "mine.pb") as recording:
        recording.arithmetic = value
    assert not (tmp_path / "mine.pb").exists()


def test_the_checkpoint_of_a_captured_golden_is_found_beside_it(tmp_path: Path) -> None:
    model, folder = moe(), tmp_path / "captured"
    model.save_pretrained(folder)
    golden = folder / "golden.pb"
    capture(model, inputs(), golden, steps=STEPS, checkpoint=folder, floors=False)
    assert qwen3_parity.golden(golden).checkpoint == folder
    (tmp_path / "elsewhere").mkdir()
    moved = golden.rename(tmp_path / "elsewhere" / "golden.pb")
    with pytest.raises(ParityError, match="the checkpoint of the model is not there"):
        _ = qwen3_parity.golden(moved).checkpoint
    assert qwen3_parity.golden(moved, model=str(folder)).checkpoint == folder
