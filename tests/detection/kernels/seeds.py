"""Where kernels are put in the place of our implementation's ops, and blocks of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.kernels.answers import ANSWERS
from detection.mutants.mutant import Mutant, Seed, attention
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

Change = Callable[[torch.Tensor], torch.Tensor]
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")


def bug(name: str, says: str, seed: Seed, wrong: frozenset[str], cases: tuple[str, ...] = BOTH) -> Mutant:
    """A bug of a kernel, and the answers that are right ones of it."""
    return Mutant(f"kernel/{name}", says, seed, wrong, ANSWERS.get(name, frozenset()), cases)


def whole(x: torch.Tensor, dim: int, block: int) -> torch.Tensor:
    """The whole blocks of an axis."""
    return x.narrow(dim, 0, x.shape[dim] - x.shape[dim] % block)


def tail(x: torch.Tensor, dim: int, block: int) -> torch.Tensor:
    """What whole blocks leave of an axis."""
    rest = x.shape[dim] % block
    return x.narrow(dim, x.shape[dim] - rest, rest)


def cleared(x: torch.Tensor, dim: int, block: int) -> torch.Tensor:
    """Zeros in the place of the tail."""
    return torch.cat((whole(x, dim, block), torch.zeros_like(tail(x, dim, block))), dim)


def replaced(function: Callable[..., Any], kernel: Callable[..., Any]) -> Seed:
    """`kernel(plain, *args)` wherever the function is used."""
    return lambda patch: patch.function(function, kernel)


def inputs_of(function: Callable[..., Any], *changes: Change | None) -> Seed:
    """The function reads changed tensors."""

    def kernel(plain: Any, *args: Any) -> Any:
        read = [change(x) if change else x for change, x in zip(changes, args, strict=False)]
        return plain(*read, *args[len(read) :])

    return replaced(function, kernel)


def output_of(function: Callable[..., Any], change: Change) -> Seed:
    """The function's result is changed."""
    return replaced(function, lambda plain, *args: change(plain(*args)))


SCORES, PROBS, CONTEXT = attention("scores"), attention("probs"), attention("context")
scores, probabilities, context = code.scaled_scores, code.probabilities, code.weighted_values


def half(dtype: torch.dtype) -> Change:
    """Rounded to a dtype and back."""
    return lambda x: x.to(dtype).to(x.dtype)


def running_sum(parts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The sum over the last axis, one term after the other, in a dtype."""
    total = torch.zeros(parts.shape[:-1], dtype=dtype)
    for part in parts.unbind(-1):
        total = (total + part.to(dtype)).to(dtype)
    return total.to(parts.dtype)


def of_layers(change: Callable[[Patch, Any], None]) -> Seed:
    """`change(patch, layer)` of every layer of both stacks."""

    def seed(patch: Patch) -> None:
        for layer in patch.layers():
            change(patch, layer)

    return seed
