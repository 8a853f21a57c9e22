"""Reading a golden file: a walk over its top-level fields, the tensors served from the memory map without copying."""

from __future__ import annotations

import hashlib
import mmap
import sys
import warnings
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np
from google.protobuf.message import DecodeError, Message

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import NUMPY, Array
from qwen3_golden.errors import ParityError
from qwen3_golden.recording import MAGIC, SCHEMA_MAJOR, SCHEMA_MINOR, Recording, Tensor

_HEADER, _PADDING, _PAYLOAD, _PROVENANCE, _CASE, _RUN, _PARAMETER, _TENSOR, _END = 1, 2, 3, 4, 5, 6, 7, 8, 15
_SINGULAR = (_HEADER, _PROVENANCE, _CASE, _RUN, _END)
_ALIGNMENT = 64
_REWRITE = "copy the file again or record it again"


def _refuse(path: Path, rule: str, expected: object, got: object, next_step: str = _REWRITE) -> NoReturn:
    raise ParityError(path, rule, expected=expected, got=got, next_step=next_step)


def _varint(data: mmap.mmap | bytes, position: int, path: Path) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if position >= len(data):
            _refuse(path, "the file is cut off inside a field", "more bytes", f"end of file at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    _refuse(path, "a field's size is not a number", "at most 10 bytes of varint", f"more, at byte {position}")


def _fields(data: mmap.mmap | bytes, path: Path) -> Iterator[tuple[int, int, int, int]]:
    """The top-level fields as (number, first byte of the field, first byte of its content, end of its content)."""
    position = 0
    while position < len(data):
        start = position
        tag, position = _varint(data, position, path)
        if tag & 7 != 2:
            _refuse(path, "not a golden file", "length-delimited fields only", f"wire type {tag & 7} at byte {start}")
        size, position = _varint(data, position, path)
        if position + size > len(data):
            _refuse(path, "the file is cut off inside a field", f"{size} bytes at byte {position}", "end of file")
        yield tag >> 3, start, position, position + size
        position += size


def _parse(message: Message, data: mmap.mmap | bytes, span: tuple[int, int], path: Path) -> None:
    try:
        message.ParseFromString(data[span[0] : span[1]])
    except DecodeError as error:
        _refuse(path, f"the field {type(message).__name__} cannot be parsed", "a protobuf message", error)


def _check_header(data: mmap.mmap | bytes, path: Path) -> None:
    """The header stands first, so that a foreign file or another schema is named before anything else is looked at."""
    first = next(_fields(data, path), None) if data[:1] == b"\x0a" else None
    header = pb.Header()
    if first is not None:
        try:
            header.ParseFromString(data[first[2] : first[3]])
        except DecodeError:
            first = None
    if first is None or header.magic != MAGIC:
        got = header.magic or (bytes(data[:8]) if len(data) else "an empty file")
        _refuse(path, "not a golden file", f"a header with magic {MAGIC!r} first", repr(got), "give a .pb recording")
    if header.schema_major != SCHEMA_MAJOR:
        _refuse(
            path,
            "this schema version is not ours",
            f"major version {SCHEMA_MAJOR}",
            f"{header.schema_major}.{header.schema_minor}",
            "use the release of qwen3-parity that wrote it",
        )
    if header.schema_minor > SCHEMA_MINOR:
        warnings.warn(
            f"{path}: schema {header.schema_major}.{header.schema_minor} is newer than ours"
            f" ({SCHEMA_MAJOR}.{SCHEMA_MINOR}); fields that we do not know are ignored",
            stacklevel=4,
        )


def _view(data: mmap.mmap | bytes, start: int, info: pb.Tensor) -> Array:
    dtype = NUMPY[info.dtype]
    count = prod(info.shape)
    array: Array
    if start % _ALIGNMENT and start % dtype.itemsize:
        array = np.frombuffer(data[start : start + count * dtype.itemsize], dtype)  # re-written by a stock library
    else:
        array = np.frombuffer(data, dtype, count, start)
    if sys.byteorder == "big":
        array = array.astype(dtype.newbyteorder("="))
    return array.reshape(tuple(info.shape))


def _tensor(data: mmap.mmap | bytes, info: pb.Tensor, span: tuple[int, int], path: Path) -> Tensor:
    where, size = f"{info.name} (step {info.step})", span[1] - span[0]
    if info.dtype not in NUMPY:
        _refuse(path, f"{where} has no valid dtype", ", ".join(pb.DType.Name(code) for code in NUMPY), info.dtype)
    needed = prod(info.shape) * NUMPY[info.dtype].itemsize
    if not needed == info.bytes == size:
        shape = "x".join(map(str, info.shape)) or "scalar"
        _refuse(
            path,
            f"{where}: its size disagrees with its shape",
            f"{needed} bytes for {shape} {pb.DType.Name(info.dtype)}",
            f"{size} bytes in the payload, {info.bytes} in the metadata",
        )
    if len(info.axes) not in (0, len(info.shape)):
        _refuse(path, f"{where}: its axes disagree with its shape", f"{len(info.shape)} names", list(info.axes))
    if info.dtype == pb.BOOL and size and np.frombuffer(data, np.uint8, size, span[0]).max() > 1:
        _refuse(path, f"{where}: a bool is neither 0 nor 1", "bytes 0 and 1", "another byte")
    return Tensor(info, _view(data, span[0], info))


def verify(recording: Recording) -> None:
    """Hash every tensor and compare it with its SHA-256; raises `ParityError` for a tensor that was changed.

    A tensor that was written without a digest is not checked.
    """
    for tensor in recording:
        if not tensor.info.sha256:
            continue
        got = hashlib.sha256(np.ascontiguousarray(tensor.array).data).digest()
        if got != tensor.info.sha256:
            raise ParityError(
                recording.source,
                f"{tensor.info.name} (step {tensor.info.step}) is not what was written",
                expected=f"SHA-256 {tensor.info.sha256.hex()}",
                got=got.hex(),
                next_step=_REWRITE,
            )


def read(path: str | Path, *, digests: bool = False) -> Recording:
    """Map a golden file into memory and give its recording; the arrays are read-only views of the file.

    Counts, sizes, shapes, the order of the file and the metadata's digest are always checked; `digests` also hashes
    every tensor. Raises `ParityError` for a file that is missing, damaged, of another schema or not a golden file.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            data: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        _refuse(path, "the file cannot be read", "a readable file", error.strerror, "check the path")
    _check_header(data, path)

    counts = dict.fromkeys(_SINGULAR, 0)
    payloads: list[tuple[int, int]] = []
    infos: list[pb.Tensor] = []
    parameters: list[pb.Parameter] = []
    provenance, case, run, end = pb.Provenance(), pb.Case(), pb.Run(), pb.End()
    singular: dict[int, Message] = {_PROVENANCE: provenance, _CASE: case, _RUN: run, _END: end}
    metadata = end_start = 0
    number = 0
    for number, start, begin, stop in _fields(data, path):
        if number in counts:
            counts[number] += 1
        if number == _PAYLOAD:
            payloads.append((begin, stop))
        if number in (_HEADER, _PADDING, _PAYLOAD):
            metadata = stop
        elif number == _TENSOR:
            infos.append(pb.Tensor())
            _parse(infos[-1], data, (begin, stop), path)
        elif number == _PARAMETER:
            parameters.append(pb.Parameter())
            _parse(parameters[-1], data, (begin, stop), path)
        elif number in singular:
            _parse(singular[number], data, (begin, stop), path)
            end_start = start
    names = {_HEADER: "header", _PROVENANCE: "provenance", _CASE: "case", _RUN: "run", _END: "end"}
    wrong = [f"{count} × {names[number]}" for number, count in counts.items() if count != 1]
    if wrong or number != _END:
        _refuse(
            path,
            "the file is cut off, or two files stand in one",
            "one each of header, provenance, case, run and end, in this order",
            ", ".join(wrong) or "something after end",
        )
    total = sum(stop - begin for begin, stop in payloads)
    if not (end.tensors == len(payloads) == len(infos) and end.payload_bytes == total):
        _refuse(
            path,
            "counts in the file disagree",
            f"{end.tensors} tensors of {end.payload_bytes} bytes, as `end` says",
            f"{len(payloads)} payloads of {total} bytes, {len(infos)} tensors",
        )
    digest = hashlib.sha256(data[metadata:end_start]).digest()
    if digest != end.digest:
        _refuse(path, "the metadata was changed after it was written", f"SHA-256 {end.digest.hex()}", digest.hex())
    tensors = [_tensor(data, info, span, path) for info, span in zip(infos, payloads, strict=True)]
    recording = Recording(case, provenance, run, tensors, parameters, str(path), digest)
    if digests:
        verify(recording)
    return recording
