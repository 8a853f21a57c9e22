"""A row recorded once, and judged with the taps of every level, in a process that may die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from detection.blind.answers import answers
from detection.blind.row import Row
from detection.draws import run_each
from detection.levels.blamed import blamed
from detection.levels.thinned import thinned
from detection.mutants.isolated import golden_of, record_mutant
from detection.mutants.judged import MISPLACED
from qwen3_golden import Recording, read
from qwen3_parity.diagnosis.explained import Explained

TIMEOUT = 600.0


@dataclass(frozen=True)
class Said:
    """The first answer to one fault: where it is, what it is called, its text, and whether that is right."""

    place: str
    name: str
    text: str
    is_right: bool


@dataclass(frozen=True)
class Judged:
    """A row at a level. `innocents`: faults at none of its taps; `missed`: recorded wrong taps that no fault holds.

    `seconds` of the diagnosis, of the processor. `failure`: what the judge, the recording or the process raised.
    """

    row: str
    level: str
    expected: bool
    caught: bool = False
    said: tuple[Said, ...] = ()
    innocents: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    seconds: float = 0.0
    failure: str = ""

    @property
    def blamed(self) -> bool:
        """Whether every wrong tap that was recorded is blamed, and nothing else."""
        return bool(self.said) and not self.innocents and not self.missed

    @property
    def is_right(self) -> bool:
        """Whether the first answer to every fault is right."""
        return bool(self.said) and all(answer.is_right for answer in self.said)


def judged(row: Row, levels: Sequence[str], timeout: float = TIMEOUT) -> list[Judged]:
    """The row at each level, in a process of its own; one that raises, dies or hangs is a failure of every level."""
    [results] = run_each(partial(_judged, levels), [row], partial(_failed, levels), timeout)
    return results


def _failed(levels: Sequence[str], row: Row, failure: str) -> list[Judged]:
    return [Judged(row.name, level, _is_expected(row, level), failure=failure) for level in levels]


def _is_expected(row: Row, level: str) -> bool:
    return level == "all" or level in row.levels


def _judged(levels: Sequence[str], row: Row) -> list[Judged]:
    torch.set_num_threads(1)
    golden = golden_of(row.cases[0])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "blind.pb"
        record_mutant(row.mutant, golden, path)
        whole = read(path)
        return [_at(row, level, golden, thinned(whole, level)) for level in levels]


def _text(fault: Explained) -> str:
    """The text of what a fault is called."""
    texts = [(x.name, x.says) for x in fault.explanations] + [(x.name, x.says) for x in fault.findings]
    return next((says for name, says in texts if name == fault.name), "")


def _at(row: Row, level: str, golden: Recording, candidate: Recording) -> Judged:
    expected = _is_expected(row, level)
    try:
        result = blamed(golden, candidate, row.wrong, row.also)
    except Exception as error:  # caught is caught, whatever the judge can make of it
        return Judged(row.name, level, expected, caught=True, failure=f"{type(error).__name__}: {error}")
    if result is None:
        return Judged(row.name, level, expected)
    firsts = [(fault.name, _text(fault)) for fault in result.diagnosis.faults]
    firsts += [(MISPLACED, "a right tap at another place") for _ in result.diagnosis.misplaced]
    is_right = answers()[row.name].is_right
    return Judged(
        row.name,
        level,
        expected,
        caught=True,
        said=tuple(
            Said(places[0], name, text, is_right(f"{name} {text}"))
            for places, (name, text) in zip(result.places, firsts, strict=True)
        ),
        innocents=result.innocents,
        missed=result.missed,
        seconds=result.seconds,
    )
