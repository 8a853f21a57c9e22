"""Dumps in safetensors: a file, or a folder of them, each name an array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qwen3_golden import pb
from qwen3_parity.recording.dumps.dump import Dumped, by_forward, reading
from qwen3_reference.checkpoints import safetensors_header
from qwen3_reference.checkpoints.stored import read_safetensors

DTYPES = {
    **safetensors_header.DTYPES,
    "I64": (pb.I64, "<i8"),
    "I32": (pb.I32, "<i4"),
    "U8": (pb.U8, "u1"),
    "BOOL": (pb.BOOL, "?"),
}
"""safetensors' word -> the schema's dtype and NumPy's: all that a recording may hold."""


def read_file(path: Path) -> list[Dumped]:
    """Every tensor of one file; raises `ParityError` for one that is damaged."""
    with reading(path):
        tensors = read_safetensors(path, DTYPES)
    return [
        Dumped(name, tensor.bits.shape, tensor.dtype, lambda bits=tensor.bits: bits, path)  # type: ignore[misc]
        for name, tensor in tensors.items()
    ]


def read_files(paths: Sequence[Path]) -> list[Dumped]:
    """Every tensor of several files, see `by_forward`."""
    return by_forward(read_file(path) for path in paths)
