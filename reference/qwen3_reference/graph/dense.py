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

_Pairs = list[tuple[torch.Tensor, torch.Tensor]]
"""Columns of pairs that a mask was asked for, and which of them show."""


class AllShown(TorchFunctionMode):
    """Inside, `nonzero` of a vector gives every place, `where` of a matrix every pair, `index_add_` only what shows."""

    def __init__(self) -> None:
        super().__init__()
        self._pairs: _Pairs = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {name: value for name, value in (kwargs or {}).items() if name != "as_tuple" or value}
        instead = None if named else _INSTEAD.get(function)
        result = None if instead is None else instead(self._pairs, *args)
        return function(*args, **(kwargs or {})) if result is None else result


def _places(_: _Pairs, mask: torch.Tensor) -> list[torch.Tensor] | None:
    """Every place of a vector, each a tensor of one number, which an export knows."""
    return [torch.tensor([place]) for place in range(mask.shape[0])] if mask.ndim == 1 else None


def _as_text(_: _Pairs, number: torch.Tensor, *how: str) -> str | None:
    """A number that an export knows as an expert's name has it."""
    return None if number.ndim else format(number.item(), *how)


def _part(_: _Pairs, x: torch.Tensor, axis: int, *place: int) -> torch.Tensor | None:
    """The last part for the class behind the last expert, which no token has: another's weights will do."""
    beyond = [isinstance(number, int) and number >= x.shape[axis] for number in place]
    return torch.select(x, axis, -1) if beyond == [True] else None


def _every_pair(pairs: _Pairs, mask: torch.Tensor, *sides: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Rows and columns of every cell of a matrix."""
    if sides or mask.ndim != 2:
        return None
    rows, columns = mask.shape
    first, second = torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)
    pairs.append((second, mask.reshape(-1).bool()))
    return first, second


def _add_shown(
    pairs: _Pairs, total: torch.Tensor, axis: int, index: torch.Tensor, added: torch.Tensor
) -> torch.Tensor | None:
    """The sum with what comes of pairs that show, and zeros for all others."""
    shown = next((mask for columns, mask in pairs if columns is index), None)
    if shown is None or axis:
        return None
    shown = shown.reshape(-1, *[1] * (added.ndim - 1))
    return total.index_add_(axis, index, torch.where(shown, added, torch.zeros_like(added)))


_INSTEAD: Mapping[Callable[..., Any], Callable[..., Any]] = {
    torch.nonzero: _places,
    torch.Tensor.nonzero: _places,
    torch.Tensor.__format__: _as_text,
    torch.select: _part,
    torch.where: _every_pair,
    torch.Tensor.index_add_: _add_shown,
}
"""By function of torch what is given in its place; None: what it gives itself."""


@cache
def is_loop(forward: Callable[..., Any]) -> bool:
    """Whether a forward loops over what a mask shows, and adds to a sum."""
    try:
        source = inspect.getsource(forward)
    except (OSError, TypeError):  # written in a session, or in C
        return False
    return "nonzero(" in source and "index_add_(" in source
