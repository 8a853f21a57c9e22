"""A block of channels that holds what belongs in another block of the same place."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.provenance.form import Form, counted, form_of
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_FEWEST = 4
"""Different numbers that are the same as those of other channels by no chance."""
_RUNS = 4
"""Blocks of neighbouring channels that are told."""
_BLOCKS = 1 << 22
"""Numbers that are compared in all with those of other channels."""


def other_channels(tap: WrongTap) -> Finding | None:
    """Neighbouring channels, wrong everywhere they count, whose numbers belong so many channels on or back."""
    if tap.actual.dtype.kind != "f" or not tap.wrong.any():
        return None
    form = form_of(tap.axes, tap.truth.shape)
    wrong, truth = form.of(tap.wrong), form.of(tap.truth)
    numbers = np.flatnonzero(wrong.any(axis=(0, 1, 2)))
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    if len(numbers) == form.shape[3] or len(runs) > _RUNS:
        return None
    parts, moved = list[str](), False
    for run in runs:
        at = counted(form.words[3], run.tolist())
        if not form.of(tap.actual)[..., run][form.of(tap.judged)[..., run]].any():
            parts.append(f"{at} hold zeros")
        elif (by := _moved(tap, form, truth, wrong, run)) is not None:
            moved = True
            parts.append(f"{at} hold what belongs in {counted(form.words[3], [n + by for n in run.tolist()])}")
        else:
            return None
    return Finding("from.other_channels", "; ".join(parts), 1.0) if moved else None


def _moved(tap: WrongTap, form: Form, truth: Array, wrong: Array, run: Array) -> int | None:
    """How many channels on belongs what a run of wrong ones holds; None where it stands nowhere."""
    limits, size, first, last = form.of(tap.limits), form.shape[3], int(run[0]), int(run[-1])
    actual, here, least = form.of(tap.actual)[..., run], wrong[..., run], limits[..., run]
    if len(np.unique(actual[here])) < _FEWEST:
        return None
    by_distance = sorted(range(-first, size - last), key=lambda by: (abs(by), by))
    for by in by_distance[1 : 2 + _BLOCKS // max(1, int(here.size))]:
        there = slice(first + by, last + by + 1)
        if (np.abs(actual - truth[..., there]) <= np.maximum(least, limits[..., there]))[here].all():
            return by
    return None
