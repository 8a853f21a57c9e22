"""Writing a golden file: payloads as they come, metadata last, the finished file renamed into place."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np

from qwen3_golden import golden_pb2 as pb
from qwen3_golden import wire
from qwen3_golden.dtypes import NUMPY, Array, dtype_of
from qwen3_golden.errors import ParityError, unwritable
from qwen3_golden.recording import MAGIC, SCHEMA_MAJOR, Recording, Tensor, minor_of
from qwen3_golden.rules import check_metadata, check_tensor
from qwen3_golden.whole import temporary

_SYNC_BYTES = 1 << 23  # syncing as it goes, beside the caller, leaves little to wait for at the end
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
    info.bytes = array.nbytes
    return Tensor(info, array)


class Writer:
    """Streams one recording into `path`; a context manager that leaves the whole file, or nothing without `finish`.

    `add` may be called from several threads and returns at once: hashing and writing go on beside the caller, in the
    order of the calls. An array that was given must not change until `finish`. `digests=False` leaves the tensors'
    SHA-256 out; `schema_minor` must have every field that the recording will have, see `minor_of`. Raises
    `ParityError` when the disk cannot take the file or stock protobuf libraries could not parse it.
    """

    def __init__(self, path: str | Path, *, digests: bool = True, schema_minor: int = 0) -> None:
        self.path = Path(path)
        self.infos: list[pb.Tensor] = []
        self._keys: set[tuple[str, int]] = set()
        self._schema_minor = schema_minor
        self._digests = digests
        self._position = self._payload_bytes = self._pending_bytes = self._unsynced = 0
        self._pending: deque[tuple[Future[None], int]] = deque()
        self._lock = Lock()
        self._temporary = temporary(self.path)
        header = pb.Header(magic=MAGIC, schema_major=SCHEMA_MAJOR, schema_minor=schema_minor)
        content = wire.field(wire.HEADER, header.SerializeToString())
        self._reserve(len(content), "header")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._temporary.open("xb")
            self._file.write(content)
        except OSError as error:
            raise unwritable(self.path, "recording", error) from None
        self._worker = ThreadPoolExecutor(1)

    def _reserve(self, size: int, content: str) -> None:
        if self._position + size > wire.MAX_FILE_BYTES:
            raise ParityError(
                self.path,
                "the recording is too large for stock protobuf libraries",
                expected=f"at most {wire.MAX_FILE_BYTES} bytes",
                got=f"{self._position + size} bytes with {content}",
                next_step="record fewer taps, rows or tokens",
            )
        self._position += size

    def _payload(self, info: pb.Tensor, array: Array, head: bytes) -> None:
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        if self._digests:
            info.sha256 = hashlib.sha256(content).digest()
        self._file.write(head)
        self._file.write(content)
        self._unsynced += len(content)
        if self._unsynced >= _SYNC_BYTES:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._unsynced = 0

    def add(self, item: Tensor) -> None:
        """Append a tensor; its bytes are written as they are, row-major and little-endian.

        Raises `ParityError` for an array that is not what its metadata says, for a name that its step has already, and
        for a disk that is full.
        """
        info = pb.Tensor()
        info.CopyFrom(item.info)
        info.ClearField("sha256")
        check_tensor(self.path, info, item.array.nbytes)
        if (tuple(info.shape), NUMPY[info.dtype]) != (item.array.shape, item.array.dtype.newbyteorder("<")):
            raise ParityError(
                self.path,
                f"{info.name} (step {info.step}): the array is not what its metadata says",
                expected=f"{pb.DType.Name(info.dtype)} {list(info.shape)}",
                got=f"{item.array.dtype} {list(item.array.shape)}",
                next_step="make it with `qwen3_golden.tensor`",
            )
        array = item.array.astype(NUMPY[info.dtype], copy=False)
        with self._lock:
            if (info.name, info.step) in self._keys:
                raise ParityError(
                    f"{self.path}: {info.name} (step {info.step})",
                    "this tap was recorded already",
                    expected="each tap once in a step",
                    got="the same tap again",
                    next_step="look for a module that runs twice in a forward, or for two places under one name",
                    fault="candidate",
                )
            self._keys.add((info.name, info.step))
            head = wire.payload_head(self._position, info.bytes)
            self._reserve(len(head) + info.bytes, info.name)
            self.infos.append(info)
            self._payload_bytes += info.bytes
            self._pending_bytes += info.bytes
            self._pending.append((self._worker.submit(self._payload, info, array, head), info.bytes))
            while self._pending and (self._pending_bytes > _PENDING_BYTES or self._pending[0][0].done()):
                self._drain()

    def _drain(self) -> None:
        """Wait for the oldest payload. One that failed stays the oldest, so that nothing goes on after it."""
        future, size = self._pending[0]
        try:
            future.result()
        except OSError as error:
            raise unwritable(self.path, "recording", error) from None
        self._pending.popleft()
        self._pending_bytes -= size

    def finish(
        self,
        case: pb.Case,
        provenance: pb.Provenance,
        run: pb.Run,
        parameters: Iterable[pb.Parameter] = (),
        tokenization: pb.Tokenization | None = None,
        weights: pb.Weights | None = None,
        graph: pb.Graph | None = None,
    ) -> None:
        """Write the metadata and `end`, sync, and move the file to its name; nothing can be added afterwards."""
        message = pb.Recording(
            provenance=provenance,
            case=case,
            run=run,
            parameter=parameters,
            tokenization=tokenization,
            weights=weights,
            graph=graph,
        )
        check_metadata(self.path, case, run, message.parameter, graph, provenance.producer)
        if self._schema_minor < minor_of(case):
            raise ParityError(
                self.path,
                "the header was written for an older schema than the case needs",
                expected=f"minor version {minor_of(case)}",
                got=self._schema_minor,
                next_step="give schema_minor=minor_of(case) to the Writer",
                fault="harness bug",
            )
        with self._lock:
            while self._pending:
                self._drain()
            message.tensor.extend(self.infos)
            metadata = message.SerializeToString()
            digest = hashlib.sha256(metadata).digest()
            end = pb.End(tensors=len(self.infos), payload_bytes=self._payload_bytes, digest=digest)
            metadata += wire.field(wire.END, end.SerializeToString())
            self._reserve(len(metadata), "metadata")
            try:
                self._file.write(metadata)
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                self._temporary.replace(self.path)
            except OSError as error:
                raise unwritable(self.path, "recording", error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        with suppress(OSError):  # a full disk; only a file that was not finished has something left to write
            self._file.close()
        self._temporary.unlink(missing_ok=True)


def write(path: str | Path, recording: Recording, *, digests: bool = True) -> None:
    """Write a recording that is in memory; see `Writer`."""
    case = recording.case
    texts = recording.tokenization if case.mode == pb.TOKENIZATION else None
    weights = recording.weights if case.mode == pb.WEIGHTS else None
    graph = recording.graph if case.mode == pb.GRAPH or recording.graph.ByteSize() else None
    with Writer(path, digests=digests, schema_minor=minor_of(case)) as writer:
        for item in recording:
            writer.add(item)
        writer.finish(case, recording.provenance, recording.run, recording.parameters, texts, weights, graph)
