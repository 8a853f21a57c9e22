"""Whether a row's seed shows: the case recorded with it and without, tap by tap, and nothing judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from detection.blind.row import THINNER, Row
from detection.mutants.isolated import golden_of, record_mutant
from detection.mutants.judged import short
from detection.mutants.mutant import Mutant
from qwen3_golden import Array, Recording, pattern_of, read, selected
from qwen3_parity.recording.tap_sets import TAP_SETS

VISIBLE = 1e-5
"""Of a tap's largest value: what a change must move it by, a hundred times float32's rounding or more."""


def recordings(row: Row, folder: Path) -> tuple[Recording, Recording]:
    """The row's first case recorded by our implementation without the seed, and with it."""
    torch.set_num_threads(1)
    golden = golden_of(row.cases[0])
    plain = Mutant("", "", lambda _patch: None, row.wrong, frozenset(), row.cases)
    for name, mutant in (("plain", plain), ("seeded", row.mutant)):
        record_mutant(mutant, golden, folder / f"{name}.pb")
    return read(folder / "plain.pb"), read(folder / "seeded.pb")


def moved(row: Row) -> Iterator[tuple[str, float]]:
    """The taps that the seed changes, in the order of execution, each with how far by its largest value."""
    with TemporaryDirectory() as folder:
        plain, seeded = recordings(row, Path(folder))
        taps = (item for item in seeded if not item.info.name.startswith("parameter."))  # what was loaded is no tap
        for before, after in zip(plain, taps, strict=True):
            assert (before.info.name, before.info.step) == (after.info.name, after.info.step)
            far = _distance(np.asarray(before.array), np.asarray(after.array))
            if far > VISIBLE and not before.info.name.startswith("input."):
                yield before.info.name, far


def _distance(before: Array, after: Array) -> float:
    if before.shape != after.shape or not before.size:
        return float(before.shape != after.shape)
    wide = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    if not (finite | ~np.isfinite(wide[0])).all():
        return float("inf")
    largest = float(np.abs(wide[0][finite]).max(initial=1e-30))
    return float(np.abs(wide[0] - wide[1])[finite].max(initial=0.0)) / largest


def first_moved(taps: Iterator[tuple[str, float]]) -> tuple[str, frozenset[str]]:
    """The first tap that the seed changes, as `Row.wrong` has it, and the levels at which any changed tap is there."""
    names = [name for name, _ in taps]
    levels = frozenset(level for level in THINNER if any(selected(name, TAP_SETS[level]) for name in names))
    return (short(pattern_of(names[0])) if names else ""), levels
