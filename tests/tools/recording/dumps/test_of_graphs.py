"""A dump becomes a recording of a golden with a graph: by the golden's names, below another prefix, or by a map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from graph_goldens import BATCH, FLAT, SLOTS, STEPS, Flat, Taps, distance, golden_of, hooked, inputs, moe
from safetensors.numpy import save_file

import qwen3_parity
from qwen3_golden import ParityError, read
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_parity.recording.dumps.import_dump import import_dump
from qwen3_parity.recording.dumps.write_dump import write_dump


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("graph") / "moe.pb"
    return qwen3_parity.golden(golden_of(moe(), path, inputs(), STEPS))


@pytest.fixture(scope="module")
def flat() -> dict[str, np.ndarray]:
    """What the modules of a model by hand give in one forward, rows in one axis, by their own names."""
    taps, model = Taps(), Flat(moe())
    with hooked(model, taps, 0), torch.no_grad():
        taps["", 0] = model(inputs()["input_ids"])
    return {name: value.numpy() for (name, _), value in taps.items()}


def keys(case: Case) -> set[tuple[str, int]]:
    return {item.key for item in case.golden}


@pytest.mark.parametrize("ending", [".safetensors", ".npz"])
def test_a_golden_that_is_written_as_a_dump_comes_back_bit_for_bit(case: Case, ending: str, tmp_path: Path) -> None:
    dump = tmp_path / f"dump{ending}"
    write_dump(case.golden, dump)
    summary = import_dump(dump, case, path=tmp_path / "made.pb")
    recorded = read(summary.path, digests=True)
    assert {item.key for item in recorded} == keys(case) and distance(recorded, case.golden) == 0
    assert (summary.unmatched, summary.misfits, summary.without, len(summary.forwards)) == ({}, [], [], len(STEPS))


def test_names_below_another_prefix_and_one_forward_over_all_slots(case: Case, tmp_path: Path) -> None:
    taps = {}
    for name in ("model.layers.0.mlp", "model.layers.1", "model.layers.1.mlp.gate[1]", "lm_head"):
        arrays = [case.golden[name, step].array for step in range(len(STEPS))]
        rows = [array.reshape(BATCH, -1, array.shape[-1]) for array in arrays]
        taps[name.replace("model.", "llm.base.")] = np.concatenate(rows, 1)
    taps["llm.base.layers.0.mlp.output.0"] = taps.pop("llm.base.layers.0.mlp")
    save_file(taps, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    recorded = read(summary.path)
    assert summary.tensors == 4 * len(STEPS) and distance(recorded, case.golden) == 0 and not summary.unmatched


def test_a_map_says_whose_arrays_of_other_names_and_flat_rows_are(
    case: Case, flat: dict[str, np.ndarray], tmp_path: Path
) -> None:
    for name, array in flat.items():
        np.save(tmp_path / f"{name or 'head_out'}.npy", array)
    names = {("head_out" if key == "" else key): taps for key, taps in FLAT.items()}
    summary = import_dump(tmp_path, case, names, tmp_path / "made.pb")
    assert distance(read(summary.path), case.golden) < 1e-5
    assert summary.tensors == (3 + 2 * 11) * len(STEPS) and not summary.misfits and list(summary.unmatched) == ["head"]


def test_what_has_no_meaning_or_another_shape_is_said(case: Case, tmp_path: Path) -> None:
    taps = {
        "model.norm": np.zeros((BATCH, SLOTS, 24), np.float32),
        "model.embed_tokens": np.zeros((BATCH, SLOTS, 23), np.float32),
        "model.layers.0.mlp.gates": np.zeros(3, np.float32),
    }
    save_file(taps, tmp_path / "own.safetensors")
    result = CliRunner().invoke(
        main, ["dump", "import", str(case.path), str(tmp_path / "own.safetensors"), "--out", str(tmp_path / "made.pb")]
    )
    assert result.exit_code == 0, result.output
    assert "model.layers.{layer}.mlp.gates: like model.layers.{layer}.mlp.gate" in result.output
    assert f"model.embed_tokens: [{BATCH}, {SLOTS}, 23], expected [{BATCH}, {SLOTS}, 24]" in result.output


def test_what_goes_into_a_module_is_the_tap_that_the_module_reads(tmp_path: Path) -> None:
    case, layer = qwen3_parity.golden("model/qwen3_moe"), "model.layers.1"
    context, norm = (case.golden[f"{layer}.{name}", 0].array for name in ("self_attn.context", "input_layernorm"))
    joined = np.ascontiguousarray(context.reshape(*context.shape[:2], -1))
    dump = {
        f"0.{layer}.self_attn.o_proj:input": joined,
        f"0.{layer}.self_attn.q_proj:input": norm + 1,  # changed on its way, as a norm that is fused
        f"0.{layer}.input_layernorm": norm,
        f"0.{layer}.post_attention_layernorm:input": norm,
    }
    save_file(dump, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    recorded = read(summary.path)
    assert (recorded[f"{layer}.self_attn.context", 0].array == context).all()
    assert (recorded[f"{layer}.input_layernorm", 0].array == norm).all()
    assert summary.unmatched == {"model.layers.{layer}.post_attention_layernorm:input": ""} and summary.tensors == 2


def test_a_name_without_meaning_is_said_without_the_number_of_its_forward(case: Case, tmp_path: Path) -> None:
    taps = {f"{step}.model.norm": case.golden["model.norm", step].array for step in range(len(STEPS))}
    save_file(taps | {"1.blocks.0.mlps": np.zeros(3, np.float32)}, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    assert summary.unmatched == {"blocks.{layer}.mlps": "model.layers.{layer}.mlp"}


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("their.last", (BATCH, SLOTS, 24), "none of its names means a tap"),
        ("model.norm", (BATCH, 5, 24), "no array has the shape of its tap"),
        ("logits", (BATCH, 61, SLOTS), "exchanged: say `axes` in the map"),
        ("model.norm", (BATCH - 1, SLOTS, 24), "some of the case's rows: put all of them into each array"),
        ("model.norm", (BATCH, STEPS[0], 24), "the dump ends before the case does"),
    ],
)
def test_a_dump_of_something_else_is_refused_and_nothing_is_written(
    case: Case, name: str, shape: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    save_file({name: np.zeros(shape, np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match=says):
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["own.safetensors"]


def test_a_dump_of_other_ids_is_refused(case: Case, tmp_path: Path) -> None:
    ids = case.arrays["input_ids"] + 1
    save_file({"input_ids": ids, "model.norm": np.zeros((BATCH, SLOTS, 24), np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match="input_ids is another than that of moe"):
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")


def test_logits_of_the_last_position_alone_are_a_forward_a_step(case: Case, tmp_path: Path) -> None:
    last = {f"{step}.logits": case.golden["logits", step].array[:, -1:] for step in range(len(STEPS))}
    save_file({name: np.ascontiguousarray(array) for name, array in last.items()}, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    recorded = read(summary.path)
    assert [forward.stop for forward in summary.forwards] == np.cumsum(STEPS).tolist()
    assert all((recorded["logits", step].array == last[f"{step}.logits"]).all() for step in range(len(STEPS)))


@pytest.mark.parametrize("numbers", [[0], [1], [0, 1], [len(STEPS) - 1], [0, len(STEPS) - 1]])
def test_steps_by_their_numbers_alone_are_a_part_of_the_case(case: Case, numbers: list[int], tmp_path: Path) -> None:
    names = ("model.norm", "logits", "model.layers.1.self_attn.key")
    taps = {f"{step}.{name}": case.golden[name, step].array for step in numbers for name in names}
    save_file(taps, tmp_path / "own.safetensors")
    summary = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    recorded = read(summary.path)
    assert {item.key for item in recorded if not item.info.name.startswith("input.")} == {
        (name, step) for name in names for step in numbers
    }
    assert distance(recorded, case.golden) == 0 and not summary.misfits


def test_a_forward_too_many_is_counted(case: Case, tmp_path: Path) -> None:
    shape = BATCH, 1, case.golden["logits", 0].array.shape[-1]
    taps = {f"{step}.logits": np.zeros(shape, np.float32) for step in range(len(STEPS) + 1)}
    save_file(taps, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match="one more forward") as refusal:
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    assert refusal.value.got == f"{len(STEPS) + 1} forwards"
    assert f"{len(STEPS)} or fewer" in refusal.value.expected


def test_names_of_a_golden_with_a_graph_are_written_by_hand_and_its_taps_listed(case: Case, tmp_path: Path) -> None:
    save_file({"their.norm": np.zeros((BATCH, SLOTS, 24), np.float32)}, tmp_path / "own.safetensors")
    matching = ["match-names", case.path, tmp_path / "own.safetensors", "--out", tmp_path / "names.toml"]
    refused = CliRunner().invoke(main, list(map(str, matching)))
    assert refused.exit_code == 2 and "a golden with a graph" in refused.output
    assert f"qwen3-parity show {case.path} lists the taps" in " ".join(refused.output.split())
    listed = CliRunner().invoke(main, ["show", str(case.path)])
    assert listed.exit_code == 0 and "model.layers.1.mlp.gate[1]" in listed.output


def test_layers_of_several_kinds_have_an_entry_each_for_the_same_tap(case: Case, tmp_path: Path) -> None:
    mlp = {layer: case.golden[f"model.layers.{layer}.mlp", 0].array for layer in (0, 1)}
    names = {"blocks.{layer}.dense": "model.layers.{layer}.mlp", "blocks.{layer}.moe": "model.layers.{layer}.mlp"}
    dumped = {"0.blocks.0.dense": mlp[0], "0.blocks.1.moe": mlp[1]}
    save_file(dumped, tmp_path / "own.safetensors")
    recorded = read(import_dump(tmp_path / "own.safetensors", case, names, path=tmp_path / "made.pb").path)
    assert all(np.array_equal(recorded[f"model.layers.{layer}.mlp", 0].array, array) for layer, array in mlp.items())
    save_file({**dumped, "0.blocks.0.moe": mlp[0]}, tmp_path / "twice.safetensors")
    with pytest.raises(ParityError, match=r"model\.layers\.0\.mlp has one place already(.|\n)*blocks\.0\.dense"):
        import_dump(tmp_path / "twice.safetensors", case, names, path=tmp_path / "twice.pb")
