"""Protobuf's wire format, as much of it as the top level of a golden file needs: length-delimited fields."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from qwen3_golden.errors import ParityError

HEADER, PADDING, PAYLOAD, PROVENANCE, CASE, RUN, PARAMETER, TENSOR, TOKENIZATION, WEIGHTS = range(1, 11)
END = 15
ALIGNMENT = 64
MAX_FILE_BYTES = 2**31 - 1
"""What the protobuf libraries of C++ and Java still parse."""

Data = mmap.mmap | bytes
_LENGTH_DELIMITED = 2


class Field(NamedTuple):
    """A top-level field: its number, the first byte of the field, the first byte and the end of its content."""

    number: int
    start: int
    begin: int
    end: int


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def head(number: int, size: int) -> bytes:
    """What stands before the content of a field (number < 16) of `size` bytes."""
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _varint(size)


def field(number: int, content: bytes) -> bytes:
    """A whole field, number < 16."""
    return head(number, len(content)) + content


def payload_head(position: int, size: int) -> bytes:
    """What stands before a payload of `size` bytes when the file has `position` bytes: padding, then the head.

    The padding's own head is two bytes, because fewer than 64 zeros follow it.
    """
    payload = head(PAYLOAD, size)
    return field(PADDING, bytes(-(position + 2 + len(payload)) % ALIGNMENT)) + payload


def _refuse(path: Path, rule: str, expected: object, got: object) -> NoReturn:
    raise ParityError(path, rule, expected=expected, got=got, next_step="copy the file again or record it again")


def _number(data: Data, position: int, limit: int, path: Path) -> tuple[int, int]:
    """The varint at `position`, at most 10 bytes and below `limit`, and where it ends."""
    start = position
    value = shift = 0
    while True:
        if position >= len(data):
            _refuse(path, "the file is cut off inside a field", "more bytes", f"end of file at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 70:
            _refuse(path, "a field's size is not a number", "at most 10 bytes of varint", f"more, at byte {start}")
    if value >= limit:
        _refuse(path, "a field's size is not a number", f"less than {limit}", f"{value} at byte {start}")
    return value, position


def fields(data: Data, path: Path) -> Iterator[Field]:
    """The top-level fields of a file, by their heads alone; raises `ParityError` where the next one cannot be."""
    position = 0
    while position < len(data):
        start = position
        tag, position = _number(data, position, 1 << 32, path)
        if tag & 7 != _LENGTH_DELIMITED or not tag >> 3:
            got = f"field {tag >> 3} of wire type {tag & 7} at byte {start}"
            _refuse(path, "not a golden file", "length-delimited fields only", got)
        size, position = _number(data, position, 1 << 64, path)
        if position + size > len(data):
            got = f"{len(data) - position}, the end of the file"
            _refuse(path, "the file is cut off inside a field", f"{size} bytes at byte {position}", got)
        yield Field(tag >> 3, start, position, position + size)
        position += size
