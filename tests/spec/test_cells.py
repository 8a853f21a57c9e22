"""What counts of a value is what its tokens give: at padding it must be finite, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_spec.cells import Positions, judged

REAL = np.array([[False, True, True], [True, True, True]])
"""`[batch, position]`, the first row padded on its left."""


@pytest.mark.parametrize(
    ("axes", "shape", "padding"),
    [
        (("batch", "query", "channel"), (2, 3, 4), np.s_[0, 0]),
        (("batch", "channel", "query", "key"), (2, 4, 3, 3), np.s_[0, :, [0, 1, 2], 0]),
        (("row", "channel"), (6, 4), np.s_[0]),
        (("channel", "row"), (4, 6), np.s_[:, 0]),
    ],
)
def test_padding_does_not_count(axes: tuple[str, ...], shape: tuple[int, ...], padding: object) -> None:
    counts = judged(shape, axes, [Positions(REAL)])
    assert not counts[padding].any()  # type: ignore[index]
    assert counts.any()


def test_an_axis_of_another_size_counts_whole() -> None:
    assert judged((2, 5), ("batch", "query"), [Positions(REAL)]).all()


@pytest.mark.parametrize(("axis", "padding"), [("copied_row", [0, 6]), ("split_row", [0, 1])])
def test_rows_that_stand_several_times_do_not_count_where_they_are_padding(axis: str, padding: list[int]) -> None:
    """Once for each expert, all behind each other; or the heads of a position together."""
    counts = judged((12, 4), (axis, "channel"), [Positions(REAL)])
    assert np.flatnonzero(~counts[:, 0]).tolist() == padding
