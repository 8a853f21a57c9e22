"""How somebody's tensor is laid out as a tap of which only its axes and its shape are known.

Rows that are flattened, heads that are joined or apart, and positions in another place are recognised, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod
from typing import NamedTuple

from qwen3_golden import Array

POSITIONS = ("batch", "query", "key")
_ROW, _CHANNEL = "row", "channel"
_MAX_AXES = 12
"""Longer than any layout of a network's tensor; ways to read a shape grow with its axes."""


class Part(NamedTuple):
    """An axis of a tap: one of `POSITIONS`, or "channel"; a "row" is its "batch" and its "query"."""

    kind: str
    size: int


class AmbiguousLayoutError(ValueError):
    """A shape that can be read as a tap in several ways; `readings` has what each calls its axes."""

    def __init__(self, readings: Sequence[Sequence[str]]) -> None:
        super().__init__(" or ".join(" ".join(reading) for reading in readings))
        self.readings = readings


def parts_of(axes: Sequence[str], sizes: Sequence[int], batch: int) -> list[Part]:
    """A tap's axes with their sizes, each "row" taken apart.

    Raises `ValueError` where the batch does not divide it, and for positions that stand there twice.
    """
    parts = list[Part]()
    for axis, size in zip(axes, sizes, strict=True):
        if axis == _ROW:
            if size % batch:
                raise ValueError(f"{size} rows of {batch} texts")
            parts += [Part("batch", batch), Part("query", size // batch)]
        else:
            parts.append(Part(axis if axis in POSITIONS else _CHANNEL, size))
    positions = [part.kind for part in parts if part.kind in POSITIONS]
    if len(set(positions)) < len(positions):
        raise ValueError(f"{', '.join(axes)}: a position twice")
    return parts


def width_of(parts: Sequence[Part]) -> int:
    """How many numbers a tap has at one position."""
    return prod(part.size for part in parts if part.kind not in POSITIONS)


def parse_groups(text: str) -> tuple[str, ...]:
    """What each axis of "query batch (heads head_dim)" is: brackets join neighbours, any other word is a channel."""
    groups = [re.findall(r"\w+", match[0]) for match in re.finditer(r"\([^()]*\)|\w+", text)]
    return tuple(_kind(words) for words in groups)


def _kind(words: Sequence[str]) -> str:
    if list(words) in (["batch", "query"], [_ROW]):
        return _ROW
    return words[0] if len(words) == 1 and words[0] in POSITIONS else _CHANNEL


def lay_out(array: Array, parts: Sequence[Part], order: Sequence[str] = (), *, by_name: bool = False) -> Array:
    """A tensor with the axes of `parts`, in their order and of their sizes; otherwise as `reading_of`."""
    reading = reading_of(array.shape, parts, order, by_name=by_name)
    return _moved(array, reading, _without_ones(parts)).reshape([part.size for part in parts])


def reading_of(
    shape: Sequence[int], parts: Sequence[Part], order: Sequence[str] = (), *, by_name: bool = False
) -> tuple[str, ...]:
    """What each axis of a shape is, those of length 1 left out: a position, "row" or "channel".

    `order` says it of every axis, empty where shapes tell. `by_name`: the tensor comes from where the tap itself does,
    so it is in the tap's own order wherever that fits. Raises `AmbiguousLayoutError` where shapes leave open whether
    positions or channels come first, `ValueError` where nothing fits.
    """
    long, lengths = _without_ones(parts), _long(shape)
    if order:
        if len(order) != len(shape):
            raise ValueError(f"{len(order)} axes")
        kinds = tuple(kind for kind, size in zip(order, shape, strict=True) if size != 1)
        fits = [reading for reading in _readings(lengths, long) if reading == kinds]
    else:
        fits = [reading for reading in _readings(lengths, long) if _is_usual(reading, long)]
    if not fits:
        raise ValueError("no reading")
    in_order = [reading for reading in fits if _outline(reading) == _outline([part.kind for part in long])]
    chosen = in_order[0] if in_order else fits[0]
    others = [reading for reading in fits if _channels_first(reading) != _channels_first(chosen)]
    if others and not (in_order and by_name):
        raise AmbiguousLayoutError([chosen, *others])
    return chosen


def _without_ones(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.size != 1]


def _long(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _readings(shape: Sequence[int], parts: Sequence[Part]) -> Iterator[tuple[str, ...]]:
    """What each axis of a shape can be, so that every position of a tap stands there once and its channels in order."""
    if len(shape) > _MAX_AXES:
        return iter(())
    left = {part.kind: part.size for part in parts if part.kind != _CHANNEL}
    widths = [part.size for part in parts if part.kind == _CHANNEL]

    def further(done: tuple[str, ...], left: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
        if len(done) == len(shape):
            channels = [size for kind, size in zip(done, shape, strict=True) if kind == _CHANNEL]
            if not left and _regrouped(channels, widths):
                yield done
            return
        size = shape[len(done)]
        for kind, length in left.items():
            if length == size:
                yield from further((*done, kind), {position: left[position] for position in left if position != kind})
        if {"batch", "query"} <= left.keys() and left["batch"] * left["query"] == size:
            yield from further(
                (*done, _ROW), {position: left[position] for position in left if position not in ("batch", "query")}
            )
        yield from further((*done, _CHANNEL), left)

    return further((), left)


def _regrouped(channels: Sequence[int], widths: Sequence[int]) -> bool:
    """Whether channels are those of a tap with neighbours joined, or taken apart."""
    if prod(channels) != prod(widths):
        return False
    ends = [{prod(sizes[:count]) for count in range(1, len(sizes) + 1)} for sizes in (channels, widths)]
    return ends[0] <= ends[1] or ends[1] <= ends[0]


def _is_usual(reading: Sequence[str], parts: Sequence[Part]) -> bool:
    """Whether the fastest axis is the tap's own, and texts are not within channels unless they are in the tap."""
    if not parts or not reading:
        return True
    kinds = [part.kind for part in parts]
    within = [_channels_before("batch", axes) for axes in (_flat(reading), kinds)]
    return _flat(reading)[-1] == kinds[-1] and (not within[0] or within[1] > 0)


def _channels_before(position: str, reading: Sequence[str]) -> int:
    return list(reading[: reading.index(position)]).count(_CHANNEL) if position in reading else 0


def _flat(reading: Sequence[str]) -> list[str]:
    return [kind for axis in reading for kind in (("batch", "query") if axis == _ROW else (axis,))]


def _outline(reading: Sequence[str]) -> list[str]:
    """A reading with its rows apart and its channels joined."""
    return [kind for kind, _ in groupby(_flat(reading))]


def _channels_first(reading: Sequence[str]) -> list[int]:
    """How many channels stand before each of a reading's positions, by the position's name."""
    return [_channels_before(kind, _flat(reading)) for kind in POSITIONS]


def _moved(array: Array, reading: Sequence[str], parts: Sequence[Part]) -> Array:
    """An array whose long axes are those of `reading`, with those of `parts`."""
    sizes = {part.kind: part.size for part in parts if part.kind != _CHANNEL}
    flat, shape = _flat(reading), list[int]()
    for kind, size in zip(reading, _long(array.shape), strict=True):
        shape += [sizes["batch"], sizes["query"]] if kind == _ROW else [size]
    positions = [part.kind for part in parts if part.kind != _CHANNEL]
    channels = [number for number, kind in enumerate(flat) if kind == _CHANNEL]
    moved = array.reshape(shape).transpose([flat.index(kind) for kind in positions] + channels)
    widths = [part.size for part in parts if part.kind == _CHANNEL]
    unfolded = moved.reshape([*(sizes[kind] for kind in positions), *widths])
    order, count = list[int](), len(positions)
    for part in parts:
        if part.kind == _CHANNEL:
            order.append(count)
            count += 1
        else:
            order.append(positions.index(part.kind))
    return unfolded.transpose(order)
