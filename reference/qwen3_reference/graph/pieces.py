"""Which tensors of a checkpoint's files a parameter is made of, where loading renamed, tied, fused or split them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, pb
from qwen3_golden.dtypes import FLOATS, NUMPY
from qwen3_reference.checkpoints.every_tensor import every_tensor
from qwen3_reference.checkpoints.runs import run_name
from qwen3_reference.checkpoints.stored import Stored

_BEGINNING = 16  # bytes by which a tensor is looked up
_FROM_TORCH = {"float64": pb.F64, "float32": pb.F32, "float16": pb.F16, "bfloat16": pb.BF16, "int64": pb.I64}
_FROM_TORCH |= {"int32": pb.I32, "uint8": pb.U8, "bool": pb.BOOL}


def pieces_of(parameters: Mapping[str, Any], folder: Path) -> dict[str, tuple[str, ...]]:
    """The tensors of a folder's files that follow one another in each parameter's bytes, after a cast to its dtype.

    Or the run of a larger tensor that a parameter is, as `run_name` calls it. `parameters` are tensors of torch or
    arrays by the model's names. A parameter that is the tensor of its own name is left out. Raises `ParityError` for a
    parameter that is made in another way, and for a folder that cannot be read.
    """
    stored = every_tensor(folder)
    beginnings = dict[pb.DType, _Beginnings]()
    pieces = dict[str, tuple[str, ...]]()
    for name, parameter in parameters.items():
        dtype, content = _content(name, parameter)
        if name in stored and _same(stored[name], dtype, content):
            continue
        if dtype not in beginnings:
            beginnings[dtype] = _beginnings(stored, dtype)
        whole, at = _pieces(content, stored, beginnings[dtype], dtype)
        rows = None if at == content.size else _rows(parameter.shape, content, stored, dtype)
        if at < content.size and rows is None:
            expected = "tensors of the checkpoint, one after the other, or rows of a tensor"
            raise _refused(name, expected, f"other bytes from {at} of {content.size} on")
        pieces[name] = whole if rows is None else (rows,)
    return pieces


_Beginnings = Mapping[bytes, Sequence[str]]


def _content(name: str, parameter: Any) -> tuple[pb.DType, Array]:
    """A parameter's dtype and its bytes, row-major."""
    dtype = _FROM_TORCH.get(str(parameter.dtype).removeprefix("torch."))
    if dtype is None:
        raise _refused(name, "a dtype of the schema", parameter.dtype)
    if hasattr(parameter, "detach"):
        import torch

        parameter = parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return dtype, np.ascontiguousarray(parameter).reshape(-1).view(np.uint8)


def _can_be(tensor: Stored, dtype: pb.DType) -> bool:
    return tensor.dtype == dtype or (tensor.dtype in FLOATS and dtype in FLOATS and dtype != pb.F64)


def _bytes(tensor: Stored, dtype: pb.DType, count: int | None = None) -> Array:
    """The bytes of a tensor's first elements, or of all, as a model of `dtype` holds them."""
    part = Stored(tensor.dtype, tensor.bits.reshape(-1)[:count], tensor.file)
    return np.ascontiguousarray(part.loaded(dtype)).view(np.uint8)


def _same(tensor: Stored, dtype: pb.DType, content: Array) -> bool:
    size = tensor.bits.size * NUMPY[dtype].itemsize
    return size == content.size and _can_be(tensor, dtype) and np.array_equal(_bytes(tensor, dtype), content)


def _beginnings(stored: Mapping[str, Stored], dtype: pb.DType) -> _Beginnings:
    """Tensors by their first bytes, the largest first, of equals in the order of the numbers in their names."""
    count = _BEGINNING // NUMPY[dtype].itemsize
    every = defaultdict[bytes, list[str]](list)
    for name in sorted(stored, key=lambda name: (-stored[name].bits.size, _natural(name))):
        if stored[name].bits.size and _can_be(stored[name], dtype):
            every[_bytes(stored[name], dtype, count).tobytes()].append(name)
    return every


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _pieces(
    content: Array, stored: Mapping[str, Stored], beginnings: _Beginnings, dtype: pb.DType
) -> tuple[tuple[str, ...], int]:
    """Whole tensors that stand one after the other in a parameter's bytes, and up to where they do."""
    pieces, at = dict[str, None](), 0
    lengths = sorted({len(beginning) for beginning in beginnings}, reverse=True)
    while at < content.size:
        alike = (tensor for size in lengths for tensor in beginnings.get(content[at : at + size].tobytes(), ()))
        fits = (tensor for tensor in alike if tensor not in pieces and _stands(stored[tensor], dtype, content, at))
        piece = next(fits, None)
        if piece is None:
            break
        pieces[piece] = None
        at += stored[piece].bits.size * NUMPY[dtype].itemsize
    return tuple(pieces), at


def _rows(shape: Sequence[int], content: Array, stored: Mapping[str, Stored], dtype: pb.DType) -> str | None:
    """The rows of a larger tensor that a parameter is, as where a file has fused what a model splits; None: none."""
    size = content.size // NUMPY[dtype].itemsize
    for name in sorted(stored, key=_natural):
        tensor = stored[name]
        wider = size and tensor.bits.shape[1:] == tuple(shape[1:]) and tensor.bits.size > size
        if not wider or not _can_be(tensor, dtype):
            continue
        row = tensor.bits.size // len(tensor.bits)
        shown = min(row, _BEGINNING // NUMPY[dtype].itemsize)
        heads = Stored(tensor.dtype, tensor.bits.reshape(-1, row)[:, :shown], tensor.file)
        alike = _bytes(heads, dtype).reshape(len(tensor.bits), -1) == content[: shown * NUMPY[dtype].itemsize]
        for begin in np.flatnonzero(alike.all(-1)) * row:
            run = Stored(tensor.dtype, tensor.bits.reshape(-1)[begin : begin + size], tensor.file)
            if _same(run, dtype, content):
                return run_name(name, int(begin), int(begin) + size)
    return None


def _stands(tensor: Stored, dtype: pb.DType, content: Array, at: int) -> bool:
    return _same(tensor, dtype, content[at : at + tensor.bits.size * NUMPY[dtype].itemsize])


def _refused(name: str, expected: object, got: object) -> ParityError:
    return ParityError(
        name,
        "the parameter is not made of the checkpoint's tensors in a way that is known",
        expected=expected,
        got=got,
        next_step="save the model with save_pretrained and capture it from that folder; where it is that one already, "
        "capture the model in Python, without a checkpoint",
    )
