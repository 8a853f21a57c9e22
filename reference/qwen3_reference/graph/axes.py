"""What the axes of every tap count, from runs of the same model at another batch and another length."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from qwen3_reference.graph.taps import Key

Shapes = Mapping[Key, tuple[int, ...]]
"""Shapes by tap's name and step."""
_KEYS = (".key", ".value", ".keys", ".values", "cross_keys", "cross_values")
"""Ends of the names of what attention reads, `[batch, heads, key, channel]`: a window may cut it to a fixed length."""

_SEVERAL = "several_rows"
"""Every position several times, in an order that shapes leave open."""
_ALIKE = 1e-2


def shapes_of(values: Mapping[Key, torch.Tensor]) -> dict[Key, tuple[int, ...]]:
    """The shape of every tap."""
    return {key: tuple(value.shape) for key, value in values.items()}


def axes_of(run: Shapes, wider: Shapes, longer: Shapes, batch: int, lengths: frozenset[int]) -> dict[Key, list[str]]:
    """The axes of every tap of a run, from the same with one row more and with a longer first step.

    `batch` and `lengths` are those of the run: how many rows, and how many positions the first step has on each side.
    """
    axes = dict[Key, list[str]]()
    for (name, step), shape in run.items():
        key, first = (name, step), (name, 0)
        if step and len(axes.get(first, ())) == len(shape):
            axes[key] = axes[first]
        else:
            same = len(wider.get(key, ())) == len(longer.get(key, ())) == len(shape)
            axes[key] = _axes(key, shape, wider[key], longer[key], batch, lengths) if same else ["channel"] * len(shape)
    return axes


def _axes(
    key: Key,
    shape: tuple[int, ...],
    wider: tuple[int, ...],
    longer: tuple[int, ...],
    batch: int,
    lengths: frozenset[int],
) -> list[str]:
    name, step = key
    if len(shape) == 4 and name.endswith(_KEYS):
        return ["batch", "channel", "key", "channel"]
    axes, rows = [], {batch * length for length in lengths}
    long = [place for place, size in enumerate(shape) if longer[place] != size and wider[place] == size]
    for place, size in enumerate(shape):
        if place in long:
            # The first step's length is a later step's past; of two axes the second is that of the keys.
            is_key = step > 0 or place != long[0] or name.endswith("attention_mask")
            axes.append("key" if is_key else "query")
        elif wider[place] == size:
            axes.append("channel")
        elif longer[place] == size:
            axes.append("batch" if size == batch else "channel")
        elif size in rows:
            axes.append("row")
        else:
            several = any(size % count == 0 and size // count * count // batch == wider[place] - size for count in rows)
            axes.append(_SEVERAL if several else "channel")
    return axes


def in_order(
    axes: Mapping[Key, list[str]],
    run: Mapping[Key, torch.Tensor],
    wider: Mapping[Key, torch.Tensor],
    batch: int,
    lengths: frozenset[int],
) -> dict[Key, list[str]]:
    """The axes with each that has every position several times by its order, which the same with a row before it shows.

    "copied_row": all positions behind each other, once for each expert. "split_row": a position's parts together, as
    its heads. An axis in neither order is "channel".
    """

    def ordered(key: Key, place: int) -> str:
        fewer, more = (runs[key].movedim(place, 0).double() for runs in (run, wider))
        added = len(more) - len(fewer)
        if _near(more[added:], fewer):
            return "split_row"
        for length in (length for length in (*lengths, 1) if added % length == 0):
            copies = added // length
            if _near(more.reshape(copies, batch + 1, length, -1)[:, 1:], fewer.reshape(copies, batch, length, -1)):
                return "copied_row"
        return "channel"

    return {
        key: [ordered(key, place) if name == _SEVERAL else name for place, name in enumerate(names)]
        for key, names in axes.items()
    }


def _near(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two are the same but for what a batch of another size rounds otherwise."""
    return bool((actual - expected).norm() <= _ALIKE * expected.norm())
