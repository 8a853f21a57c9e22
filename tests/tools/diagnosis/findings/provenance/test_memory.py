"""Right numbers at other places in memory are told by where they belong; other numbers are not."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from drawn_tap import TRUTH, tap_of

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.provenance.memory import in_memory

ROWS = TRUTH.reshape(-1)


def of_rows(change: Callable[[Array], Array]) -> Array:
    """Positions 2 to 4 in another layout, the others as they should be."""
    wrong = TRUTH.copy()
    wrong[:, 2:5] = change(TRUTH[:, 2:5])
    return wrong


def with_garbage(values: Array) -> Array:
    wrong = np.roll(values.reshape(-1), 5).reshape(values.shape)
    wrong[0, :2] = 17.0 + np.arange(48).reshape(2, 24) ** 0.5
    return wrong


def turned(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, 2, 1)).reshape(values.shape)


KNOWN = [
    (np.roll(ROWS, 3).reshape(TRUTH.shape), "333 of them 3 numbers earlier", 1.0),
    (np.roll(ROWS, 48).reshape(TRUTH.shape), "48 numbers earlier (-2 along position)", 1.0),
    (of_rows(turned), "position 2–4 of it: [batch, channel, position] in memory, read as [batch, position, channel]", 1.0),
    (with_garbage(TRUTH), "an offset, a pitch or a stride is off", 0.45 + 0.25 * 274 / 322),
    (np.random.Generator(np.random.PCG64(1)).permutation(ROWS).reshape(TRUTH.shape), "in one layout and read in another?", 0.9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words", "weight"), KNOWN, ids=["an offset", "two rows", "a layout", "garbage", "no order"]
)
def test_where_numbers_belong_that_stand_elsewhere_in_memory(wrong: Array, words: str, weight: float) -> None:
    finding = in_memory(tap_of(TRUTH, wrong))
    assert (
        finding is not None
        and finding.name == "fit.memory"
        and words in finding.says
        and finding.weight == pytest.approx(weight, abs=0.02)
    )


@pytest.mark.parametrize(
    "wrong", [1.001 * TRUTH, TRUTH + 1, -TRUTH, np.zeros_like(TRUTH), TRUTH[::-1] * 1.5, np.ones_like(TRUTH)]
)
def test_numbers_that_belong_nowhere_come_of_no_memory(wrong: Array) -> None:
    assert in_memory(tap_of(TRUTH, wrong)) is None
