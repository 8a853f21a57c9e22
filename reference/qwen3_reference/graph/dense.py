"""Loops over what a mask shows, as loops over everything: no export can follow numbers.

A forward that runs its experts in a loop asks a mask which of them some token chose, then for each of them which tokens
did, and adds what comes of these to a sum. Within `AllShown` each expert runs on every token, and what a mask hides is
0 before it is added: the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NONZERO = (torch.nonzero, torch.Tensor.nonzero)


class AllShown(TorchFunctionMode):
    """Inside, `nonzero` of a vector gives every place, `where` of a matrix every pair, `index_add_` only what shows."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function in _NONZERO and args[0].ndim == 1 and not kwargs.get("as_tuple"):
            # Each a tensor of one number, which an export knows.
            return [torch.tensor([place]) for place in range(args[0].shape[0])]
        if function is torch.where and len(args) == 1 and not kwargs and args[0].ndim == 2:
            return self._every_pair(args[0])
        if function is torch.Tensor.index_add_ and not kwargs and len(args) == 4:
            total, axis, index, added = args
            shown = next((mask for pairs, mask in self._shown if pairs is index), None)
            if shown is not None and axis == 0:
                shown = shown.reshape(-1, *[1] * (added.ndim - 1))
                return total.index_add_(axis, index, torch.where(shown, added, torch.zeros_like(added)))
        return function(*args, **kwargs)

    def _every_pair(self, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = mask.shape
        first = torch.arange(rows).repeat_interleave(columns)
        second = torch.arange(columns).repeat(rows)
        self._shown.append((second, mask.reshape(-1).bool()))
        return first, second


@cache
def is_loop(forward: Callable[..., Any]) -> bool:
    """Whether a forward loops over what a mask shows, and adds to a sum."""
    try:
        source = inspect.getsource(forward)
    except (OSError, TypeError):  # written in a session, or in C
        return False
    return "nonzero(" in source and "index_add_(" in source
