"""The right tap in the right slot, changed on the way: other rows, other positions, another layout, rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qwen3_golden import Array, pattern_of
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite
from qwen3_parity.mistakes.layouts import heads_axis, sequence_axis
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.ranks import COMBINED, RARE, Rank
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.site import Site

Change = Callable[[Site], "Site | None"]
_Values = Callable[[Array, Sequence[str]], "Array | None"]


def _along_batch(index: Callable[[int], Array]) -> _Values:
    return lambda v, axes: v[index(len(v))] if axes[0] == "batch" and len(v) > 1 else None


def _along(find: Callable[[Sequence[str]], int | None], by: int) -> _Values:
    def moved(values: Array, axes: Sequence[str]) -> Array | None:
        axis = find(axes)
        return None if axis is None or values.shape[axis] < 2 else np.roll(values, by, axis)

    return moved


def _moved_in(by: int) -> _Values:
    """Positions moved by one, zeros coming in."""

    def moved(values: Array, axes: Sequence[str]) -> Array | None:
        axis = sequence_axis(axes)
        if axis is None or values.shape[axis] < 2:
            return None
        rolled = np.roll(values, by, axis)
        edge: list[slice | int] = [slice(None)] * values.ndim
        edge[axis] = 0 if by > 0 else -1
        rolled[tuple(edge)] = 0
        return rolled

    return moved


def _one_position(which: int) -> _Values:
    def repeated(values: Array, axes: Sequence[str]) -> Array | None:
        axis = sequence_axis(axes)
        if axis is None or values.shape[axis] < 2:
            return None
        return np.broadcast_to(values.take([which], axis=axis), values.shape)

    return repeated


def _reversed(values: Array, axes: Sequence[str]) -> Array | None:
    axis = sequence_axis(axes)
    return None if axis is None or values.shape[axis] < 2 else np.flip(values, axis)


def _not_transposed(values: Array, axes: Sequence[str]) -> Array | None:
    """Heads and positions read in each other's order: a view where a transposition belongs."""
    axis = heads_axis(axes)
    if axis is None or values.ndim != 4:
        return None
    return np.ascontiguousarray(np.swapaxes(values, 1, 2)).reshape(values.shape)


def _interleaved_heads(values: Array, axes: Sequence[str]) -> Array | None:
    """Channel c of head h taken from c * heads + h."""
    axis = heads_axis(axes)
    if axis is None or values.ndim != 4:
        return None
    behind = np.swapaxes(values, 1, 2) if axis == 1 else values
    batch, length, heads, dim = behind.shape
    mixed = np.ascontiguousarray(behind).reshape(batch, length, dim, heads).swapaxes(2, 3)
    return np.swapaxes(mixed, 1, 2) if axis == 1 else mixed


_TABLE: tuple[tuple[str, str, _Values, Rank], ...] = (
    ("wiring.other_row", "of the batch row before", _along_batch(lambda n: np.arange(n) - 1), RARE),
    ("wiring.other_row", "of the batch row behind", _along_batch(lambda n: (np.arange(n) + 1) % n), RARE),
    ("wiring.other_row", "of the first batch row", _along_batch(lambda n: np.zeros(n, int)), RARE),
    ("wiring.other_row", "of the last batch row", _along_batch(lambda n: np.full(n, n - 1)), RARE + 1),
    ("wiring.other_row", "of the batch rows in reverse order", _along_batch(lambda n: np.arange(n)[::-1]), RARE + 1),
    ("wiring.shifted", "one position late", _moved_in(1), RARE),
    ("wiring.shifted", "one position early", _moved_in(-1), RARE),
    ("wiring.shifted", "rolled by one position", _along(sequence_axis, 1), RARE + 1),
    ("wiring.shifted", "rolled back by one position", _along(sequence_axis, -1), RARE + 1),
    ("wiring.shifted", "in reverse order", _reversed, RARE + 1),
    ("wiring.one_position", "of the first position at every position", _one_position(0), RARE + 1),
    ("wiring.one_position", "of the last position at every position", _one_position(-1), RARE + 1),
    ("wiring.layout", "viewed without exchanging heads and positions", _not_transposed, RARE),
    ("wiring.layout", "split into heads with the heads innermost", _interleaved_heads, RARE),
    ("wiring.layout", "with its heads rolled by one", _along(heads_axis, 1), RARE + 1),
    ("wiring.layout", "with its channels rolled by one", lambda v, _: np.roll(v, 1, -1), COMBINED),
    ("wiring.layout", "with its channels in reverse order", lambda v, _: v[..., ::-1], COMBINED),
    ("wiring.negated", "negated", lambda v, _: -v if v.dtype.kind == "f" else None, RARE),
    ("wiring.absolute", "without its sign", lambda v, _: np.abs(v) if v.dtype.kind == "f" else None, COMBINED),
    ("wiring.clamped", "clamped to ±1", lambda v, _: np.clip(v, -1, 1) if v.dtype.kind == "f" else None, COMBINED + 1),
)  # fmt: skip
"""Changes of an activation in any form."""


def changes(site: Site, slot: int) -> Iterator[tuple[Hypothesis, Change]]:
    """The changes of one slot of a site, each with the site that it gives."""
    place = site.values.place(site.names[slot])
    if place is None:
        return
    input_name, axes = site.names[slot], place.axes
    fix = f"read {pattern_of(input_name)} as it is"
    for name, says, values, rank in _TABLE:
        yield _pair(name, f"reads {input_name} {says}", fix, slot, axes, values, rank)
    if axes[-1] == "channel" and site.place.op != "linear":
        for says, values in _split_wrongly(site.config.head_dim):
            yield _pair("wiring.layout", f"reads {input_name} {says}", fix, slot, axes, values, RARE)
    for kind, rounded in ROUNDED:
        text = f"reads {input_name} rounded to {kind}"
        yield _pair(
            "wiring.half_precision", text, "keep the inputs' precision", slot, axes, _of_floats(rounded), RARE + 1
        )
    if site.inputs[slot].dtype.kind == "f" and "query" in axes and "key" not in axes:
        yield from _norms(site, slot)


def _split_wrongly(head_dim: int) -> Iterator[tuple[str, _Values]]:
    """Channels that are split into heads in a wrong order, `[batch, seq, channel]`, where they are whole heads."""

    def untransposed(values: Array, axes: Sequence[str]) -> Array | None:
        batch, length, width = values.shape
        if width % head_dim:
            return None
        heads = values.reshape(batch, width // head_dim, length, head_dim)
        return np.ascontiguousarray(np.swapaxes(heads, 1, 2)).reshape(values.shape)

    def interleaved(values: Array, axes: Sequence[str]) -> Array | None:
        batch, length, width = values.shape
        if width % head_dim:
            return None
        heads = values.reshape(batch, length, head_dim, width // head_dim)
        return np.ascontiguousarray(np.swapaxes(heads, 2, 3)).reshape(values.shape)

    yield "viewed as heads without exchanging heads and positions", untransposed
    yield "split into heads with the heads innermost", interleaved


def _of_floats(change: Callable[[Array], Array]) -> _Values:
    return lambda v, _: change(v) if v.dtype.kind == "f" else None


def _pair(
    name: str, says: str, fix: str, slot: int, axes: Sequence[str], values: _Values, rank: Rank
) -> tuple[Hypothesis, Change]:
    def change(site: Site) -> Site | None:
        if slot >= len(site.inputs):
            return None
        changed = values(site.inputs[slot], axes)
        if changed is None:
            return None
        inputs = list(site.inputs)
        inputs[slot] = changed
        return replace(site, inputs=tuple(inputs))

    return Hypothesis(name, says, fix, OfSite(change), rank), change


def _norms(site: Site, slot: int) -> Iterator[tuple[Hypothesis, Change]]:
    """The slot's value goes through one of the network's norms first (of the same layer, or an end norm)."""
    input_name, width = site.names[slot], site.inputs[slot].shape[-1]
    layer = site.place.layer
    patterns = {
        pattern_of(name)
        for name, weight in site.checkpoint.items()
        if name.endswith("norm.weight") and weight.shape == (width,)
    }
    place, fix = site.values.place(input_name), f"read {pattern_of(input_name)} as it is"
    for pattern in sorted(patterns):
        if layer is None and "{layer}" in pattern:
            continue

        def change(site: Site, pattern: str = pattern) -> Site | None:
            weight = site.checkpoint.get(pattern.replace("{layer}", str(site.place.layer)))
            if weight is None or slot >= len(site.inputs) or weight.shape != site.inputs[slot].shape[-1:]:
                return None
            if site.place.op == "copy":  # what is normed is no copy: it rounds
                norm: Any = site.place
                return replace(
                    site, place=replace(norm, op="rms_norm", parameters=(pattern,)), parameters={"weight": weight}
                )
            inputs = list(site.inputs)
            inputs[slot] = normed(site, inputs[slot], weight)[0]
            return replace(site, inputs=tuple(inputs))

        norm = pattern.removesuffix(".weight").replace("{layer}", "N")
        says = f"reads {input_name} after the norm {norm} once more"
        assert place is not None
        yield Hypothesis("wiring.extra_norm", says, fix, OfSite(change), RARE), change
