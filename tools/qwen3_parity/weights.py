"""The parameters of a recording's case, for computing its ops again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qwen3_golden import Array, Recording, pb
from qwen3_parity.record import checkpoint_directories
from qwen3_reference.weights import load_weights

_STORED = {pb.ARITHMETIC_BF16: pb.BF16, pb.ARITHMETIC_F16: pb.F16}


def weights_of(recording: Recording, root: Path, model: Path | None = None) -> Mapping[str, Array]:
    """Canonical name to values, as the run's arithmetic loads them, read when they are asked for.

    The checkpoints are below `root`, or all in `model`. Raises `ParityError` for one that is missing or damaged.
    """
    directories = checkpoint_directories(recording.case, root, model)
    dtype = _STORED.get(recording.run.arithmetic, pb.F32)
    return load_weights(directories.get("encoder"), directories.get("decoder"), dtype)
