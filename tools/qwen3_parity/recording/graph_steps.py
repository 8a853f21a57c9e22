"""What the steps of a golden with a graph have of a tensor that a forward gave: laid out as the tap, and cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, ParityError, Recording, pb
from qwen3_parity.judge.tap_verdict import HEADS
from qwen3_parity.recording.graph_taps import general, names_of
from qwen3_parity.recording.slots import Forward
from qwen3_parity.recording.tap_axes import AmbiguousLayoutError, Part, lay_out, parts_of, reading_of


class Cut(NamedTuple):
    """What a step has of a tap."""

    step: int
    array: Array


class Wanted(NamedTuple):
    """A tap as a forward has it: its parts, and the steps that can be cut out of it.

    `cuts` says of each part whether it grows with the forward's slots.
    """

    parts: list[Part]
    cuts: tuple[bool, ...]
    steps: tuple[int, ...]


def wanted_of(
    golden: Recording, name: str, forward: Forward, bounds: Sequence[tuple[int, int]], batch: int
) -> Wanted | None:
    """How a tap must be laid out in a forward; None where no step that the forward completes has it.

    What has no positions is the state at a forward's end: it is that of the last step alone, and of no step where the
    forward runs through several. Raises `ValueError` for axes that contradict each other.
    """
    done = [step for step, (start, stop) in enumerate(bounds) if start >= forward.new and stop <= forward.stop]
    there = [(step, item.info) for step in done if (item := golden.get(name, step)) is not None]
    if not there:
        return None
    rows, (last, info) = golden.case.rows, there[-1]
    parts = _parts(info, batch)
    cuts = _growing(parts, bounds[last], rows)
    alike = {_growing(_parts(info, batch), bounds[step], rows) for step, info in there} == {cuts}
    if len(there) > 1 and not (alike and any(cuts)):
        return None
    if len(done) > 1 and not any(cuts) and any(part.kind in ("query", "key") for part in parts):
        return Wanted(parts, cuts, (last,))  # of another length than the steps: an encoder's
    if not any(cuts) and bounds[last][1] != forward.stop:
        return None
    size = {"query": forward.stop - forward.first, "key": forward.stop}
    grown = [Part(part.kind, size[part.kind]) if cut else part for part, cut in zip(parts, cuts, strict=True)]
    return Wanted(grown, cuts, tuple(step for step, _ in there))


def _parts(info: pb.Tensor, batch: int) -> list[Part]:
    return parts_of(info.axes or ("channel",) * len(info.shape), info.shape, batch)


def _growing(parts: Sequence[Part], bounds: tuple[int, int], rows: int) -> tuple[bool, ...]:
    return tuple(_grows(part, bounds, rows) for part in parts)


def _grows(part: Part, bounds: tuple[int, int], rows: int) -> bool:
    """Whether a part is as long as its step, or as what the step has seen."""
    length = bounds[1] - bounds[0]
    if part.kind == "query":
        return part.size == (min(length, rows) if rows else length)
    return part.kind == "key" and part.size == bounds[1]


def cut_into_steps(
    array: Array,
    golden: Recording,
    name: str,
    forward: Forward,
    bounds: Sequence[tuple[int, int]],
    batch: int,
    where: str,
    order: Sequence[str] = (),
    *,
    by_name: bool = False,
) -> Iterator[Cut]:
    """What each step that a forward completes has of a tap, in the golden's axes and shape.

    Logits of a forward's last position alone are those of its last step. `order` and `by_name` as in
    `tap_axes.lay_out`. Raises `ParityError` for a shape that is not the tap's, or in several ways.
    """
    try:
        layout = wanted_of(golden, name, forward, bounds, batch)
        if layout is None:
            return
        if alone := _last_alone(array.shape, name, layout):
            layout = layout._replace(parts=alone, steps=layout.steps[-1:])
        laid = lay_out(array, layout.parts, order, by_name=by_name)
    except AmbiguousLayoutError as error:
        raise _ambiguous(where, name, error, array.shape) from None
    except ValueError:
        raise misfit(golden, where, name, forward, bounds, batch, array.shape) from None
    for step in layout.steps:
        info = golden[name, step].info
        part = laid if alone else _cut(laid, layout, _parts(info, batch), forward, bounds[step])
        if not alone and part.size != prod(info.shape):  # what a state has compressed is no part of a longer one
            raise misfit(golden, where, name, forward, bounds, batch, array.shape)
        yield Cut(step, part if alone else part.reshape(tuple(info.shape)))


def fits(shape: Sequence[int], name: str, layout: Wanted, order: Sequence[str] = (), *, by_name: bool = False) -> bool:
    """Whether a shape can be that of a tap; what can be it in several ways can."""
    try:
        reading_of(shape, _last_alone(shape, name, layout) or layout.parts, order, by_name=by_name)
    except AmbiguousLayoutError:
        return True
    except ValueError:
        return False
    return True


def _last_alone(shape: Sequence[int], name: str, layout: Wanted) -> list[Part]:
    """The parts of logits of the last position alone, none where these are of all."""
    if name not in HEADS or not all(part.kind in ("batch", "query", "channel") for part in layout.parts):
        return []
    parts = [part._replace(size=1) if part.kind == "query" else part for part in layout.parts]
    sizes = [prod(part.size for part in group) for group in (parts, layout.parts)]
    return parts if prod(shape) == sizes[0] != sizes[1] else []


def _cut(laid: Array, layout: Wanted, parts: Sequence[Part], forward: Forward, bounds: tuple[int, int]) -> Array:
    """A step's part of a tap; a case may keep the last of its rows alone."""
    start, stop = bounds
    slices = list[slice]()
    for part, grows in zip(parts, layout.cuts, strict=True):
        if not grows:
            slices.append(slice(None))
        elif part.kind == "key":
            slices.append(slice(stop))
        else:
            slices.append(slice(max(start, stop - part.size) - forward.first, stop - forward.first))
    return np.asarray(laid[tuple(slices)])


def misfit(
    golden: Recording,
    where: str,
    name: str,
    forward: Forward,
    bounds: Sequence[tuple[int, int]],
    batch: int,
    shape: Sequence[int],
) -> ParityError:
    """What is said of a tensor that is not the tap's in any layout that is recognised."""
    try:
        layout = wanted_of(golden, name, forward, bounds, batch)
        axes, sizes = _joined(golden, name, layout) if layout else ([], [])
    except ValueError as error:
        return ParityError(
            golden.source,
            f"the axes of {name} contradict its shape",
            expected="batch, query, key, row or channel for each dimension",
            got=error,
            next_step="capture the golden again",
        )
    next_step = "check which tap this is, and put its axes in that order; a name map may say them"
    if layout and _are_new_keys(shape, name, layout, forward):
        caches = dict.fromkeys(general(tap) for tap in names_of(golden) if tap.startswith("cache."))
        instead = f", or leave it out and hand over the cache, {' and '.join(caches)}" if caches else ""
        next_step = f"these are the forward's new keys alone: put those of the cache before them{instead}"
    return ParityError(
        where,
        f"its shape is not that of {name}: {list(shape)}, not {sizes}",
        expected=f"[{', '.join(axes)}] = {sizes}, or the same with rows or channels joined or apart, or axes exchanged",
        got=f"shape {list(shape)}",
        next_step=next_step,
    )


def _are_new_keys(shape: Sequence[int], name: str, layout: Wanted, forward: Forward) -> bool:
    """Whether a shape is that of a tap with as many keys as the forward has tokens, without those of the cache."""
    new = [part._replace(size=forward.stop - forward.first) if part.kind == "key" else part for part in layout.parts]
    return new != layout.parts and fits(shape, name, layout._replace(parts=new))


def _joined(golden: Recording, name: str, layout: Wanted) -> tuple[list[str], list[int]]:
    """A tap's own axes, as long as they are in a forward."""
    info, parts, sizes = golden[name, layout.steps[-1]].info, iter(layout.parts), list[int]()
    axes = list(info.axes) or ["channel"] * len(info.shape)
    for axis in axes:
        size = next(parts).size
        sizes.append(size * next(parts).size if axis == "row" else size)
    return axes, sizes


def _ambiguous(where: str, name: str, error: AmbiguousLayoutError, shape: Sequence[int]) -> ParityError:
    return ParityError(
        where,
        f"its shape leaves open whether channels or positions come first in {name}",
        expected=" or ".join(f'axes = "{" ".join(reading)}"' for reading in error.readings[:3]),
        got=f"shape {list(shape)}",
        next_step="say its axes in the name map",
    )
