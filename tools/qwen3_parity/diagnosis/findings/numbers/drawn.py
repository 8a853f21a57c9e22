"""Which keys a query attends to, drawn in a line of characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array

_WIDTH = 48
_SIGNS = np.array(list("·■×□"))
LEGEND = "■ seen, · hidden, □ visible but not seen, × hidden but seen"


def drawn(visible: Array, attended: Array) -> str:
    """A row of keys, `[key]` bool each: which should be visible, and which were; the part with the first difference."""
    wrong = np.flatnonzero(visible != attended)
    first = max(0, int(wrong[0]) - _WIDTH // 2) if len(wrong) and len(visible) > _WIDTH else 0
    signs = _SIGNS[np.where(visible == attended, visible.astype(int), 2 + visible)][first : first + _WIDTH]
    before = f"(from key {first}) " if first else ""
    return before + "".join(signs) + ("…" if first + _WIDTH < len(visible) else "")


def row_in_words(axes: Sequence[str], index: Sequence[int]) -> str:
    """An index along each of some axes, as "query 5, heads 2 of batch row 0"."""
    parts = [f"{name} {at}" for name, at in zip(axes, index, strict=False) if name != "batch"]
    batch = [f"batch row {at}" for name, at in zip(axes, index, strict=False) if name == "batch"]
    return " of ".join([text for text in (", ".join(reversed(parts)), *batch) if text])
