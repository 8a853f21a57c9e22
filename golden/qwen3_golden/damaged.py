"""Files that a reader must refuse, each for one rule of golden/README.md, and files that only look like it.

They are the operands of the case `plumbing/damaged`: `input.<name>` are the bytes of a file, `output.<name>` is whether
the file is refused. `refuses` is the answer of a reader.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.reader import read
from qwen3_golden.recording import MAGIC, SCHEMA_MAJOR, Recording, Tensor
from qwen3_golden.writer import tensor

OP = "read"
"""The operation of the case: a file's bytes in, whether it is refused out."""
_AHEAD = ("header", "padding", "payload")
_UNKNOWN = b"\x62\x07unknown"
"""Field 12 of a recording, which this schema does not have: seven bytes."""
_OTHER = 99
"""A value that no enum of the schema has."""


@dataclass(frozen=True)
class File:
    """A file, the rule that it breaks or seems to break, and whether it is to be refused."""

    name: str
    rule: str
    content: bytes
    refused: bool


def _whole() -> pb.Recording:
    """Three small tensors: numbers, bools, and no elements at all."""
    message = pb.Recording(header=pb.Header(magic=MAGIC, schema_major=SCHEMA_MAJOR))
    message.provenance.producer = "qwen3_golden.damaged"
    message.case.MergeFrom(pb.Case(name="plumbing/whole", tier=pb.TIER_OP, mode=pb.PLUMBING))
    message.run.MergeFrom(pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN))
    for name, array, axes in (
        ("numbers", np.array([[1, 2, 3], [-4, 0.5, 6]], "<f4"), ("row", "column")),
        ("flags", np.array([True, False, True]), ()),
        ("none", np.zeros(0, "<f4"), ()),
    ):
        item = tensor(f"plumbing.{name}", array, axes=axes)
        item.info.sha256 = hashlib.sha256(array.tobytes()).digest()
        message.run.materialised.append(item.info.name)
        message.tensor.append(item.info)
        message.payload.append(array.tobytes())
    return message


def _metadata(message: pb.Recording) -> bytes:
    metadata = pb.Recording()
    metadata.CopyFrom(message)
    for field in (*_AHEAD, "end"):
        metadata.ClearField(field)
    return metadata.SerializeToString()


def _sealed(message: pb.Recording, *, padding: bytes = b"", more: bytes = b"") -> bytes:
    """The file of a message, whose `end` says what stands before it where nothing else was set there.

    `padding` stands before each payload, `more` at the end of the metadata.
    """
    metadata = _metadata(message) + more
    end = pb.End(
        tensors=len(message.payload),
        payload_bytes=sum(map(len, message.payload)),
        digest=hashlib.sha256(metadata).digest(),
    )
    end.MergeFrom(message.end)
    parts = [pb.Recording(header=message.header)] if message.HasField("header") else []
    for payload in message.payload:
        parts += [pb.Recording(padding=padding)] if padding else []
        parts.append(pb.Recording(payload=[payload]))
    content = b"".join(part.SerializeToString() for part in parts)
    return content + metadata + pb.Recording(end=end).SerializeToString()


def _changed(*changes: Callable[[pb.Recording], object]) -> bytes:
    """The file of a writer that did something else, and whose `end` agrees with what it did."""
    message = _whole()
    for change in changes:
        change(message)
    return _sealed(message)


def _cleared(field: str) -> bytes:
    return _changed(lambda m: m.ClearField(field))


def _first(field: str, value: object) -> bytes:
    """The first tensor with another value in one field."""
    return _changed(lambda m: setattr(m.tensor[0], field, value))


def _shaped(*shape: int, at: int = 0) -> bytes:
    return _changed(lambda m: m.tensor[at].ClearField("shape"), lambda m: m.tensor[at].shape.extend(shape))


def _refused() -> Iterator[tuple[str, str, bytes]]:
    whole, header = _sealed(_whole()), pb.Recording(header=_whole().header).SerializeToString()
    metadata, payloads = _metadata(_whole()), pb.Recording(payload=_whole().payload).SerializeToString()
    end = whole[len(header) + len(payloads) + len(metadata) :]
    at = len(header) + 2  # the first byte of the first payload
    yield "empty", "a file is a recording", b""
    yield "text", "a file is a recording", b"qwen3.golden, as text"
    yield "cut_in_a_payload", "the file is whole", whole[: at + 10]
    yield "cut_before_end", "`end` is there, and last", whole[: -len(end)]
    yield "cut_in_end", "the file is whole", whole[:-5]
    yield "twice_in_one", "header, provenance, case, run and end occur once", whole * 2
    yield "behind_end", "`end` is last", whole + b"\x12\x00"
    yield "header_behind_payloads", "the header is first", payloads + header + metadata + end
    yield "another_magic", "magic is `qwen3.golden`", whole.replace(b"qwen3.golden", b"qwen3.silver", 1)
    yield "another_major", "`schema_major` is 1", _changed(lambda m: setattr(m.header, "schema_major", 2))
    yield "no_provenance", "provenance occurs once", _cleared("provenance")
    yield "no_case", "the case occurs once", _cleared("case")
    yield "no_run", "the run occurs once", _cleared("run")
    again = pb.Recording(run=_whole().run).SerializeToString()
    yield "two_runs", "the run occurs once", _sealed(_whole(), more=again)
    early, rest = pb.Recording(case=_whole().case).SerializeToString(), _cleared("case")[len(header) :]
    yield "payload_behind_metadata", "no payload stands behind metadata", header + early + rest
    yield "bare_number", "every field of the top level is length-delimited", _sealed(_whole(), more=b"\x60\x01")
    yield "a_payload_less", "as many payloads as tensors", _changed(lambda m: m.payload.pop())
    yield "a_tensor_less", "as many payloads as tensors", _changed(lambda m: m.tensor.pop())
    yield "end_counts_more", "`end.tensors` is their number", _changed(lambda m: setattr(m.end, "tensors", 4))
    yield "end_sums_less", "`end.payload_bytes` is their sum", _changed(lambda m: setattr(m.end, "payload_bytes", 26))
    yield (
        "metadata_changed",
        "`end.digest` is that of the metadata",
        whole.replace(b"plumbing/whole", b"plumbing/whale"),
    )
    yield "payload_changed", "`tensor.sha256` is that of its payload", whole[:at] + b"\x01" + whole[at + 1 :]
    yield "digest_cut", "`tensor.sha256` has 32 bytes or none", _first("sha256", bytes(31))
    yield "bytes_of_more", "`bytes` is the payload's size", _first("bytes", 28)
    yield "shape_of_less", "the payload's size is that of the shape", _shaped(2, 2)
    yield "shape_beyond_64_bits", "the product is that of whole numbers, not modulo 2^64", _shaped(2**32, 2**32, at=2)
    yield "negative_dimensions", "dimensions are not negative", _shaped(2**64 - 2, 2**64 - 3)
    yield "axes_of_more", "`axes` is empty or as long as `shape`", _changed(lambda m: m.tensor[0].axes.append("more"))
    yield "dtype_unset", "a dtype is set", _first("dtype", pb.DTYPE_UNSPECIFIED)
    yield "dtype_unknown", "a dtype is one of the schema", _first("dtype", _OTHER)
    yield "mode_unset", "the mode is set", _changed(lambda m: m.case.ClearField("mode"))
    yield "mode_unknown", "the mode is one of the schema", _changed(lambda m: setattr(m.case, "mode", _OTHER))
    yield "backend_unknown", "the backend is one of the schema", _changed(lambda m: setattr(m.run, "backend", _OTHER))
    yield (
        "name_twice",
        "a name stands once in a step",
        _changed(lambda m: setattr(m.tensor[2], "name", m.tensor[0].name)),
    )
    digest = hashlib.sha256(b"\x01\x00\x02").digest()
    yield (
        "bool_of_2",
        "a BOOL is 0 or 1",
        _changed(lambda m: m.payload.__setitem__(1, b"\x01\x00\x02"), lambda m: setattr(m.tensor[1], "sha256", digest)),
    )


def _readable() -> Iterator[tuple[str, str, bytes]]:
    yield "in_order", "nothing is wrong", _sealed(_whole())
    yield "padding_misaligned", "padding has any length and any bytes", _sealed(_whole(), padding=b"\xff\x00\xff")
    newer = _whole()
    newer.header.schema_minor = _OTHER
    yield (
        "newer_minor",
        "a newer minor version is read, with a notice; fields unknown are skipped",
        _sealed(newer, more=_UNKNOWN),
    )
    yield (
        "no_digests",
        "a recording may be written without digests",
        _changed(*(lambda m, i=i: m.tensor[i].ClearField("sha256") for i in range(3))),
    )
    yield (
        "no_tensors",
        "a recording may hold none",
        _changed(lambda m: m.ClearField("tensor"), lambda m: m.ClearField("payload")),
    )
    steps = (lambda m: setattr(m.tensor[2], "name", m.tensor[0].name), lambda m: setattr(m.tensor[2], "step", 1))
    yield "name_in_two_steps", "a name may stand in several steps", _changed(*steps)


def files() -> list[File]:
    """Every file of the case, in order: first those that are refused."""
    refused = [File(*fields, refused=True) for fields in _refused()]
    return refused + [File(*fields, refused=False) for fields in _readable()]


def refuses(content: bytes) -> bool:
    """Whether our reader refuses a file with this content, digests included."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notice of a newer minor version
        path = Path(folder) / "file.pb"
        path.write_bytes(content)
        try:
            read(path, digests=True)
        except ParityError:
            return True
    return False


def answered(case: Recording) -> Recording:
    """The recording of the case by our reader: what is given, and of each file whether it is refused."""
    operands = [item for item in case if item.info.name.startswith("input.")]
    refused = {item.info.name.removeprefix("input."): refuses(item.array.tobytes()) for item in operands}
    return Recording(case.case, case.provenance, case.run, [*operands, *_outputs(refused)])


def inputs() -> list[Tensor]:
    """The operands of the case."""
    return [tensor(f"input.{file.name}", np.frombuffer(file.content, np.uint8), axes=("byte",)) for file in files()]


def _outputs(refused: dict[str, bool]) -> list[Tensor]:
    return [tensor(f"output.{name}", np.array(value), op=OP) for name, value in refused.items()]


def outputs() -> list[Tensor]:
    """What is to be computed of them."""
    return _outputs({file.name: file.refused for file in files()})
