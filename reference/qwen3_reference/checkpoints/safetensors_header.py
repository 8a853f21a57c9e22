"""The header of a safetensors file, which says what tensor stands where.

A file is the size of the header in 8 bytes, little-endian, the header in JSON, and the tensors one after the other.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from qwen3_golden import pb, refusals

broken = refusals("download or save the checkpoint again")
"""The refusal of a checkpoint's file that is not what it should be."""

SIZE_BYTES = 8
DTYPES: dict[str, tuple[pb.DType, str]] = {
    "F64": (pb.F64, "<f8"),
    "F32": (pb.F32, "<f4"),
    "F16": (pb.F16, "<f2"),
    "BF16": (pb.BF16, "<u2"),
}
"""The dtypes that a checkpoint may have: the schema's, and NumPy's; bfloat16 as its bits."""


class Entry(NamedTuple):
    """A tensor of the file: `begin` and `end` count from the first byte of the data."""

    dtype: pb.DType
    numpy: str
    shape: tuple[int, ...]
    begin: int
    end: int


def each_once(path: object, rule: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """For `json.loads`: an object's members, or `ParityError` with a rule for names that stand there twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            double = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
            raise broken(path, rule, "each name once", ", ".join(double))
        return members

    return once


def read_header(
    path: object,
    text: bytes,
    data_bytes: int | None = None,
    dtypes: Mapping[str, tuple[pb.DType, str]] = DTYPES,
) -> dict[str, Entry]:
    """Name -> entry, in the order of the data, which must follow one another without gaps.

    `data_bytes` is how much data the file has; None: not known. Raises `ParityError` for everything else.
    """
    try:
        header = json.loads(text, object_pairs_hook=each_once(path, "the header has a name twice"))
    except (ValueError, RecursionError) as error:
        raise broken(path, "the header is not JSON", "a safetensors header", error) from None
    if not isinstance(header, dict):
        raise broken(path, "the header holds no JSON object", "tensor name -> entry", type(header).__name__)
    header.pop("__metadata__", None)
    entries = [(name, _entry(path, name, entry, dtypes)) for name, entry in header.items()]
    entries.sort(key=lambda item: (item[1].begin, item[1].end))
    used = 0
    for name, entry in entries:
        if entry.begin != used:
            _gap(path, f"before {name}", used, entry.begin)
        used = entry.end
        if data_bytes is not None and used > data_bytes:
            raise broken(path, f"the file is cut off within {name}", f"{used} bytes of data or more", data_bytes)
    if data_bytes not in (None, used):
        _gap(path, "at the end", used, data_bytes)
    return dict(entries)


def _gap(path: object, where: str, used: int, begin: int | None) -> NoReturn:
    rule = "bytes of the file belong to no tensor, or to two"
    raise broken(path, f"{rule}: {where}", f"data that goes on at byte {used}", f"byte {begin}")


def _entry(path: object, name: str, entry: Any, dtypes: Mapping[str, tuple[pb.DType, str]]) -> Entry:
    def numbers(values: Any) -> bool:
        return isinstance(values, list) and all(type(number) is int and number >= 0 for number in values)

    try:
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError):
        code = shape = offsets = None
    if not (isinstance(code, str) and numbers(shape) and numbers(offsets) and len(offsets) == 2):
        raise broken(path, f"the header's entry of {name} is damaged", "dtype, shape, data_offsets", entry)
    if code not in dtypes:
        raise broken(path, f"{name} is stored in an unknown dtype", "one of " + ", ".join(dtypes), code)
    (dtype, numpy), (begin, end), count = dtypes[code], offsets, math.prod(shape)
    if end - begin != count * np.dtype(numpy).itemsize:
        raise broken(path, f"the size of {name} disagrees with its shape {shape}", f"{count} elements", end - begin)
    return Entry(dtype, numpy, tuple(shape), begin, end)
