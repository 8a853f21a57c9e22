"""torch tensors as the contract stores them: NumPy arrays of a schema dtype, without a copy where that is possible."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch

from qwen3_golden import Array, pb

DTYPES: dict[torch.dtype, pb.DType] = {
    torch.float64: pb.F64,
    torch.float32: pb.F32,
    torch.float16: pb.F16,
    torch.bfloat16: pb.BF16,
    torch.int64: pb.I64,
    torch.int32: pb.I32,
    torch.uint8: pb.U8,
    torch.bool: pb.BOOL,
}


def to_numpy(value: torch.Tensor | Array) -> tuple[Array, pb.DType | None]:
    """The elements and their schema dtype, bfloat16 as uint16 bits; None for an array that speaks for itself."""
    if not isinstance(value, torch.Tensor):
        return value, None
    value = value.detach().cpu()
    dtype = DTYPES[value.dtype]
    return (value.view(torch.uint16) if dtype == pb.BF16 else value).numpy(), dtype


def to_torch(array: Array, dtype: int) -> torch.Tensor:
    """A copy of the elements as a tensor of the schema dtype; the inverse of `to_numpy`."""
    value = torch.from_numpy(np.array(array))
    return value.view(torch.bfloat16) if dtype == pb.BF16 else value


def parameter_messages(parameters: Mapping[str, torch.Tensor]) -> list[pb.Parameter]:
    """A digest of each parameter's bytes as the model holds them, sorted by name; shared storage is hashed once."""
    # The tensors are kept: the address of one that is gone may be another's.
    known: dict[tuple[object, ...], tuple[torch.Tensor, bytes]] = {}
    messages = []
    for name in sorted(parameters):
        parameter = parameters[name]
        place = (parameter.data_ptr(), parameter.shape, parameter.stride(), parameter.dtype)
        array, dtype = to_numpy(parameter)
        if place not in known:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            known[place] = parameter, hashlib.sha256(content).digest()
        messages.append(pb.Parameter(name=name, dtype=dtype, shape=array.shape, sha256=known[place][1]))
    return messages


def visible(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Who sees whom as bool `[batch, query, key]`, from an additive or bool mask `[batch|1, heads|1, query, key]`.

    An additive mask shows a key only where it adds exactly 0; None shows every key.
    """
    batch, _, queries, _ = query.shape
    keys = key.shape[2]
    if mask is None:
        return torch.ones(batch, queries, keys, dtype=torch.bool)
    shown = mask if mask.dtype == torch.bool else mask == 0
    return shown[:, 0, :, :keys].expand(batch, queries, keys)
