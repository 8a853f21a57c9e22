"""One of several taps that an op reads at other places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drawn_tap import TRUTH, tap_of
from qwen3_golden import Array
from qwen3_parity.diagnosis.findings import Key, WrongTap
from qwen3_parity.diagnosis.findings.provenance.read_elsewhere import read_elsewhere

STREAM = np.random.Generator(np.random.PCG64(8)).standard_normal(TRUTH.shape)
READ = {("stream", 0): STREAM, ("branch", 0): TRUTH - STREAM}


def sum_of(branch: Array, stream: Array = STREAM) -> WrongTap:
    """A sum of two taps as it was recorded, which should be the sum of both as they stand."""

    def again(key: Key, values: Array) -> Array:
        return np.sum([values if read == key else READ[read] for read in READ], axis=0)

    wrong = replace(tap_of(TRUTH, stream + branch), axes=("batch", "query", "channel"))
    return replace(
        wrong, reads=list(READ), recorded=lambda *key: READ.get(key), axes_of=lambda *key: wrong.axes, again=again
    )


BRANCH = READ["branch", 0]
TOLD = {
    "the next position": (np.roll(BRANCH, -1, 1), "positions 0–6 read what branch has in positions 1–6, 0"),
    "the other row": (BRANCH[::-1], "batch rows 0–1 read what branch has in batch rows 1, 0"),
    "the first position": (BRANCH[:, :1], "positions 1–6 read what branch has in position 0"),
}


@pytest.mark.parametrize("mistake", TOLD)
def test_a_tap_that_is_read_at_other_places_is_told_with_them(mistake: str) -> None:
    branch, says = TOLD[mistake]
    told = read_elsewhere(sum_of(branch))
    assert told is not None and told.weight == 1 and (told.name, told.says) == ("from.read_elsewhere", says)


def test_what_stands_nowhere_is_read_nowhere() -> None:
    assert read_elsewhere(sum_of(BRANCH * 1.5)) is None
    assert read_elsewhere(sum_of(np.roll(BRANCH, 1, 1), np.roll(STREAM, 1, 1))) is None  # a row that stands elsewhere
