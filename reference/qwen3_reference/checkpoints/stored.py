"""The tensors of a checkpoint directory as they are stored, mapped into memory: safetensors files, or exported ones."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, is_exported, pb, read_parts, to_bfloat16, to_float32
from qwen3_golden.regular_file import open_inside, read_at_most
from qwen3_reference.checkpoints.config_bounds import out_of_bounds
from qwen3_reference.checkpoints.exported import content_of
from qwen3_reference.checkpoints.safetensors_header import DTYPES, SIZE_BYTES, broken, read_header
from qwen3_reference.checkpoints.strict_json import parse

INDEX = "model.safetensors.index.json"
ENDING = ".safetensors"
MAX_JSON_BYTES = 1 << 26
_BLOCK = 1 << 22  # elements compared at a time


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as stored, a read-only view of its file; bfloat16 as uint16 bits."""

    dtype: pb.DType
    bits: Array
    file: Path

    def float32(self) -> Array:
        """The values in float32: exact for float32, bfloat16 and float16, rounded for float64."""
        return to_float32(self.bits) if self.dtype == pb.BF16 else self.bits.astype(np.float32, copy=False)

    def equals(self, other: Stored) -> bool:
        """Whether both have the same dtype, shape and bits; some rows at a time."""
        if (self.dtype, self.bits.shape) != (other.dtype, other.bits.shape):
            return False
        bits, others = (tensor.bits.reshape(-1).view(f"u{tensor.bits.itemsize}") for tensor in (self, other))
        return all(np.array_equal(bits[i : i + _BLOCK], others[i : i + _BLOCK]) for i in range(0, bits.size, _BLOCK))

    def not_finite(self) -> tuple[float, list[int]] | None:
        """The first value that is NaN or infinite and its indices, None without one; some rows at a time."""
        flat = self.bits.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            wrong = block & 0x7F80 == 0x7F80 if self.dtype == pb.BF16 else ~np.isfinite(block)
            if wrong.any():
                at = start + int(wrong.argmax())
                value = Stored(self.dtype, flat[at : at + 1], self.file).float32()
                return float(value[0]), [int(index) for index in np.unravel_index(at, self.bits.shape)]
        return None

    def loaded(self, dtype: pb.DType) -> Array:
        """The elements that a model of `dtype` (F32, BF16 or F16) holds after loading, bfloat16 as bits."""
        if dtype == self.dtype:
            return self.bits
        values = self.float32()
        return to_bfloat16(values) if dtype == pb.BF16 else values.astype({pb.F32: "<f4", pb.F16: "<f2"}[dtype])


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; `ParityError` when it is missing, no JSON, or no object."""
    try:
        with open_inside(path) as file:
            content = read_at_most(file, MAX_JSON_BYTES)
    except OSError as error:
        raise broken(path, "the file cannot be read", "a readable file", error.strerror) from None
    return _json_object(path, content)


def _json_object(path: Path, text: bytes) -> dict[str, Any]:
    def twice(name: str, _: object) -> ParityError:
        return broken(path, "the file has a name twice in one object", "each name once", name)

    try:
        content = parse(text.decode("utf-8"), twice)
    except ValueError as error:
        raise broken(path, "the file is not JSON", "a JSON object", error) from None
    if not isinstance(content, dict):
        raise broken(path, "the file holds no JSON object", "a JSON object", type(content).__name__)
    return content


def read_config(directory: Path, *, of_any_family: bool = False) -> dict[str, Any]:
    """The config.json of a checkpoint directory, exported or not, within `config_bounds`; raises as `read_json`.

    `of_any_family` as there.
    """
    path = directory / "config.json"
    if is_exported(directory):
        content = _json_object(path, content_of(read_parts(directory), "config.json"))
    else:
        content = read_json(path)
    if (wrong := out_of_bounds(content, of_any_family=of_any_family)) is not None:
        field, expected, got = wrong
        raise broken(path, f"{field} is out of bounds", expected, got)
    return content


def read_safetensors(path: Path, dtypes: Mapping[str, tuple[pb.DType, str]] = DTYPES) -> dict[str, Stored]:
    """Every tensor of one safetensors file, of these dtypes; raises `ParityError` for one that is damaged."""
    try:
        with open_inside(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < SIZE_BYTES:
                raise broken(path, "the file is cut off", "a safetensors file", f"{size} bytes")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise broken(path, "the file cannot be read", "a readable file", error.strerror) from None
    start = SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], "little")
    if start > size:
        raise broken(path, "the file is cut off in its header", f"{start} bytes or more", f"{size} bytes")
    tensors, header = {}, read_header(path, data[SIZE_BYTES:start], size - start, dtypes)
    for name, (dtype, numpy, shape, begin, end) in header.items():
        count = (end - begin) // np.dtype(numpy).itemsize
        tensors[name] = Stored(dtype, np.frombuffer(data, numpy, count, start + begin).reshape(shape), path)
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    """Tensor name -> file name, as an index has it."""
    names = read_json(index).get("weight_map")
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
        raise broken(index, "the index has no weight_map", "tensor name -> file name", names)
    if foreign := sorted({name for name in names.values() if Path(name).name != name or Path(name).suffix != ENDING}):
        got = ", ".join(map(repr, foreign))
        raise broken(index, "the index names no file of the directory", f"names that end in {ENDING}", got)
    return dict(names)


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a checkpoint: those that its index names, or model.safetensors."""
    index, single = directory / INDEX, directory / "model.safetensors"
    if not index.exists():
        if not single.exists():
            raise broken(directory, "there are no weights", f"{single.name} or {INDEX}", "neither")
        return [single]
    return [directory / name for name in sorted(set(_weight_map(index).values()))]


def read_directory(directory: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint directory, exported or not, under its stored name.

    Raises `ParityError` for files that are damaged, for a tensor in two files, and for an index that says otherwise.
    """
    directory = directory.resolve()
    files = sorted(path for path in directory.glob("*") if path.suffix in (ENDING, ".json", ".pb") and path.is_file())
    state = tuple((path.name, status.st_size, status.st_mtime_ns) for path in files for status in [path.stat()])
    return dict(_read_directory(directory, state))


@lru_cache(maxsize=8)
def _read_directory(directory: Path, _state: tuple[tuple[str, int, int], ...]) -> Mapping[str, Stored]:
    """`_state` is what the directory looks like: another one is read again."""
    if is_exported(directory):
        parts = read_parts(directory)
        return {t.info.name: Stored(t.info.dtype, t.array, Path(part.source)) for part in parts for t in part}
    tensors: dict[str, Stored] = {}
    for path in weight_files(directory):
        for name, tensor in read_safetensors(path).items():
            if name in tensors:
                raise broken(
                    path, f"{name} is stored twice", "one file for each tensor", f"also in {tensors[name].file}"
                )
            tensors[name] = tensor
    if (index := directory / INDEX).exists():
        places = _weight_map(index)
        for name in sorted(places.keys() | tensors.keys()):
            got = tensors[name].file.name if name in tensors else "no file"
            if places.get(name) != got:
                raise broken(index, f"the index has {name} at another place", got, places.get(name, "nowhere"))
    return tensors
