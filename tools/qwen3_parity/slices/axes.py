"""What the axes of a graph's tap are called: its golden knows lengths, and calls heads channels."""

from __future__ import annotations

from collections.abc import Sequence

from qwen3_golden import Tensor

_OF_HEADS = 4
"""The axes of what attention reads and gives: heads stand beside batch, positions and their channels or keys."""


def axes_of(tap: Tensor) -> tuple[str, ...]:
    """The names of a tap's axes, its first "channel" that is not the last of four axes as "heads"."""
    axes: Sequence[str] = tuple(tap.info.axes)
    if len(axes) == _OF_HEADS and axes[0] == "batch" and "channel" in axes[1:-1]:
        place = axes.index("channel")
        return (*axes[:place], "heads", *axes[place + 1 :])
    return tuple(axes)
