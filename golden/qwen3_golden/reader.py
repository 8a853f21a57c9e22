"""Reading a golden file: a walk over its top-level fields, the tensors served from the memory map without copying."""

from __future__ import annotations

import hashlib
import mmap
import os
import warnings
from pathlib import Path
from typing import NoReturn

import numpy as np
from google.protobuf.message import DecodeError

from qwen3_golden import golden_pb2 as pb
from qwen3_golden import wire
from qwen3_golden.dtypes import NUMPY, Array
from qwen3_golden.errors import ParityError
from qwen3_golden.recording import MAGIC, SCHEMA_MAJOR, SCHEMA_MINOR, Recording, Tensor
from qwen3_golden.regular_file import open_regular
from qwen3_golden.rules import check_metadata, check_once, check_tensor

_ONCE = {
    wire.HEADER: "header",
    wire.PROVENANCE: "provenance",
    wire.CASE: "case",
    wire.RUN: "run",
    wire.END: "end",
}
_REWRITE = "copy the file again or record it again"


def _refuse(path: Path, rule: str, expected: object, got: object, next_step: str = _REWRITE) -> NoReturn:
    raise ParityError(path, rule, expected=expected, got=got, next_step=next_step)


def _map(path: Path) -> wire.Data:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:  # ValueError: a path that cannot be one, or a file that shrinks meanwhile
        _refuse(path, "the file cannot be read", "a readable file", error, "check the path")


def _header(data: wire.Data, path: Path) -> pb.Header:
    """The header stands first, so that a foreign file or another schema is named before anything else is looked at."""
    header = pb.Header()
    try:
        first = next(wire.fields(data, path), None)
        if first is not None and first.number == wire.HEADER:
            header.ParseFromString(data[first.begin : first.end])
    except (ParityError, DecodeError):
        header.Clear()
    if header.magic != MAGIC:
        got = repr(header.magic or bytes(data[:8])) if data else "an empty file"
        _refuse(path, "not a golden file", f"a header with magic {MAGIC!r} first", got, "give a .pb recording")
    version = f"{header.schema_major}.{header.schema_minor}"
    if header.schema_major != SCHEMA_MAJOR:
        next_step = "use the release of qwen3-parity that wrote it"
        _refuse(path, "this schema version is not ours", f"major version {SCHEMA_MAJOR}", version, next_step)
    return header


def _layout(data: wire.Data, path: Path) -> tuple[list[wire.Field], slice, slice]:
    """The payloads, and where the metadata and `end` stand, of a file whose fields are in the order of the schema."""
    fields = list(wire.fields(data, path))
    numbers = [field.number for field in fields]
    counts = {name: numbers.count(number) for number, name in _ONCE.items()}
    wrong = [f"{count} × {name}" for name, count in counts.items() if count != 1]
    if wrong or numbers[-1] != wire.END:
        _refuse(
            path,
            "the file is cut off, or two files stand in one",
            "one each of header, provenance, case, run and end, and end last",
            ", ".join(wrong) or "something after end",
        )
    ahead = (wire.HEADER, wire.PADDING, wire.PAYLOAD)
    first = next(i for i, number in enumerate(numbers) if number not in ahead)
    if not set(ahead).isdisjoint(numbers[first:]):
        _refuse(path, "the fields are not in order", "the payloads, then the metadata", "a payload after metadata")
    payloads = [field for field in fields if field.number == wire.PAYLOAD]
    return payloads, slice(fields[first].start, fields[-1].start), slice(fields[-1].start, len(data))


def _array(data: wire.Data, info: pb.Tensor, start: int, path: Path) -> Array:
    """The elements in place, or a copy where a library that re-wrote the file has left them unaligned; read-only."""
    dtype, count = NUMPY[info.dtype], info.bytes // NUMPY[info.dtype].itemsize
    array: Array
    if start % dtype.itemsize:
        array = np.frombuffer(data[start : start + info.bytes], dtype)
    else:
        array = np.frombuffer(data, dtype, count, start)
    if info.dtype == pb.BOOL and count and array.view(np.uint8).max() > 1:
        _refuse(path, f"{info.name} (step {info.step}): a bool is neither 0 nor 1", "bytes 0 and 1", "another byte")
    try:
        return array.reshape(tuple(info.shape))
    except (ValueError, OverflowError) as error:  # no elements, but other dimensions beyond any memory
        _refuse(path, f"{info.name} (step {info.step}): its shape is impossible", "a shape", error)


def verify(recording: Recording) -> None:
    """Hash every tensor and compare it with its SHA-256; raises `ParityError` for a tensor that was changed.

    A tensor that was written without a digest is not checked.
    """
    for tensor in recording:
        expected = bytes(tensor.info.sha256)  # the stub's type is hidden by the field named bytes
        if not expected:
            continue
        got = hashlib.sha256(np.ascontiguousarray(tensor.array).data).digest()
        if got != expected:
            raise ParityError(
                recording.source,
                f"{tensor.info.name} (step {tensor.info.step}) is not what was written",
                expected=f"SHA-256 {expected.hex()}",
                got=got.hex(),
                next_step=_REWRITE,
            )


def read(path: str | Path, *, digests: bool = False) -> Recording:
    """Map a golden file into memory and give its recording; the arrays are read-only views of the file.

    Counts, sizes, shapes, names, the order of the file and the metadata's digest are always checked; `digests` also
    hashes every tensor. Raises `ParityError` for a file that is missing, damaged, of another schema or not a golden
    file. The file must not shrink while its arrays are in use; `Writer` replaces files and never changes one.
    """
    path = Path(path)
    data = _map(path)
    header = _header(data, path)
    if header.schema_minor > SCHEMA_MINOR:
        warnings.warn(
            f"{path}: schema {header.schema_major}.{header.schema_minor} is newer than ours"
            f" ({SCHEMA_MAJOR}.{SCHEMA_MINOR}); fields that we do not know are ignored",
            stacklevel=2,
        )
    payloads, metadata, end = _layout(data, path)
    message = pb.Recording()
    try:
        message.ParseFromString(data[metadata] + data[end])
    except DecodeError as error:
        _refuse(path, "the metadata cannot be parsed", "a protobuf message", error)
    total = sum(field.end - field.begin for field in payloads)
    if not (message.end.tensors == len(payloads) == len(message.tensor) and message.end.payload_bytes == total):
        _refuse(
            path,
            "counts in the file disagree",
            f"{message.end.tensors} tensors of {message.end.payload_bytes} bytes, as `end` says",
            f"{len(payloads)} payloads of {total} bytes, {len(message.tensor)} tensors",
        )
    digest = hashlib.sha256(data[metadata]).digest()
    if digest != message.end.digest:
        got = digest.hex()
        _refuse(path, "the metadata was changed after it was written", f"SHA-256 {message.end.digest.hex()}", got)
    graph = message.graph if message.HasField("graph") else None
    check_metadata(path, message.case, message.run, message.parameter, graph, message.provenance.producer)
    tensors, keys = [], set[tuple[str, int]]()
    for info, field in zip(message.tensor, payloads, strict=True):
        check_tensor(path, info, field.end - field.begin)
        check_once(path, info, keys)
        tensors.append(Tensor(info, _array(data, info, field.begin, path)))
    recording = Recording(
        case=message.case,
        provenance=message.provenance,
        run=message.run,
        tensors=tensors,
        parameters=list(message.parameter),
        tokenization=message.tokenization,
        weights=message.weights,
        graph=message.graph,
        source=str(path),
        digest=digest,
    )
    if digests:
        verify(recording)
    return recording
