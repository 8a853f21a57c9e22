"""A recording is written as a dump that other libraries read, and comes back as what it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from dumped import imported
from safetensors import safe_open
from safetensors.torch import load_file

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_reference.torch_tensors import to_torch


def exported(recording: Path | str, out: Path) -> Result:
    return CliRunner().invoke(main, ["dump", "export", str(recording), "--out", str(out)])


def test_the_libraries_read_every_tensor_as_it_was(case: Case, tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.npz"):
        assert exported("decoder/plain", tmp_path / name).exit_code == 0
    assert exported("op/rope", tmp_path / "a.safetensors").exit_code == 0  # what was there is replaced
    assert exported("decoder/plain", tmp_path / "a.safetensors").exit_code == 0
    tensors = load_file(tmp_path / "a.safetensors")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as npz:
        arrays = dict(npz)
    for item in case.golden:
        name = f"{item.info.step}.{item.info.name}"
        assert np.array_equal(arrays.pop(name), item.array) and np.array_equal(tensors.pop(name).numpy(), item.array)
    assert not arrays and not tensors


def test_elements_stand_at_multiples_of_their_size(tmp_path: Path) -> None:
    exported("decoder/plain", tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__")
    sizes = {"BOOL": 1, "F32": 4, "I64": 8}
    assert {entry["dtype"] for entry in header.values()} == sizes.keys()
    assert not [name for name, one in header.items() if (start + one["data_offsets"][0]) % sizes[one["dtype"]]]


def test_one_step_needs_no_number_and_the_metadata_says_case_and_axes(tmp_path: Path) -> None:
    exported("encoder/ragged", tmp_path / "a.safetensors")
    with safe_open(tmp_path / "a.safetensors", "np") as file:
        metadata = file.metadata()
        assert "encoder.layers.0.self_attn.q_norm" in file.keys()  # noqa: SIM118 - it is no mapping
    assert metadata["case"] == "encoder/ragged"
    axes = json.loads(metadata["axes"])["encoder.layers.0.self_attn.q_norm"]
    assert axes == ["batch", "query", "heads", "head_dim"]


def test_bfloat16_stays_what_it_is(tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases/llama/bfloat16.pb")
    for name in ("a.safetensors", "a.npz"):
        exported("llama/bfloat16", tmp_path / name)
    item = next(one for one in golden if one.info.dtype == pb.BF16)
    name = f"{item.info.step}.{item.info.name}"
    assert load_file(tmp_path / "a.safetensors")[name].equal(to_torch(item.array, pb.BF16))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as npz:
        assert np.array_equal(npz[name].view(np.uint16), item.array)


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Goldens as candidates, and one of them with a wrong channel at one step."""
    folder = tmp_path_factory.mktemp("candidates")
    found = {
        name: GOLDEN_ROOT / "cases" / f"{name}.pb" for name in ("decoder/plain", "llama/bfloat16", "encoder/ragged")
    }
    case = qwen3_parity.golden("decoder/plain")
    with qwen3_parity.record(None, case, path=folder / "wrong.pb") as recording:
        for item in case.golden:
            if not item.info.name.startswith("input."):
                array = item.array.copy()
                if item.key == ("decoder.layers.1.mlp.act", 2):
                    array[..., 3] += 1
                recording[item.info.name, item.info.step] = array
    return found | {"wrong": folder / "wrong.pb"}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("ending", ["safetensors", "npz"])
@pytest.mark.parametrize("name", ["decoder/plain", "llama/bfloat16", "encoder/ragged", "wrong"])
def test_there_and_back_the_verdict_is_the_same(
    name: str, ending: str, candidates: dict[str, Path], tmp_path: Path
) -> None:
    golden = "decoder/plain" if name == "wrong" else name
    dump = tmp_path / f"dump.{ending}"
    assert exported(candidates[name], dump).exit_code == 0
    made = imported(dump, golden=golden)
    assert made.exit_code == 0, made.output
    path = GOLDEN_ROOT / "cases" / f"{golden}.pb"
    before, after = (qwen3_parity.diagnose(path, one) for one in (candidates[name], tmp_path / "candidate.pb"))
    assert after.verdicts.word == before.verdicts.word == ("divergence" if name == "wrong" else "parity")
    assert after.verdicts.wrong_alone == before.verdicts.wrong_alone
    assert [(tap.where, tap.share) for tap in after.verdicts.taps] == [
        (tap.where, tap.share) for tap in before.verdicts.taps
    ]


def test_nothing_is_left_of_what_cannot_be_written(tmp_path: Path) -> None:
    made = exported("tokenization/words", tmp_path / "a.npz")
    assert made.exit_code == 2 and "it holds no tensors" in made.output
    made = exported("decoder/plain", tmp_path / "a.h5")
    assert made.exit_code == 2 and "ends in .safetensors or in .npz" in made.output
    (tmp_path / "b.npz").mkdir()
    made = exported("decoder/plain", tmp_path / "b.npz")
    assert made.exit_code == 2 and "expected:" in made.output
    assert [path.name for path in tmp_path.iterdir()] == ["b.npz"]
