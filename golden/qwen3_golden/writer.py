"""Writing a golden file: payloads as they come, metadata last, the finished file renamed into place."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Self

import numpy as np
from google.protobuf.message import Message

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import NUMPY, Array, dtype_of
from qwen3_golden.errors import ParityError
from qwen3_golden.recording import MAGIC, SCHEMA_MAJOR, SCHEMA_MINOR, Recording, Tensor

_ALIGNMENT = 64
_PENDING_BYTES = 1 << 28  # arrays that wait for the disk are kept alive, but no more than this


def tensor(
    name: str,
    array: Array,
    *,
    step: int = 0,
    dtype: pb.DType | None = None,
    axes: Iterable[str] = (),
    op: str = "",
    inputs: Iterable[str] = (),
) -> Tensor:
    """A `Tensor` of an array of any shape; `dtype` is needed for bfloat16 bits (uint16) alone."""
    code = dtype_of(array) if dtype is None else dtype
    info = pb.Tensor(name=name, step=step, dtype=code, shape=array.shape, axes=axes, op=op, inputs=inputs)
    info.bytes = array.size * NUMPY[code].itemsize
    return Tensor(info, array)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


class Writer:
    """Streams one recording into `path`; a context manager that leaves either the whole file or nothing.

    `add` returns at once: hashing and writing go on beside the caller, in the order of the calls. An array that was
    given must not change until `finish`. `digests=False` leaves the tensors' SHA-256 out. Raises `ParityError` when
    the disk cannot take the file.
    """

    def __init__(self, path: str | Path, *, digests: bool = True) -> None:
        self.path = Path(path)
        self.infos: list[pb.Tensor] = []
        self._digests = digests
        self._payload_bytes = 0
        self._pending: deque[tuple[Future[None], int]] = deque()
        self._pending_bytes = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}.", delete=False)
        except OSError as error:
            raise self._disk_error(error) from None
        self._worker = ThreadPoolExecutor(1)
        header = pb.Header(magic=MAGIC, schema_major=SCHEMA_MAJOR, schema_minor=SCHEMA_MINOR)
        self._position = 0
        self._write(_field(1, header.SerializeToString()))

    def _disk_error(self, error: OSError) -> ParityError:
        return ParityError(
            self.path,
            "the recording cannot be written",
            expected="a folder that exists and a disk with space",
            got=error.strerror or error,
            next_step="free space or choose another folder; nothing was left behind",
        )

    def _write(self, content: bytes | memoryview) -> None:
        self._file.write(content)
        self._position += len(content)

    def _payload(self, info: pb.Tensor, array: Array) -> None:
        content = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        if self._digests:
            info.sha256 = hashlib.sha256(content).digest()
        size = _varint(len(content))
        padding = -(self._position + 3 + len(size)) % _ALIGNMENT
        self._write(_field(2, bytes(padding)))
        self._write(b"\x1a" + size)
        self._write(content)

    def add(self, item: Tensor) -> None:
        """Append a tensor; its bytes are written as they are, row-major and little-endian."""
        if item.array.dtype.byteorder == ">":
            item = Tensor(item.info, item.array.astype(NUMPY[item.info.dtype]))
        self.infos.append(item.info)
        self._payload_bytes += item.info.bytes
        self._pending.append((self._worker.submit(self._payload, item.info, item.array), item.info.bytes))
        self._pending_bytes += item.info.bytes
        while self._pending and (self._pending_bytes > _PENDING_BYTES or self._pending[0][0].done()):
            self._drain()

    def _drain(self) -> None:
        future, size = self._pending.popleft()
        self._pending_bytes -= size
        future.result()

    def finish(
        self, case: pb.Case, provenance: pb.Provenance, run: pb.Run, parameters: Iterable[pb.Parameter] = ()
    ) -> None:
        """Write the metadata and `end`, sync, and move the file to its name."""
        while self._pending:
            self._drain()
        messages: list[tuple[int, Message]] = [(4, provenance), (5, case), (6, run)]
        messages += [(7, parameter) for parameter in parameters]
        messages += [(8, info) for info in self.infos]
        metadata = b"".join(_field(number, message.SerializeToString()) for number, message in messages)
        end = pb.End(
            tensors=len(self.infos), payload_bytes=self._payload_bytes, digest=hashlib.sha256(metadata).digest()
        )
        self._write(metadata)
        self._write(_field(15, end.SerializeToString()))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.chmod(self._file.name, 0o644)
        os.replace(self._file.name, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._disk_error(error) from None


def write(path: str | Path, recording: Recording, *, digests: bool = True) -> None:
    """Write a recording that is in memory; see `Writer`."""
    with Writer(path, digests=digests) as writer:
        for item in recording:
            writer.add(Tensor(pb.Tensor.FromString(item.info.SerializeToString()), item.array))
        writer.finish(recording.case, recording.provenance, recording.run, recording.parameters)
