"""The tensors of a checkpoint directory as they are stored: safetensors files mapped into memory, one or several."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, pb, to_bfloat16, to_float32

_DTYPES: dict[str, tuple[pb.DType, str]] = {
    "F64": (pb.F64, "<f8"),
    "F32": (pb.F32, "<f4"),
    "F16": (pb.F16, "<f2"),
    "BF16": (pb.BF16, "<u2"),
}
_AGAIN = "download or save the checkpoint again"


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as stored, a read-only view of its file; bfloat16 as uint16 bits."""

    dtype: pb.DType
    bits: Array
    file: Path

    def float32(self) -> Array:
        """The values in float32: exact for float32, bfloat16 and float16, rounded for float64."""
        return to_float32(self.bits) if self.dtype == pb.BF16 else self.bits.astype(np.float32, copy=False)

    def loaded(self, dtype: pb.DType) -> Array:
        """The elements that a model of `dtype` (F32, BF16 or F16) holds after loading, bfloat16 as bits."""
        if dtype == self.dtype:
            return self.bits
        values = self.float32()
        return to_bfloat16(values) if dtype == pb.BF16 else values.astype({pb.F32: "<f4", pb.F16: "<f2"}[dtype])


def _broken(path: Path, rule: str, expected: object, got: object) -> ParityError:
    return ParityError(path, rule, expected=expected, got=got, next_step=_AGAIN)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; `ParityError` when it is missing, no JSON, or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _broken(path, "the file cannot be read", "a readable file", error.strerror) from None
    except ValueError as error:
        raise _broken(path, "the file is not JSON", "a JSON object", error) from None
    if not isinstance(content, dict):
        raise _broken(path, "the file holds no JSON object", "a JSON object", type(content).__name__)
    return content


def read_config(directory: Path) -> dict[str, Any]:
    """The config.json of a checkpoint directory; raises as `read_json`."""
    return read_json(directory / "config.json")


def _view(path: Path, name: str, entry: Any, data: mmap.mmap, start: int) -> Stored:
    """One entry of a safetensors header as a view of the file; `start` is where the data section begins."""
    try:
        code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise _broken(path, f"the header's entry of {name} is damaged", "dtype, shape, data_offsets", entry) from None
    if code not in _DTYPES:
        raise _broken(path, f"{name} is stored in an unknown dtype", "one of " + ", ".join(_DTYPES), code)
    dtype, numpy_dtype = _DTYPES[code]
    count = math.prod(shape)
    if end - begin != count * np.dtype(numpy_dtype).itemsize:
        raise _broken(
            path, f"the size of {name} disagrees with its shape {list(shape)}", f"{count} elements", end - begin
        )
    if not 0 <= begin <= end <= len(data) - start:
        raise _broken(path, f"the file is cut off within {name}", f"{start + end} bytes or more", f"{len(data)} bytes")
    return Stored(dtype, np.frombuffer(data, numpy_dtype, count, start + begin).reshape(shape), path)


def _read_file(path: Path) -> dict[str, Stored]:
    """Every tensor of one safetensors file (8 bytes of header size, a JSON header, the data)."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size < 8:
                raise _broken(path, "the file is cut off", "a safetensors file", f"{size} bytes")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _broken(path, "the file cannot be read", "a readable file", error.strerror) from None
    length = int.from_bytes(data[:8], "little")
    if 8 + length > size:
        raise _broken(path, "the file is cut off in its header", f"{8 + length} bytes or more", f"{size} bytes")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise _broken(path, "the header is not JSON", "a safetensors header", error) from None
    header.pop("__metadata__", None)
    tensors = {name: _view(path, name, entry, data, 8 + length) for name, entry in header.items()}
    used = sum(tensor.bits.nbytes for tensor in tensors.values())
    if 8 + length + used != size:
        raise _broken(path, "bytes of the file belong to no tensor", f"{8 + length + used} bytes", f"{size} bytes")
    return tensors


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a checkpoint: those that its index names, or model.safetensors."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return [directory / "model.safetensors"]
    names = read_json(index).get("weight_map")
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
        raise _broken(index, "the index has no weight_map", "tensor name -> file name", names)
    return [directory / name for name in sorted(set(names.values()))]


def read_directory(directory: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint directory under its stored name; a tensor in two files is refused."""
    return dict(_read_directory(directory.resolve()))


@lru_cache(maxsize=8)
def _read_directory(directory: Path) -> Mapping[str, Stored]:
    tensors: dict[str, Stored] = {}
    for path in weight_files(directory):
        for name, tensor in _read_file(path).items():
            if name in tensors:
                raise _broken(
                    path, f"{name} is stored twice", "one file for each tensor", f"also in {tensors[name].file}"
                )
            tensors[name] = tensor
    return tensors
