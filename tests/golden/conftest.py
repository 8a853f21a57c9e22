"""A small recording with every dtype, an empty tensor and a scalar, in memory and as a file."""

from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import Recording, pb, tensor, write


@pytest.fixture(scope="session")
def recording() -> Recording:
    values = np.arange(6).reshape(2, 3)
    tensors = [
        tensor("t.f64", values.astype("f8"), axes=("row", "column")),
        tensor("t.f32", values.astype("f4"), step=1, op="linear", inputs=("t.f64",)),
        tensor("t.f16", values.astype("f2")),
        tensor("t.bf16", values.astype("u2"), dtype=pb.BF16),
        tensor("t.i64", values.astype("i8")),
        tensor("t.i32", values.astype("i4")),
        tensor("t.u8", values.astype("u1")),
        tensor("t.bool", values.astype("?")),
        tensor("t.scalar", np.array(2.5, "f4")),
        tensor("t.empty", np.zeros((0, 3), "f4")),
    ]
    parameter = pb.Parameter(name="w.weight", dtype=pb.F32, shape=[2, 3], sha256=bytes(32))
    return Recording(
        case=pb.Case(name="test/small", mode=pb.PLUMBING, tier=pb.TIER_OP, description="Every dtype."),
        provenance=pb.Provenance(producer="test", versions=[pb.Pair(key="numpy", value="2")]),
        run=pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER, materialised=["t.f32"]),
        tensors=tensors,
        parameters=[parameter],
    )


@pytest.fixture(scope="session")
def golden(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `recording`; tests read it and never change it."""
    path = tmp_path_factory.mktemp("golden") / "small.pb"
    write(path, recording)
    return path
