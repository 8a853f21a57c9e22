"""Dumps of raw bytes: .bin files, and a table that says what stands where, in JSON or CSV."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, pb
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.regular_file import open_inside, read_at_most
from qwen3_parity.recording.dumps.dump import MAX_ARRAYS, Dumped, listed, reading, refused, shown
from qwen3_reference.checkpoints.strict_json import parse

ENDING = ".bin"
TABLES = (".json", ".csv", ".tsv")
_WORDS = {
    pb.F64: ("float64", "f64", "double"),
    pb.F32: ("float32", "f32", "float"),
    pb.F16: ("float16", "f16", "half"),
    pb.BF16: ("bfloat16", "bf16"),
    pb.I64: ("int64", "i64", "long"),
    pb.I32: ("int32", "i32", "int"),
    pb.U8: ("uint8", "u8"),
    pb.BOOL: ("bool",),
}
DTYPES = {word: dtype for dtype, words in _WORDS.items() for word in words}
"""What a table may call a dtype, in lower case; `torch.` and `numpy.` before it are left out."""
_COLUMNS = ("name", "shape", "dtype", "file", "offset", "forward")
_SHAPE = re.compile(r"[\[(]?\s*(\d{1,12}(\s*[x×*, ]\s*\d{1,12})*,?)?\s*[\])]?")
_MAX_BYTES = 1 << 26
_NEXT = 'write a row for each array, as {"name": "layers.0.q_proj", "shape": [1, 9, 60], "dtype": "float32"}'


@dataclass(frozen=True)
class _Row:
    """An array in a file; `alone`: nothing else is in that file, and no offset is said."""

    where: str
    name: str
    shape: tuple[int, ...]
    dtype: pb.DType
    file: str
    offset: int
    forward: int
    alone: bool


def table_of(folder: Path) -> Path:
    """The one table beside a folder's .bin files; raises `ParityError` where there is none, or another one."""
    tables = [path for path in listed(folder) if path.suffix in TABLES]
    if len(tables) != 1:
        names = ", ".join(path.name for path in tables) or "none"
        raise refused(folder, "raw files need one table beside them", f"one of {', '.join(TABLES)}", names, _NEXT)
    return tables[0]


def read_raw(table: Path) -> list[Dumped]:
    """The arrays of a table, row-major and little-endian, in files beside it: `NAME.bin` where it names none.

    A row is name, shape, dtype, and if need be file, offset in bytes, and forward. Raises `ParityError` for a table
    that is none, for files that are not there or of another size, and for a name that stands twice in a forward.
    """
    with reading(table), open_inside(table) as file:
        content = read_at_most(file, _MAX_BYTES)
    entries = _entries(table, content)
    if not entries or len(entries) > MAX_ARRAYS:
        raise refused(table, "the table has no rows, or more than any case", f"1 to {MAX_ARRAYS}", len(entries), _NEXT)
    uses = Counter(str(entry.get("file") or f"{entry.get('name')}{ENDING}") for entry in entries)
    rows = [_row(f"{table}: row {number}", entry, uses) for number, entry in enumerate(entries, 1)]
    if twice := [row for row, count in Counter((row.name, row.forward) for row in rows).items() if count > 1]:
        name, forward = twice[0]
        got = f"{shown(name)} twice in forward {forward}"
        raise refused(table, "a name stands once in a forward", "a column `forward` where a name is repeated", got)
    there = {path.name: path for path in listed(table.parent)}
    return [_dumped(row, there) for row in rows]


def _entries(table: Path, content: bytes) -> Sequence[Mapping[str, Any]]:
    """The table's rows by its columns."""
    try:
        text = content.decode("utf-8-sig")
        if table.suffix == ".json":
            loaded = parse(text)
            if isinstance(loaded, dict):  # the names are its keys
                loaded = [{"name": name, **entry} for name, entry in loaded.items()]
            entries = list(loaded)
        else:
            delimiter = "\t" if table.suffix == ".tsv" else ","
            entries = list(csv.DictReader(text.splitlines(), delimiter=delimiter, strict=True))
        columns = {str(key) for entry in entries for key in dict(entry)}
    except (ValueError, TypeError, csv.Error) as error:
        raise refused(table, "this is no table of arrays", "JSON or CSV, a row an array", error, _NEXT) from None
    if not columns <= {*_COLUMNS}:
        got = shown(", ".join(sorted(columns - {*_COLUMNS})))
        raise refused(table, "the table has columns that nobody reads", ", ".join(_COLUMNS), got, _NEXT)
    return entries


def _row(where: str, entry: Mapping[str, Any], uses: Mapping[str, int]) -> _Row:
    name, shape, word = (entry.get(key) for key in _COLUMNS[:3])
    dtype = DTYPES.get(re.sub(r"^(torch|numpy|np)\.", "", str(word).strip().lower()))
    text = shape if isinstance(shape, str) else str(shape)
    if not isinstance(name, str) or not name or dtype is None or shape is None or not _SHAPE.fullmatch(text):
        got = shown(f"name {name!r}, shape {shape!r}, dtype {word!r}")
        words = ", ".join(sorted(DTYPES))
        raise refused(where, "this is no row of a table", f"a name, a shape as 2x7x40, a dtype of {words}", got, _NEXT)
    file = str(entry.get("file") or f"{name}{ENDING}")
    offset, forward = (_number(where, key, entry.get(key)) for key in _COLUMNS[4:])
    sizes = tuple(int(size) for size in re.findall(r"\d+", text))
    return _Row(where, name, sizes, dtype, file, offset or 0, forward or 0, offset is None and uses[file] == 1)


def _number(where: str, key: str, value: object) -> int | None:
    if value is None or value == "":
        return None
    if not re.fullmatch(r"\d{1,15}", str(value)):
        raise refused(where, f"{key} is no number", "0 or more", shown(repr(value)), _NEXT)
    return int(str(value))


def _dumped(row: _Row, there: Mapping[str, Path]) -> Dumped:
    """A row's array; the file's name is looked up in the folder, and never followed as a path."""
    path = there.get(row.file)
    if path is None:
        raise refused(
            row.where, "its file is not beside the table", shown(row.file), f"{len(there)} other files", _NEXT
        )
    size = prod(row.shape) * NUMPY[row.dtype].itemsize
    with reading(path), open_inside(path) as file:
        whole = os.fstat(file.fileno()).st_size
    if row.offset + size > whole or (row.alone and size != whole):
        expected = f"{size} bytes at {row.offset} for {list(row.shape)} {pb.DType.Name(row.dtype)}"
        raise refused(row.where, f"its size disagrees with {shown(path.name)}", expected, f"{whole} bytes", _NEXT)

    def load() -> Array:
        with reading(path), open_inside(path) as file:
            file.seek(row.offset)
            content = file.read(size)
        if len(content) != size:
            raise refused(row.where, f"{shown(path.name)} was cut off", f"{size} bytes", f"{len(content)} bytes")
        return np.frombuffer(content, NUMPY[row.dtype]).reshape(row.shape)

    return Dumped(row.name, row.shape, row.dtype, load, path, row.forward)
