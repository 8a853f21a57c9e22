"""What the axes of a graph's taps are called."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import tensor
from qwen3_parity.slices.axes import axes_of

AXES = {
    "heads of channels": ("batch channel query channel", "batch heads query channel"),
    "heads of keys": ("batch channel query key", "batch heads query key"),
    "heads behind positions": ("batch query channel channel", "batch query heads channel"),
    "a state's heads": ("batch channel channel channel", "batch heads channel channel"),
    "channels alone": ("batch query channel", "batch query channel"),
    "of no batch": ("row channel query channel", "row channel query channel"),
}


@pytest.mark.parametrize("which", AXES)
def test_the_first_channels_of_four_axes_are_heads_where_others_follow(which: str) -> None:
    written, said = (names.split() for names in AXES[which])
    assert axes_of(tensor("tap", np.zeros((2,) * len(written), np.float32), axes=written)) == tuple(said)
