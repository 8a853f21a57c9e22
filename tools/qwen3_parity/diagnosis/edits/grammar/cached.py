"""Keys and values in few bits where they enter a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, numbers_of
from qwen3_parity.diagnosis.edits.grammar.values import NARROW
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.mistakes.rounding import EIGHT_BITS, LARGEST, OF_ROWS
from qwen3_parity.slices.network import Network
from qwen3_spec.graph import Node, Ref

_Narrow = Callable[[Call, Array], Array]

_BITS = 3, 2
"""Bits of mantissa of the types of 8 bits."""
_BELOW = 4
"""By how many powers of two the largest recorded number may be below the largest of its type."""
_NORMAL = 2.0**-9
"""Below this part of the largest recorded number the type's steps may be equal."""
_ON = 1e-5
"""How far a number may be from a step."""
_FEWEST, _READ = 16, 512
"""Different recorded numbers that a scale is read off, and how many are looked at."""


@dataclass
class _Entering:
    """Where caches of all layers and steps join new keys or values to former ones, and what is new at a region's."""

    newest: int = -1
    joined: set[Site] = field(default_factory=set)


def in_cache(region: Region) -> Iterator[Edit]:
    """Keys and values in few bits: both, and each alone."""
    entering = _entering(region)
    types = [(name, dict.fromkeys(entering, _narrow(rounded))) for name, rounded in (*NARROW, *OF_ROWS)]
    types += _by_scales(region.network, entering)
    for count in range(len(entering), 0, -1):
        for kinds in combinations(sorted(entering), count):
            lines = (line_of(region, entering[kind].newest) for kind in kinds)
            line = next((line for line in lines if line is not None), None)
            for name, narrow in types:
                if narrow.keys() >= {*kinds}:
                    says = f"stores {' and '.join(kinds)} in the cache in {name}"
                    changes = {site: _newest(narrow[kind]) for kind in kinds for site in entering[kind].joined}
                    yield Edit("edit.rounded", says, PLAIN + (1 + len(entering) - count), changes, line)


def _narrow(rounded: Callable[[Array], Array]) -> _Narrow:
    return lambda _, x: rounded(x)


def _newest(narrow: _Narrow) -> Change:
    """What a cache is joined of, the last of it narrow."""

    def change(call: Call) -> Array:
        *former, newest = call.operands[0]
        return np.asarray(call.plain([*former, narrow(call, np.asarray(newest))], *call.operands[1:]))

    return change


def _entering(region: Region) -> dict[str, _Entering]:
    """Where caches are written to, keys and values by name; those of the region's layer."""
    graph, numbers, entering = region.network.graph, numbers_of(region.key[0]), dict[str, _Entering]()
    for (name, step), value in graph.taps.items():
        kind, joined = _kind(name), None
        node = graph.node(value) if kind else None
        while node is not None and (short(node.op) == "slice" or _joins_slots(node)):
            joined = node if short(node.op) == "cat" else joined
            read = node.operands[0] if isinstance(node.operands[0], Ref) else node.operands[0][-1]  # the newest
            value, node = read.value, graph.node(read.value)
        if joined is not None and node is not None:
            here = entering.setdefault(kind, _Entering())
            here.joined.add(site_of(joined, graph))
            here.newest = value if (numbers_of(name), step) == (numbers, region.key[1]) else here.newest
    return {kind: here for kind, here in entering.items() if here.newest >= 0}


def _kind(name: str) -> str:
    """What a tap of a cache, or of what attention reads of it, holds; "" of any other."""
    kind = name.rpartition(".")[2].removesuffix("s")
    return f"{kind}s" if kind in ("key", "value") else ""


def _joins_slots(node: Node) -> bool:
    """Whether a cat is along the axis before the channels."""
    axis = node.operands[1] if len(node.operands) > 1 else node.named.get("dim", 0)
    return short(node.op) == "cat" and axis in (-2, len(node.shape) - 2)


class _Scales(NamedTuple):
    """A type of 8 bits, and by layer the scale at which the largest recorded number is one of its largest."""

    name: str
    rounded: Callable[[Array], Array]
    of_layers: Mapping[tuple[int, ...], float]

    def narrow(self, times: float) -> _Narrow:
        """Rounding by the scale of a call's layer, so many times as large."""

        def narrow(call: Call, x: Array) -> Array:
            numbers = numbers_of("" if call.node is None else call.node.module)
            scale = self.of_layers.get(numbers, 0.0) * times
            return self.rounded(x / scale) * scale if scale else x

        return narrow


def _by_scales(network: Network, kinds: Mapping[str, _Entering]) -> list[tuple[str, dict[str, _Narrow]]]:
    """Types of 8 bits times a scale for all numbers of a layer that are keys, or values: those of recorded caches."""
    every = {kind: scales for kind in kinds if (scales := _recorded_scales(network, kind)) is not None}
    names = dict.fromkeys(scales.name for scales in every.values())
    return [
        (
            f"{name} times a scale of the whole",
            {kind: scales.narrow(2.0**below) for kind, scales in every.items() if scales.name == name},
        )
        for name in names
        for below in range(_BELOW)
    ]


def _recorded_scales(network: Network, kind: str) -> _Scales | None:
    """The type of few bits that recorded caches are in, and its scales; None where a layer's are in none."""
    held = dict[tuple[int, ...], Array]()
    for name, step in network.graph.taps:
        item = network.candidate.get(name, step) if _kind(name) == kind and name.startswith("cache.") else None
        if item is not None:
            held.setdefault(numbers_of(name), np.abs(item.values().ravel()))
    read = {numbers: np.unique(x[(x > 0) & np.isfinite(x)][:_READ]) for numbers, x in held.items()}
    for (name, rounded), largest, bits in sorted(zip(EIGHT_BITS, LARGEST, _BITS, strict=True), key=lambda x: x[2]):
        scales = {numbers: _scale(x, bits, largest) for numbers, x in read.items()}
        if scales and all(scales.values()):
            return _Scales(name, rounded, {numbers: scale for numbers, scale in scales.items() if scale is not None})
    return None


def _scale(numbers: Array, bits: int, largest: float) -> float | None:
    """The scale by which numbers, from the smallest, have so many bits of mantissa, the last of them a large one."""
    numbers = numbers[numbers >= _NORMAL * numbers[-1]] if len(numbers) else numbers
    if len(numbers) < _FEWEST:
        return None
    for mantissa in range(1 << bits, 2 << bits):
        x = numbers / numbers[-1] * mantissa
        x = x * np.exp2(bits - np.floor(np.log2(x * (1 + _ON))))
        if (np.abs(x - np.rint(x)) < _ON).all():
            return float(numbers[-1] / mantissa / np.exp2(np.floor(np.log2(largest)) - bits))
    return None
