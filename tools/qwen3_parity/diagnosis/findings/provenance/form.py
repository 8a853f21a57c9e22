"""Taps of any axes in one form: `[batch, position, head, number]`, with a word for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qwen3_golden import Array
from qwen3_parity.judge.indices import ranges

PLACE = "{place}"
"""Stands for a place in what is said of a source."""
_POSITIONS = ("query", "key", "row", "total", "new")
_WORDS = {
    "batch": ("batch row", "batch rows"),
    "query": ("position", "positions"),
    **dict.fromkeys(("row", "copied_row", "split_row"), ("row", "rows")),
    "channel": ("channel", "channels"),
    "heads": ("head", "heads"),
    "kv_heads": ("kv head", "kv heads"),
}


@dataclass(frozen=True)
class Form:
    """How a tap's axes become `[batch, position, head, number]`; `words` are the singular and plural of each.

    What a tap does not have has length 1: without a batch or positions the first axis counts as positions.
    """

    order: tuple[int, ...]
    shape: tuple[int, int, int, int]
    words: tuple[tuple[str, str], ...]

    def of(self, values: Array) -> Array:
        """Values of the tap in this form."""
        return values.transpose(self.order).reshape(self.shape)

    def counts(self, cells: Array) -> list[int]:
        """How many indices of each axis have some of a tap's `cells`."""
        formed = self.of(cells)
        return [int(formed.any(axis=axes).sum()) for axes in ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))]

    def with_heads_of(self, values: Array, form: Form) -> Array:
        """As `of`, with the heads of another form where one of the two has them in a row."""
        formed, (_, _, heads, size) = self.of(values), form.shape
        if formed.shape[2] * formed.shape[3] == heads * size and 1 in (heads, formed.shape[2]):
            return formed.reshape(*formed.shape[:2], heads, size)
        return formed


def form_of(axes: Sequence[str], shape: Sequence[int]) -> Form:
    """The form of a tap whose axes have these names and lengths."""
    names = [*axes, *(["channel"] * len(shape))][: len(shape)]
    batch = [names.index("batch")] if "batch" in names else []
    rest = [axis for axis in range(len(shape)) if axis not in batch]
    along = [axis for axis in rest if names[axis] in _POSITIONS][:1] if len(rest) > 1 else []
    if not batch and not along and len(rest) > 1:
        along = rest[:1]
    rest = [axis for axis in rest if axis not in along]
    head = rest[:1] if len(rest) > 1 else []
    rest = rest[len(head) :]
    size = 1
    for axis in rest:
        size *= shape[axis]
    lengths = [shape[group[0]] if group else 1 for group in (batch, along, head)]
    words = [_words(names, group) for group in (batch, along, head, rest[-1:])]
    return Form((*batch, *along, *head, *rest), (lengths[0], lengths[1], lengths[2], size), tuple(words))


def _words(names: Sequence[str], axes: Sequence[int]) -> tuple[str, str]:
    name = names[axes[0]] if axes else ""
    if name == "key":
        return "slot", "slots"
    if names.count(name) > 1 and axes[0] < len(names) - 1:  # a graph calls heads channels too
        return f"index of axis {axes[0]}", f"indices of axis {axes[0]}"
    return _WORDS.get(name, (name, name))


def counted(words: tuple[str, str], indices: Iterable[int]) -> str:
    """Indices of an axis in words: "batch row 1", "slots 0–3", "slots 4, 2, 3"; in their order."""
    distinct = list(dict.fromkeys(indices))
    return f"{words[len(distinct) > 1]} {ranges(distinct)}"
