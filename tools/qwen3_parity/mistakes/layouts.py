"""The forms in which one activation is handed on: channels, heads behind positions, heads before positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qwen3_golden import Array

_HEADS = ("heads", "kv_heads")


def heads_axis(axes: Sequence[str]) -> int | None:
    """The axis of heads of a tap, or None."""
    return next((i for i, name in enumerate(axes) if name in _HEADS), None)


def sequence_axis(axes: Sequence[str]) -> int | None:
    """The axis of positions of a tap (the queries' where it has both), or None."""
    return next((i for i, name in enumerate(axes) if name in ("query", "key")), None)


def channels(values: Array, axes: Sequence[str]) -> Array | None:
    """`[batch, seq, channel]` of a tap in any form; None for scores, masks and tables without positions."""
    if values.ndim == 3 and axes[2] not in ("key",):
        return values
    if values.ndim != 4 or ("query" in axes and "key" in axes):
        return None
    behind = np.swapaxes(values, 1, 2) if heads_axis(axes) == 1 else values
    return np.ascontiguousarray(behind).reshape(*behind.shape[:2], -1)


def as_form(values: Array, axes: Sequence[str], form: tuple[int, ...], form_axes: Sequence[str]) -> Array | None:
    """A tap's values in the form (shape and axes) of another tap; None where the numbers do not fit."""
    if heads_axis(axes) == heads_axis(form_axes) and values.shape == form:
        return values
    flat = channels(values, axes)
    if flat is None or len(form) not in (3, 4):
        return None
    if len(form) == 3:
        return flat if flat.shape == form else None
    if "query" in form_axes and "key" in form_axes:
        return None
    first = heads_axis(form_axes) == 1
    batch, heads, length = (form[0], form[1], form[2]) if first else (form[0], form[2], form[1])
    if flat.shape != (batch, length, heads * form[3]):
        return None
    split = flat.reshape(batch, length, heads, form[3])
    return np.swapaxes(split, 1, 2) if first else split
