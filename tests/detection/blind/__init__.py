"""Blind draws of bugs from others' trackers, written apart from whatever looks for them, and run when that is final.

Nothing here reads how bugs are found or named; answers are judged by words written from the mechanism.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from detection.blind.row import Row

DRAWS = ("first", "second", "third", "fourth")
"""Packages here, each with the names of its modules in `FILES`, its `answers.txt` and its words."""


@cache
def draw(*names: str) -> tuple[Row, ...]:
    """Every row of these draws, or of all, file by file."""
    packages = [f"{__name__}.{name}" for name in names or DRAWS]
    files = [f"{package}.{file}" for package in packages for file in import_module(package).FILES]
    return tuple(row for file in files for row in import_module(file).ROWS)
