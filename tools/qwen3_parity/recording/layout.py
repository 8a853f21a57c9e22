"""How somebody's tensor is laid out as a tap: axes in another order, heads that are joined, several taps in one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import prod

import numpy as np

from qwen3_golden import Array, pb

_CHANNELS = {"q_proj": ("heads", "head_dim"), "k_proj": ("kv_heads", "head_dim"), "v_proj": ("kv_heads", "head_dim")}
_HEADS = frozenset({"heads", "kv_heads"})


def sizes_of(config: pb.ModelConfig, batch: int, query: int, key: int) -> dict[str, int]:
    """How long each axis of taps.textproto is in a forward of `query` positions that sees `key` slots."""
    return {
        "batch": batch,
        "query": query,
        "key": key,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "pair": config.head_dim // 2,
        "hidden": config.hidden_size,
        "intermediate": config.intermediate_size,
        "vocab": config.vocab_size,
    }


def split_axes(pattern: str, axes: Sequence[str]) -> tuple[str, ...]:
    """A tap's axes, the channels of a projection as the heads that they are."""
    parts = _CHANNELS.get(pattern.rpartition(".")[2].removeprefix("encoder_"), ("channel",))
    return tuple(part for axis in axes for part in (parts if axis == "channel" else (axis,)))


def _is_grouping(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether a shape is these sizes with some neighbours joined; axes of length 1 may be there or not."""
    rest = [size for size in sizes if size != 1]
    for length in shape:
        joined = 1
        while joined < length and rest:
            joined *= rest.pop(0)
        if joined != length:
            return False
    return not rest


def readings(shape: Sequence[int], axes: Sequence[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """The orders of a tap's axes in which a tensor of `shape` can hold it, its own order first, each once.

    The last axis stays the last, neighbours may be joined, and axes of length 1 change nothing.
    Nobody has the rows of a batch within a head, nor in the place of all heads' channels one head's at all positions.
    """
    known = set[tuple[str, ...]]()
    *outer, last = axes
    for order in permutations(outer):
        if order[-1:] == ("batch",) and _HEADS & set(order):
            continue
        if order[-1:] == ("query",) and any(shape[-1:] == (sizes[head] * sizes[last],) for head in _HEADS & set(order)):
            continue
        full = (*order, last)
        long = tuple(axis for axis in full if sizes[axis] != 1)
        if long not in known and _is_grouping(shape, [sizes[axis] for axis in full]):
            known.add(long)
            yield full


def is_ambiguous(orders: Sequence[tuple[str, ...]]) -> bool:
    """Whether shapes alone leave open if heads or positions come first; elsewhere the tap's own order is taken."""
    firsts = {
        order.index("query") < order.index(head) for order in orders for head in _HEADS & set(order) if "query" in order
    }
    return len(firsts) > 1


def lay_out(array: Array, order: Sequence[str], axes: Sequence[str], sizes: Mapping[str, int]) -> Array:
    """A tensor that holds `axes` in another `order`, with the axes in their own; raises `ValueError` if it cannot."""
    full = array.reshape([sizes[axis] for axis in order])
    return full.transpose([order.index(axis) for axis in axes])


def parse_axes(text: str) -> tuple[str, ...]:
    """The axes of "query batch (heads head_dim)", slowest first; brackets join neighbours and change nothing here."""
    return tuple(re.findall(r"\w+", text))


def split(array: Array, widths: Sequence[int], groups: int = 1) -> list[Array]:
    """The parts of a fused tensor, side by side on its last axis, or so in each of `groups` equal groups of it.

    One group is `[q | k | v]`; as many as KV heads is each KV head's queries, key and value; as many as channels is
    gate and up in turn. Raises `ValueError` when the widths do not make up the last axis.
    """
    if array.ndim == 0 or array.shape[-1] != sum(widths) or any(width % groups for width in widths):
        raise ValueError(f"{' + '.join(map(str, widths))} channels in {groups} groups")
    grouped = array.reshape(*array.shape[:-1], groups, array.shape[-1] // groups)
    ends = np.cumsum([width // groups for width in widths])[:-1]
    parts = np.split(grouped, ends, axis=-1)
    return [part.reshape(*array.shape[:-1], width) for part, width in zip(parts, widths, strict=True)]


def width_of(axes: Sequence[str], sizes: Mapping[str, int]) -> int:
    """How many numbers a tap has at one position."""
    return prod(sizes[axis] for axis in axes if axis not in ("batch", "query", "key"))
