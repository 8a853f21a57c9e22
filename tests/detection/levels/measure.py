"""One bug, recorded once with every tap and judged with those of each level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from detection.levels.thinned import thinned
from detection.mutants import Mutant, catalogue
from detection.mutants.isolated import CHECKPOINTS, golden_of, record_mutant
from detection.mutants.judged import MISPLACED, short
from qwen3_golden import ParityError, Recording, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.diagnose import Diagnosis, Explained, diagnose

_FIRST = 3


@dataclass(frozen=True)
class Row:
    """A bug at a level. `innocents`: groups that do not hold it; `said`: each fault's names, best first.

    `first`: the first name of every fault is a right one; `among`: a right one is among its first three. `seconds` of
    the diagnosis, `check_seconds` of the check of the same file. `failure`: what the judge raised, a bug of our own.
    """

    bug: str
    level: str
    caught: bool
    innocents: tuple[str, ...] = ()
    said: tuple[tuple[str, ...], ...] = ()
    first: bool = False
    among: bool = False
    seconds: float = 0.0
    check_seconds: float = 0.0
    failure: str = ""


def measured(name: str, levels: Sequence[str], budget: float) -> list[Row]:
    """The rows of a bug on its first case; none where our implementation refuses to run it."""
    torch.set_num_threads(1)
    mutant = next(one for one in catalogue() if one.name == name)
    golden = golden_of(mutant.cases[0])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bug.pb"
        try:
            record_mutant(mutant, golden, path)
        except ParityError:
            return []
        whole = read(path)
        return [_row(mutant, level, golden, thinned(whole, level), budget) for level in levels]


def _row(mutant: Mutant, level: str, golden: Recording, candidate: Recording, budget: float) -> Row:
    start = perf_counter()
    caught = bool(check(golden, candidate).exit_code)
    middle = perf_counter()
    if not caught:
        return Row(mutant.name, level, caught=False, check_seconds=middle - start)
    try:
        found = diagnose(golden, candidate, weights_of(candidate, CHECKPOINTS), budget=budget)
    except Exception as error:  # caught is caught, and the other bugs go on
        return Row(mutant.name, level, caught=True, failure=f"{type(error).__name__}: {error}")
    seconds = perf_counter() - middle
    said = tuple(_names(found))
    return Row(
        mutant.name,
        level,
        caught=True,
        innocents=tuple(one.fault.place for one in found.faults if not mutant.wrong & set(map(short, one.places))),
        said=said,
        first=bool(said) and all(names[0] in mutant.named for names in said),
        among=bool(said) and all(mutant.named & set(names[:_FIRST]) for names in said),
        seconds=seconds,
        check_seconds=middle - start,
    )


def _names(found: Diagnosis) -> Iterator[tuple[str, ...]]:
    yield from (_of_fault(one) for one in found.faults)
    yield from ((MISPLACED,) for _ in found.misplaced)


def _of_fault(one: Explained) -> tuple[str, ...]:
    return tuple(x.name for x in one.explanations) + tuple(x.name for x in one.findings) or ("",)
