"""A run of a stored tensor is what its name says; a range that cannot be is nothing that is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import pb
from qwen3_reference.checkpoints.runs import overlap, piece_of, place_of, run_name
from qwen3_reference.checkpoints.stored import Stored

VALUES = np.arange(12, dtype="f4").reshape(4, 3)
STORED = {"w": Stored(pb.F32, VALUES, Path("x")), "w[0:2]": Stored(pb.F32, VALUES[:1] + 50, Path("x"))}


def test_a_run_is_flat_and_a_whole_tensor_has_its_shape() -> None:
    np.testing.assert_array_equal(piece_of(STORED, run_name("w", 3, 9)).bits, np.arange(3, 9))
    assert piece_of(STORED, "w").bits.shape == (4, 3)


def test_a_tensors_own_name_comes_before_a_run() -> None:
    assert piece_of(STORED, "w[0:2]").bits.shape == (1, 3)
    assert place_of(STORED, "w[0:2][1:3]") == ("w[0:2]", 1, 3)


@pytest.mark.parametrize(
    "piece", ["w[2:2]", "w[3:2]", "w[0:13]", "w[-1:2]", "w[01:2]", "w[1:]", "w[:3]", "v[1:2]", "w[1:2", "w[0:9²]",
              f"w[1:{'9' * 4000}]", "[1:2]", "w[1:2]\n", "w[1:2:3]", ""]
)  # fmt: skip
def test_a_range_that_cannot_be_is_no_place(piece: str) -> None:
    assert place_of(STORED, piece) is None
    with pytest.raises(KeyError):
        piece_of(STORED, piece)


@pytest.mark.parametrize(
    ("pieces", "shared"),
    [
        (["w[3:6]", "w[1:3]"], False),
        (["w[3:6]", "w[1:4]"], True),
        (["w[1:9]", "w[2:3]", "w[10:12]"], True),
        (["w", "w[1:3]"], True),
        (["w", "w"], True),
        (["w", "w[0:2]"], False),  # another tensor's own name
        (["w[1:9]", "w[9:10]", "w[2:3]"], True),
    ],
)
def test_no_element_stands_in_two_pieces(pieces: list[str], shared: bool) -> None:
    assert overlap(STORED, pieces) == shared
