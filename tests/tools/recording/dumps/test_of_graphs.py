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
    return {name: one.numpy() for (name, _), one in taps.items()}


def keys(case: Case) -> set[tuple[str, int]]:
    return {item.key for item in case.golden}


@pytest.mark.parametrize("ending", [".safetensors", ".npz"])
def test_a_golden_that_is_written_as_a_dump_comes_back_bit_for_bit(case: Case, ending: str, tmp_path: Path) -> None:
    dump = tmp_path / f"dump{ending}"
    write_dump(case.golden, dump)
    made = import_dump(dump, case, path=tmp_path / "made.pb")
    recorded = read(made.path, digests=True)
    assert {item.key for item in recorded} == keys(case) and distance(recorded, case.golden) == 0
    assert (made.unmatched, made.misfits, made.without, len(made.forwards)) == ({}, [], [], len(STEPS))


def test_names_below_another_prefix_and_one_forward_over_all_slots(case: Case, tmp_path: Path) -> None:
    taps = {}
    for name in ("model.layers.0.mlp", "model.layers.1", "model.layers.1.mlp.gate[1]", "lm_head"):
        arrays = [case.golden[name, step].array for step in range(len(STEPS))]
        rows = [one.reshape(BATCH, -1, one.shape[-1]) for one in arrays]
        taps[name.replace("model.", "llm.base.")] = np.concatenate(rows, 1)
    taps["llm.base.layers.0.mlp.output.0"] = taps.pop("llm.base.layers.0.mlp")
    save_file(taps, tmp_path / "own.safetensors")
    made = import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    recorded = read(made.path)
    assert made.tensors == 4 * len(STEPS) and distance(recorded, case.golden) == 0 and not made.unmatched


def test_a_map_says_whose_arrays_of_other_names_and_flat_rows_are(
    case: Case, flat: dict[str, np.ndarray], tmp_path: Path
) -> None:
    for name, array in flat.items():
        np.save(tmp_path / f"{name or 'head_out'}.npy", array)
    names = {("head_out" if key == "" else key): taps for key, taps in FLAT.items()}
    made = import_dump(tmp_path, case, names, tmp_path / "made.pb")
    assert distance(read(made.path), case.golden) < 1e-5
    assert made.tensors == (3 + 2 * 11) * len(STEPS) and not made.misfits and list(made.unmatched) == ["head"]


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


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("their.last", (BATCH, SLOTS, 24), "none of its names means a tap"),
        ("model.norm", (BATCH, 5, 24), "no array has the shape of its tap"),
        ("model.norm", (BATCH, STEPS[0], 24), "the dump ends before the case does"),
    ],
)
def test_a_dump_of_something_else_is_refused_and_nothing_is_written(
    case: Case, name: str, shape: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    save_file({name: np.zeros(shape, np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match=says):
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
    assert [one.name for one in tmp_path.iterdir()] == ["own.safetensors"]


def test_a_dump_of_other_ids_is_refused(case: Case, tmp_path: Path) -> None:
    ids = case.arrays["input_ids"] + 1
    save_file({"input_ids": ids, "model.norm": np.zeros((BATCH, SLOTS, 24), np.float32)}, tmp_path / "own.safetensors")
    with pytest.raises(ParityError, match="input_ids is another than that of moe"):
        import_dump(tmp_path / "own.safetensors", case, path=tmp_path / "made.pb")
