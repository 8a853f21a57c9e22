"""73 bugs of networks that nobody here had seen when they were drawn: a measuring instrument, never an example.

Which answers are right was written from the bugs, before anything was said of them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from detection.unseen.row import Row

__all__ = ["Row", "rows"]

_FILES = (
    *("norms", "rotations", "positions", "masks", "caches", "scores", "weights", "linears", "requests", "training"),
)


@cache
def rows() -> tuple[Row, ...]:
    """Every bug, file by file."""
    return tuple(row for name in _FILES for row in import_module(f"{__name__}.{name}").ROWS)
