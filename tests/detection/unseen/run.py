"""One bug recorded once and judged at its levels: caught, blamed, and whether the first answer is a right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from detection.draws import run_each
from detection.levels.blamed import blamed
from detection.levels.thinned import thinned
from detection.mutants.isolated import golden_of, record_mutant
from detection.mutants.judged import MISPLACED
from detection.unseen import Row, llama
from qwen3_golden import Recording, read
from qwen3_parity.diagnosis import Diagnosis
from qwen3_parity.diagnosis.explained import Explained

Answer = tuple[str, str]
"""A name, and all words that stand with it."""


@dataclass(frozen=True)
class Outcome:
    """A bug at a level. `innocents` are blamed groups that do not hold it, `missed` wrong taps that are not blamed.

    `missed` is asked of every tap alone. `named` says of the first answer of every fault: "yes", right; "behind", it
    stands later somewhere; "no". `said` has the answers of every fault in lines, "name: words", its place in front.
    `seconds` are the processor's for the diagnosis; `failure` is what was raised, a bug of our own.
    """

    name: str
    says: str
    level: str
    caught: bool = False
    innocents: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    named: str = "no"
    said: tuple[tuple[str, ...], ...] = ()
    seconds: float = 0.0
    failure: str = ""

    @property
    def blamed(self) -> bool:
        """Every wrong op, and no other."""
        return self.caught and not (self.innocents or self.missed or self.failure)


def recorded(row: Row, golden: Recording, folder: Path) -> Recording:
    """The case of a row run with its bug; raises `ParityError` where it cannot be run."""
    if row.case.startswith("llama/"):
        return llama.recorded(golden, row.seed)
    path = folder / "bug.pb"
    record_mutant(row.mutant, golden, path)
    return read(path)


def _outcomes(levels: Sequence[str], row: Row) -> list[Outcome]:
    torch.set_num_threads(1)
    golden = golden_of(row.case)
    with TemporaryDirectory() as folder:
        whole = recorded(row, golden, Path(folder))
        return [_outcome(row, level, golden, thinned(whole, level)) for level in levels]


def _outcome(row: Row, level: str, golden: Recording, candidate: Recording) -> Outcome:
    try:
        result = blamed(golden, candidate, row.wrong)
    except Exception as error:  # caught is caught, whatever the judge can make of it
        return Outcome(row.name, row.says, level, caught=True, failure=f"{type(error).__name__}: {error}")
    if result is None:
        return Outcome(row.name, row.says, level)
    answers = _answers(result.diagnosis)
    return Outcome(
        row.name,
        row.says,
        level,
        caught=True,
        innocents=result.innocents,
        missed=result.missed if level == "all" else (),
        named=_named(row, answers),
        said=tuple(
            (alternatives[0], *map(": ".join, lines))
            for alternatives, lines in zip(result.places, answers, strict=True)
        ),
        seconds=result.seconds,
    )


def _named(row: Row, answers: Sequence[Sequence[Answer]]) -> str:
    hits = [[row.fits(*answer) for answer in alternatives] for alternatives in answers]
    if hits and all(alternatives[0] for alternatives in hits):
        return "yes"
    return "behind" if any(map(any, hits)) else "no"


def _answers(diagnosis: Diagnosis) -> list[list[Answer]]:
    return [*map(_of_fault, diagnosis.faults), *([(MISPLACED, "")] for _ in diagnosis.misplaced)]


def _of_fault(fault: Explained) -> list[Answer]:
    explanations = [
        (explanation.name, f"{explanation.says}; fix: {explanation.fix}; {fault.where}")
        for explanation in fault.explanations
    ]
    findings = [(finding.name, f"{finding.says}; {fault.where}") for finding in fault.findings]
    return [*explanations, *findings] or [("", fault.where)]


def _failed(levels: Sequence[str], row: Row, failure: str) -> list[Outcome]:
    return [Outcome(row.name, row.says, level, failure=failure) for level in levels]


def run_all(rows: Sequence[Row], levels: Sequence[str], limit: float) -> Iterator[list[Outcome]]:
    """Each row at those of its `levels` that are asked for (all without one), in a process of its own, `limit` seconds
    at most; one that raises, dies or hangs is a failure of every level.
    """
    for row in rows:
        asked = [level for level in row.levels if not levels or level in levels]
        if asked:
            yield from run_each(partial(_outcomes, asked), [row], partial(_failed, asked), limit)
