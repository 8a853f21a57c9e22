"""One bug recorded once and judged at its levels: caught, blamed, and whether the first answer is a right one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import torch

from detection.levels.thinned import thinned
from detection.mutants.isolated import CHECKPOINTS, golden_of, record_mutant
from detection.mutants.judged import MISPLACED, short
from detection.unseen import Row, llama, rows
from qwen3_golden import Recording, pattern_of, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
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


def outcomes(row: Row, levels: Sequence[str]) -> list[Outcome]:
    """The row at each of these levels."""
    golden = golden_of(row.case)
    with TemporaryDirectory() as folder:
        whole = recorded(row, golden, Path(folder))
        return [_outcome(row, level, golden, thinned(whole, level)) for level in levels]


def _outcome(row: Row, level: str, golden: Recording, candidate: Recording) -> Outcome:
    if not check(golden, candidate).exit_code:
        return Outcome(row.name, row.says, level)
    start = process_time()
    diagnosis = diagnose(golden, candidate, weights_of(candidate, CHECKPOINTS))
    seconds = process_time() - start
    places = [*(fault.places for fault in diagnosis.faults), *(fault.places for fault in diagnosis.misplaced)]
    groups = [frozenset(map(short, some)) for some in places]
    there = {short(pattern_of(item.info.name)) for item in candidate} if level == "all" else set[str]()
    answers = _answers(diagnosis)
    return Outcome(
        row.name,
        row.says,
        level,
        caught=True,
        innocents=tuple(some[0] for some, group in zip(places, groups, strict=True) if not group & row.wrong),
        missed=tuple(sorted((row.wrong & there).difference(*groups))),
        named=_named(row, answers),
        said=tuple((some[0], *map(": ".join, lines)) for some, lines in zip(places, answers, strict=True)),
        seconds=seconds,
    )


def _named(row: Row, answers: Sequence[Sequence[Answer]]) -> str:
    hits = [[row.fits(*answer) for answer in some] for some in answers]
    if hits and all(some[0] for some in hits):
        return "yes"
    return "behind" if any(map(any, hits)) else "no"


def _answers(diagnosis: Diagnosis) -> list[list[Answer]]:
    return [*map(_of_fault, diagnosis.faults), *([(MISPLACED, "")] for _ in diagnosis.misplaced)]


def _of_fault(fault: Explained) -> list[Answer]:
    explanations = [(some.name, f"{some.says}; fix: {some.fix}; {fault.where}") for some in fault.explanations]
    findings = [(some.name, f"{some.says}; {fault.where}") for some in fault.findings]
    return [*explanations, *findings] or [("", fault.where)]


def _child(name: str, levels: Sequence[str]) -> list[Outcome]:
    torch.set_num_threads(1)
    row = next(row for row in rows() if row.name == name)
    try:
        return outcomes(row, levels)
    except Exception as error:  # whatever it is, the other bugs go on
        return [Outcome(row.name, row.says, levels[0], failure=f"{type(error).__name__}: {error}")]


def run_all(chosen: Sequence[Row], levels: Sequence[str], limit: float) -> Iterator[list[Outcome]]:
    """Each row at those of its `levels` that are asked for (all without one), in a process of its own, `limit` seconds
    at most.
    """
    context = multiprocessing.get_context("fork")  # what is imported and read stays warm
    for row in chosen:
        asked = [level for level in row.levels if not levels or level in levels]
        if not asked:
            continue
        with context.Pool(1) as pool:
            try:
                yield pool.apply_async(_child, (row.name, asked)).get(limit)
            except multiprocessing.TimeoutError:  # its process died, or goes on for ever
                yield [Outcome(row.name, row.says, asked[0], failure=f"nothing after {limit:g} s")]
