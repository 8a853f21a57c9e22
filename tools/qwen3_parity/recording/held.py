"""What a recording says of the parameters that a model holds: digests, and the numbers of those that are others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from qwen3_golden import Recording, Tensor, pb, tensor
from qwen3_parity.judge.match import PARAMETER
from qwen3_reference.torch_tensors import parameter_messages, to_numpy

_MOST, _MOST_OF_ALL = 1 << 18, 1 << 23
"""Bytes of one such parameter, and of all of them, that a recording holds."""


class HeldParameters(NamedTuple):
    """The digests of parameters, and the numbers of those whose bytes are not the golden's."""

    digests: list[pb.Parameter]
    numbers: list[Tensor]


def held_parameters(
    tensors: Mapping[str, torch.Tensor],
    golden: Recording,
    narrower: Mapping[str, torch.Tensor] = MappingProxyType({}),
) -> HeldParameters:
    """Parameters by the golden's names; of those whose bytes are not the golden's the first rows that fit.

    A tensor of such rows is called `parameter.` and the parameter's name. A golden without digests has nothing to
    compare with. `narrower` ones have no digest that the golden's could be.
    """
    digests = parameter_messages(tensors)
    theirs = {item.name: item for item in golden.parameters if item.sha256}
    others = [item.name for item in digests if item.name in theirs and theirs[item.name].sha256 != item.sha256]
    numbers, size = list[Tensor](), 0
    for name in (*others, *(name for name in narrower if name in theirs)):
        values = (tensors[name] if name in tensors else narrower[name]).detach()
        if not values.is_floating_point() or not values.numel():
            continue
        rows = values[: max(1, _MOST // max(1, values[:1].nbytes))]
        shape = tuple(theirs[name].shape)
        if shape == tuple(values.shape) and rows.nbytes <= _MOST and size + rows.nbytes <= _MOST_OF_ALL:
            size += rows.nbytes
            array, dtype = to_numpy(rows)
            numbers.append(tensor(f"{PARAMETER}{name}", array, dtype=dtype))
    return HeldParameters(digests, numbers)
