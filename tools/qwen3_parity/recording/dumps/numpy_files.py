"""Dumps of NumPy's: an .npz, or a folder of .npy whose names are the arrays'. Python objects in them are never made."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from qwen3_golden import Array, pb
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.regular_file import open_inside
from qwen3_parity.recording.dumps.dump import MAX_ARRAYS, Dumped, by_forward, reading, refused

_DTYPES = {numpy: code for code, numpy in NUMPY.items() if code != pb.BF16} | {np.dtype("V2"): pb.BF16}
"""bfloat16, which NumPy lacks, is saved by ml_dtypes (JAX) as two bytes without a type."""
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, zlib.error)
"""What zipfile and NumPy raise for damage, encryption and methods that they do not have."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    numpy: np.dtype[Any]
    dtype: pb.DType
    begin: int


def read_npz(path: Path, opened: ExitStack) -> list[Dumped]:
    """Every array of an .npz, by its name in it; raises `ParityError` for what is damaged or is no array.

    Headers alone are read here, and an array has as many bytes as its shape says before one of them is unpacked. The
    archive stays open in `opened`, for those that are loaded.
    """
    with reading(path):
        file = opened.enter_context(open_inside(path))
        try:
            archive = opened.enter_context(zipfile.ZipFile(file))
            entries = archive.infolist()
            if len(entries) > MAX_ARRAYS:
                raise refused(path, "it has more arrays than any case", f"at most {MAX_ARRAYS}", len(entries))
            names = [entry.filename for entry in entries]
            if len(set(names)) < len(names):
                raise refused(path, "a name stands there twice", "each name once", f"{len(names)} names")
            return [_entry(path, archive, entry) for entry in entries]
        except _BROKEN as error:
            raise refused(path, "this is no .npz, or a damaged one", "an archive of arrays", error) from None


def _entry(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Dumped:
    where = f"{path}: {entry.filename}"
    if not entry.filename.endswith(".npy"):
        raise refused(where, "this is no array", "names that end in .npy", entry.filename)
    with archive.open(entry) as file:
        header = _header(where, file, entry.file_size)

    def load() -> Array:
        try:
            with archive.open(entry) as file:
                return _elements(where, file, header)
        except (*_BROKEN, OSError) as error:
            raise refused(where, "the array is damaged", "what its header says", error) from None

    return Dumped(entry.filename.removesuffix(".npy"), header.shape, header.dtype, load, path)


def read_npy(path: Path) -> Dumped:
    """The array of one .npy, by the file's name; raises as `read_npz`."""
    with reading(path), open_inside(path) as file:
        header = _header(path, file, os.fstat(file.fileno()).st_size)

    def load() -> Array:
        with reading(path), open_inside(path) as file:
            return _elements(path, file, header)

    return Dumped(path.stem, header.shape, header.dtype, load, path)


def read_npys(paths: Sequence[Path]) -> list[Dumped]:
    """The arrays of a folder."""
    return by_forward([read_npy(path)] for path in paths)


def _header(where: object, file: IO[bytes], size: int) -> _Header:
    """An array's header, held against the `size` of all of it in bytes."""
    shape: tuple[int, ...]
    numpy: np.dtype[Any]
    try:
        major, _ = npy.read_magic(file)
        read = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        shape, fortran, numpy = read(file)
    except (ValueError, SyntaxError, TokenError, TypeError, RecursionError, MemoryError) as error:
        raise refused(where, "this is no NumPy array, or a damaged one", "the header of an .npy", error) from None
    if numpy.hasobject:
        rule = "it holds Python objects, and those are never unpacked"
        raise refused(where, rule, "an array of numbers, saved without objects", f"dtype {numpy}")
    code = None
    with suppress(TypeError):
        code = _DTYPES.get(numpy.newbyteorder("<"))
    if code is None:
        expected = "float64, float32, float16, bfloat16, int64, int32, uint8 or bool"
        raise refused(where, "this dtype has no place in a recording", expected, f"dtype {numpy}")
    begin = file.tell()
    if any(length < 0 for length in shape) or begin + prod(shape) * numpy.itemsize != size:
        expected = f"{prod(shape) * numpy.itemsize} bytes behind the header for {list(shape)} {numpy}"
        raise refused(where, "its size disagrees with its shape", expected, f"{size - begin} bytes")
    return _Header(shape, fortran, numpy, code, begin)


def _elements(where: object, file: IO[bytes], header: _Header) -> Array:
    count = prod(header.shape)
    file.read(header.begin)
    content = file.read(count * header.numpy.itemsize)
    if len(content) != count * header.numpy.itemsize:
        raise refused(where, "the file is cut off", f"{count} elements", f"{len(content)} bytes")
    array = np.frombuffer(content, header.numpy).reshape(header.shape, order="F" if header.fortran else "C")
    if header.dtype == pb.BF16:
        return array.view(np.uint16)
    return array.astype(NUMPY[header.dtype], copy=False)
