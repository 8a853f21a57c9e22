"""A block of channels that holds what belongs in another block of the same place."""

from __future__ import annotations

import numpy as np

from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.form import counted, form_of
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 4
"""Different numbers that are the same as those of other channels by no chance."""
_BLOCKS = 1 << 22
"""Numbers that are compared in all with those of other channels."""


def other_channels(tap: WrongTap) -> Finding | None:
    """Neighbouring channels, wrong everywhere they count, whose numbers belong so many channels on or back."""
    if tap.actual.dtype.kind != "f" or not tap.wrong.any():
        return None
    form = form_of(tap.axes, tap.truth.shape)
    wrong, truth = form.of(tap.wrong), form.of(tap.truth)
    numbers = np.flatnonzero(wrong.any(axis=(0, 1, 2)))
    size, first, last = form.shape[3], int(numbers[0]), int(numbers[-1])
    if last - first + 1 != len(numbers) or len(numbers) == size:
        return None
    limits = form.of(tap.limits)
    actual, wrong, least = form.of(tap.actual)[..., numbers], wrong[..., numbers], limits[..., numbers]
    if len(np.unique(actual[wrong])) < _FEWEST:
        return None
    by_distance = sorted(range(-first, size - last), key=lambda by: (abs(by), by))
    for by in by_distance[1 : 2 + _BLOCKS // max(1, int(wrong.size))]:
        there = slice(first + by, last + by + 1)
        if (np.abs(actual - truth[..., there]) <= np.maximum(least, limits[..., there]))[wrong].all():
            of = counted(form.words[3], range(first + by, last + by + 1))
            says = f"{counted(form.words[3], numbers.tolist())} hold what belongs in {of}"
            return Finding("from.other_channels", says, 1.0)
    return None
