"""Modules near a region whose results are recorded: what they read, and what they give on other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import MODULE
from qwen3_parity.diagnosis.edits.edit import Around, Block, numbers_of
from qwen3_spec.aten import TRUTH

SMALL = 16
"""Ops of a module that may run on another value."""
_BESIDE = "modules beside"


class Module(NamedTuple):
    """A module with the region that computes its result."""

    path: str
    region: Around
    block: Block

    def of(self, x: Array) -> Array:
        """What it gives on a value."""
        return self.region.of_block(self.block, {**self.region.base, self.block.begin: x}, TRUTH)


def modules_beside(region: Around) -> Mapping[str, Module]:
    """Small modules of the region's own layer, or of none, that give another recorded value of its step, by path."""
    if _BESIDE not in region.memory:
        region.memory[_BESIDE] = _beside(region)
    return dict(region.memory[_BESIDE])


def _beside(region: Around) -> dict[str, Module]:
    near, network, inside = dict[str, Module](), region.network, set(region.order)
    numbers = numbers_of(region.key[0])
    for (name, step), value in network.graph.taps.items():
        if step != region.key[1] or numbers_of(name) not in (numbers, ()):
            continue
        if value in inside or value not in network.slices.recorded or network.graph.node(value) is None:
            continue
        around = region.of(value, (name, step))
        for module in _giving(around) if len(around.order) <= SMALL else ():
            if 1 < len(module.block.values) <= SMALL:
                near.setdefault(module.path, module)
    return near


def read_before(region: Around, value: int) -> tuple[str, Array] | None:
    """What the module reads that gives a recorded value, with its path open; None where that has another shape."""
    module = _module(region, value)
    return module and (module.path, np.asarray(module.region.base[module.block.begin]))


def once_more(region: Around, value: int, x: Array | None = None) -> Array:
    """What the module that gives a recorded value gives on that, or on `x`. Raises `ValueError` without one."""
    module = _module(region, value)
    if module is None:
        raise ValueError("no module reads and gives one shape here")
    return module.of(np.asarray(module.region.base[module.block.end]) if x is None else x)


def _module(region: Around, value: int) -> Module | None:
    """The module that gives a recorded value, looked for once."""
    if value not in region.memory:
        around = region.of(value, region.key)
        region.memory[value] = next(iter(_giving(around) if around.order else ()), None)
        region.work += around.work
    module: Module | None = region.memory[value]
    return module


def _giving(region: Around) -> list[Module]:
    """The modules that read one shape and give the region's value."""
    return [
        Module(site.op, region, block)
        for site, every in region.blocks.items()
        for block in every
        if site.file == MODULE and block.end == region.value
    ]
