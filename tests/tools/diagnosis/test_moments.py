"""Moments are the steps that the first wrong one begins: chunks behind a past, decode steps, all with a past."""

from __future__ import annotations

import pytest

from qwen3_parity.diagnosis.moments import moments

PAST, CHUNKS, SINGLE = (
    "in steps with a past alone", "in steps of several tokens with a past alone", "in steps of a single token alone",
)  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "wrong", "begun"),
    [
        ((5, 1, 1), {1, 2}, {PAST: {1, 2}}),
        ((3, 3, 1, 3), {1, 2, 3}, {PAST: {1, 2, 3}, CHUNKS: {1, 3}}),
        ((3, 3, 1), {2}, {SINGLE: {2}}),
        ((3, 1, 3), {1}, {PAST: {1, 2}, SINGLE: {1}}),
        ((3, 1, 3), {2}, {CHUNKS: {2}}),
        ((5, 1, 1), {0, 1}, {}),
        ((1, 1), {0}, {}),
        ((5,), set(), {}),
    ],
)
def test_a_moment_begins_with_the_first_wrong_step(
    steps: tuple[int, ...], wrong: set[int], begun: dict[str, set[int]]
) -> None:
    assert {moment.says: set(moment.steps) for moment in moments(steps, frozenset(wrong))} == begun
