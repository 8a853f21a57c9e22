"""Where the modules inside of a region begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from qwen3_parity.diagnosis.edits.region import Region

_MOST = 60
"""Ops of a module that may be left out; a larger one is no part of a mistake."""


def module_ends(region: Region) -> dict[str, dict[int, int]]:
    """By a module's path: its result, with the value that it reads, where there is one of each, of one shape."""
    ends = dict[str, dict[int, int]]()
    for path, values in _modules(region).items():
        pair = _ends(region, values)
        if pair is not None:
            ends.setdefault(path, {})[pair[1]] = pair[0]
    return ends


def _modules(region: Region) -> dict[str, list[int]]:
    """The region's values by the module that makes them, those of the modules inside among them."""
    modules = dict[str, list[int]]()
    for value in region.order:
        node = region.node(value)
        path = "" if node is None else node.module
        while path:
            modules.setdefault(path, []).append(value)
            path = path.rpartition(".")[0]
    return {path: values for path, values in modules.items() if len(values) <= _MOST}


def _ends(region: Region, values: list[int]) -> tuple[int, int] | None:
    inside = set(values)
    results = [
        value
        for value in values
        if value == region.value or any(user not in inside for user in region.users.get(value, ()))
    ]
    if len(results) != 1:
        return None
    shape = np.shape(region.base[results[0]])
    for value in values:
        node = region.node(value)
        for read in node.reads if node is not None else ():
            before = region.base.get(read)
            if read in inside or read in region.names or not isinstance(before, np.ndarray) or before.dtype.kind != "f":
                continue
            return (read, results[0]) if before.shape == shape else None
    return None
