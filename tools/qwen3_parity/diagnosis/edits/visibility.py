"""What an edit of a mask does to what is seen: which queries see keys that they must not see, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.grammar.masks import HIDING
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import model_line, short
from qwen3_spec.graph import Line

_AXES = 4
"""Of scores and their masks: batch, heads, query, key."""


class Seen(NamedTuple):
    """What is seen otherwise, in words, and the line of the scores that the mask is added to, if it is known."""

    says: str
    reader: Line | None = None


_AND_SINK = 2
"""Scores, and the column beside them."""


def visibility(region: Region, edit: Edit, judged: Array | None = None) -> Seen | None:
    """What an edit lets queries see, or hides from them; None where it changes no mask.

    Where a mask has as many rows as `judged` `[batch, query]`, those that are not judged, as of padding, are not told.
    """
    edited, attended = region.values(edit), _attended(region)
    values = [
        value for value in region.order
        if isinstance(base := region.base[value], np.ndarray) and base.shape[-2:] in attended
    ]  # fmt: skip
    masks = [] if edited is None else [_of_rows(*x, judged) for value in values if (x := _mask(region, edited, value))]
    changed = [(before, after) for before, after in masks if not np.array_equal(before, after)]
    if not changed:
        return None
    before, after = max(changed, key=lambda mask: int((mask[0] != mask[1]).sum()))
    if _has_sink(region, attended) and before.shape[-2:] in attended:
        if np.array_equal(before[..., :-1], after[..., :-1]):
            return Seen("the column beside the keys, a sink, is hidden", _reader(region, edited))
        before, after = before[..., :-1], after[..., :-1]
    return Seen(_says(before, after), _reader(region, edited))


def _has_sink(region: Region, attended: set[tuple[int, ...]]) -> bool:
    """Whether a column stands beside the scores of the keys that a softmax is taken of."""
    for value in region.order:
        node = region.node(value)
        if node is None or short(node.op) != "cat" or np.shape(region.base[value])[-2:] not in attended:
            continue
        widths = [np.shape(region.base[read])[-1] for read in node.reads]
        if len(widths) == _AND_SINK and widths[-1] == 1 < widths[0]:
            return True
    return False


def _attended(region: Region) -> set[tuple[int, ...]]:
    """The numbers of queries and keys of every attention: of a softmax over `[batch, heads, query, key]`."""
    results = [region.base[value] for value in region.order
               if (node := region.node(value)) is not None and short(node.op) == "softmax"]  # fmt: skip
    return {np.shape(result)[-2:] for result in results if np.ndim(result) == _AXES}


def _mask(region: Region, edited: dict[int, Any], value: int) -> tuple[Array, Array] | None:
    """What a mask, or scores with one, show `[..., query, key]`, without the edit and with it."""
    before, after = (_visible(values.get(value)) for values in (region.base, edited))
    if before is None or after is None or before.shape != after.shape or before.ndim != _AXES:
        return None
    return None if before.all() and after.all() else (before, after)


def _of_rows(before: Array, after: Array, judged: Array | None) -> tuple[Array, Array]:
    """A mask that is changed in judged rows alone."""
    if judged is None or before.shape[2] != judged.shape[1] or before.shape[0] not in (1, len(judged)):
        return before, after
    rows = judged if len(judged) == before.shape[0] else np.asarray(judged.any(0, keepdims=True))
    return before, np.where(rows[:, None, :, None], after, before)


def _visible(values: Any) -> Array | None:
    if not isinstance(values, np.ndarray):
        return None
    if values.dtype.kind == "b":
        return values
    return np.asarray(~(values <= HIDING)) if values.dtype.kind == "f" else None  # NaN hides nothing


def _says(before: Array, after: Array) -> str:
    shown, hidden = after & ~before, before & ~after
    parts = [f"{words} are seen" for words, cells in _shown(before) if (shown & cells).any()]
    parts += [f"{words} hidden" for words, cells in _hidden(before) if (hidden & cells).any()]
    count = int((shown | hidden).sum())
    return f"{', '.join(parts)} ({count} of {before.size} {'cell' if before.size == 1 else 'cells'})"


def _distance(before: Array) -> Array:
    """How far a key stands behind the query `[query, key]`, negative ahead of it: the last query is the last key's."""
    queries, keys = before.shape[-2:]
    return np.arange(keys - queries, keys)[:, None] - np.arange(keys)


def _shown(before: Array) -> Iterator[tuple[str, Array]]:
    """What a hidden key is, with where it is so."""
    if before.shape[-2] == 1:  # a window hides the same keys of every row
        padding = ~before & before.any(0, keepdims=True)
        yield "padding keys", padding
        yield "hidden keys", ~before & ~padding
        return
    never = np.broadcast_to(~before.any(-2, keepdims=True), before.shape)
    ahead = np.broadcast_to(_distance(before) < 0, before.shape) & ~never
    yield "keys ahead", ahead
    yield "padding keys", never
    yield "keys too far back", ~ahead & ~never


def _hidden(before: Array) -> Iterator[tuple[str, Array]]:
    """What a visible key is, with where it is so."""
    distance = np.broadcast_to(_distance(before), before.shape)
    oldest = before & (np.cumsum(before, -1) == 1)
    yield "each query's own, newest key is", distance == 0
    yield "the oldest visible key is", oldest & (distance != 0)
    yield "visible keys are", ~oldest & (distance != 0)


def _reader(region: Region, edited: Mapping[int, Any] | None) -> Line | None:
    """The line that adds a mask to scores, which may hide something with the edit alone."""
    for value, env in product(region.order, (region.base, edited or {})):
        node, scores = region.node(value), env.get(value)
        visible = _visible(scores)
        if node is None or visible is None or scores.dtype.kind != "f" or visible.all():
            continue
        if len(np.unique(scores[visible])) > 1:  # a mask by itself has zeros alone
            return model_line(node)
    return None
