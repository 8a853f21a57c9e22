"""Bugs of kernels (blocks, tiles, strides, approximations, half precision), seeded in our implementation.

They are written before the library of mistakes knows them, and without a look at it. Half of them, by a hash of their
names, are open to those who write that library; of the closed half only sums are printed. Which answers are right ones
was written down for both halves at once, from what the bugs do.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import import_module

from detection.mutants.mutant import Mutant

__all__ = ["FILES", "catalogue", "is_open"]

FILES = ("products", "softmax", "linears", "elementwise", "entry")


@cache
def catalogue() -> tuple[Mutant, ...]:
    """Every bug of a kernel, file by file."""
    return tuple(mutant for name in FILES for mutant in import_module(f"{__name__}.{name}").MUTANTS)


def is_open(name: str) -> bool:
    """Whether a bug belongs to the half that may be looked at: by its name alone, so that a new bug moves no other."""
    return sha256(name.encode()).digest()[0] % 2 == 0
