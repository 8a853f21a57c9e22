"""The example port passes on exported checkpoints: all that it reads is protobuf."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from committed import Committed, committed
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity import check
from qwen3_parity.checkpoints.export_weights import export_weights
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens


def is_forward(golden: Committed) -> bool:
    """Causal in float32 and not trained: the port runs forward, it has no gradients."""
    case, arithmetic = golden.case, golden.run.arithmetic
    return case.mode == pb.CAUSAL and arithmetic == pb.ARITHMETIC_F32 and not case.HasField("training")


CASES = [p for p in goldens(kinds=()) if is_forward(committed(p))]


@pytest.fixture(scope="module")
def port() -> Any:
    spec = importlib.util.spec_from_file_location("numpy_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every checkpoint of these cases, exported in small parts."""
    folder = tmp_path_factory.mktemp("exports")
    for name in sorted({checkpoint.name for path in CASES for checkpoint in committed(path).case.checkpoint}):
        export_weights(GOLDEN_ROOT / "checkpoints" / name, folder / name, name, 100_000)
    return folder


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_numpy_port_is_within_budget_from_an_exported_checkpoint(
    path: Path, port: Any, exports: Path, tmp_path: Path
) -> None:
    assert not list(exports.rglob("*.safetensors")) and len(list(exports.rglob("weights-*.pb"))) > 3
    record(read(path), tmp_path / "port.pb", port.factory, checkpoints=exports)
    verdicts = check(path, tmp_path / "port.pb")
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared == verdicts.of


def test_a_port_that_reads_a_key_matrix_transposed_is_found(
    port: Any, exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_right = port.stored

    def read_wrong(directory: Path) -> Any:
        for name, array in read_right(directory):
            wrong = name == "model.layers.1.self_attn.k_proj.weight"
            yield name, array.reshape(array.shape[::-1]).T if wrong else array

    monkeypatch.setattr(port, "stored", read_wrong)
    path = GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb"
    record(read(path), tmp_path / "port.pb", port.factory, checkpoints=exports)
    verdicts = check(path, tmp_path / "port.pb")
    assert verdicts.first_bad is not None and verdicts.first_bad.name == "decoder.layers.1.merged_attn.k_proj"
