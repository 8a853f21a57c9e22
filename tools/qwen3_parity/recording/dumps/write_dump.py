"""A recording as other tools read arrays: one safetensors file, or an .npz."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from qwen3_golden import Array, ParityError, Recording, Tensor, pb
from qwen3_golden.whole import temporary
from qwen3_parity.recording.dumps.safetensors_files import DTYPES

WORDS = {code: word for word, (code, _) in DTYPES.items()}
"""The schema's dtype -> safetensors' word."""


def named(recording: Recording) -> dict[str, Tensor]:
    """The tensors by tap, or by "step.tap" where the case has several steps, in the order of the recording."""
    several = any(item.info.step for item in recording)
    return {f"{item.info.step}.{item.info.name}" if several else item.info.name: item for item in recording}


def write_dump(recording: Recording, path: Path) -> int:
    """Write every tensor to `path`, whole or not at all, by its ending .safetensors or .npz; returns how many.

    In safetensors the metadata holds the case and the axes, `{name: [axis, …]}` as JSON. NumPy has no bfloat16: an .npz
    holds its two bytes without a type, as ml_dtypes saves them. Raises `ParityError` for a recording without tensors.
    """
    tensors = named(recording)
    if not tensors:
        raise ParityError(
            recording.source,
            "it holds no tensors",
            expected="the recording of a network or of an op",
            got=f"{recording.case.name}, {pb.Mode.Name(recording.case.mode)}",
            next_step="qwen3-parity show prints what it holds",
        )
    write: Callable[[BinaryIO, Recording, Mapping[str, Tensor]], None]
    write = _npz if path.suffix == ".npz" else _safetensors
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = temporary(path)
    try:
        with beside.open("xb") as file:
            write(file, recording, tensors)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return len(tensors)


def _npz(file: BinaryIO, _recording: Recording, tensors: Mapping[str, Tensor]) -> None:
    arrays = {
        name: tensor.array.view("V2") if tensor.info.dtype == pb.BF16 else tensor.array
        for name, tensor in tensors.items()
    }
    np.savez(file, allow_pickle=False, **arrays)


def _safetensors(file: BinaryIO, recording: Recording, tensors: Mapping[str, Tensor]) -> None:
    axes = {name: list(tensor.info.axes) for name, tensor in tensors.items()}
    arrays = {name: (tensor.info.dtype, tensor.array) for name, tensor in tensors.items()}
    write_safetensors(file, arrays, {"case": recording.case.name, "axes": json.dumps(axes)})


def write_safetensors(
    file: BinaryIO, arrays: Mapping[str, tuple[pb.DType, Array]], metadata: Mapping[str, str]
) -> None:
    """Write arrays with their dtypes, bfloat16 as uint16 bits: the same arrays in the same order, the same bytes."""
    # The widest first, as the library does: readers map the file, and elements stand at multiples of their size.
    widest = sorted(arrays, key=lambda name: -arrays[name][1].itemsize)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in widest:
        dtype, array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": WORDS[dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in widest:
        file.write(np.ascontiguousarray(arrays[name][1]).reshape(-1).view(np.uint8).data)
