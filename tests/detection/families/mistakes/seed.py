"""What a mistake is: where the blame belongs, and how it is made; by its name, for every family that has the part."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from torch import nn

from detection.families.subject import Subject


class Seed(NamedTuple):
    """A mistake in a family: the paths of the modules whose computation, or parameter, is then wrong."""

    blame: tuple[str, ...]
    on: Callable[[], AbstractContextManager[None]]


Mistake = Callable[[Subject], Seed | None]
MISTAKES: dict[str, Mistake] = {}
"""By name; each makes a seed, or None for a family that has no such part."""


def mistake(make: Mistake) -> Mistake:
    """A mistake, by the name of its function."""
    MISTAKES[make.__name__.replace("_", " ")] = make
    return make


def last(modules: Iterable[tuple[str, nn.Module]], *, before: int = 0) -> tuple[str, nn.Module] | None:
    """The last of some modules with their paths, or one before it; the first where there are too few."""
    every = list(modules)
    return every[max(len(every) - 1 - before, 0)] if every else None


def calling(subject: Subject, *functions: str, within: str = "") -> list[tuple[str, nn.Module]]:
    """Modules whose forward itself calls one of these torch functions."""
    return [
        (path, module)
        for path, module in subject.modules()
        if path and within in path and any(subject.calls[path][name] for name in functions)
    ]
