"""One bug, recorded once with every tap and judged with those of each level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import torch

from detection.levels.sources import SOURCES, Bug
from detection.levels.thinned import thinned
from detection.mutants.isolated import CHECKPOINTS
from detection.mutants.judged import MISPLACED, short
from qwen3_golden import Recording
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.diagnosis.explained import Explained

_FIRST = 3


@dataclass(frozen=True)
class Row:
    """A bug at a level. `innocents`: groups that do not hold it; `said`: each fault's names, best first.

    `first`: the first name of every fault is a right one; `among`: a right one is among its first three; `decided`:
    where the first is not, a right one stands behind it or a next tap to record is told. `seconds` of the diagnosis,
    `check_seconds` of the check of the same file: of the processor, as a clock counts them where nothing else runs.
    `failure`: what the judge raised, a bug of our own.
    """

    bug: str
    level: str
    caught: bool
    innocents: tuple[str, ...] = ()
    said: tuple[tuple[str, ...], ...] = ()
    first: bool = False
    among: bool = False
    decided: bool = False
    seconds: float = 0.0
    check_seconds: float = 0.0
    failure: str = ""


def measured(name: str, source: str, levels: Sequence[str]) -> list[Row]:
    """The rows of a bug on its first case; none where our implementation refuses to run it, or nothing changes."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        bug = SOURCES[source].record(name, Path(folder))
        if bug is None:
            return []
        if bug.named is None:
            bug = _with_answers(bug)
        return [_row(bug, level, thinned(bug.candidate, level)) for level in levels]


def _with_answers(bug: Bug) -> Bug:
    """A bug that nobody wrote an answer to, with what is said of it by every tap: places, and names of mistakes."""
    diagnosis = diagnose(bug.golden, bug.candidate, weights_of(bug.candidate, CHECKPOINTS))
    groups = [*(finding.places for finding in diagnosis.faults), *(finding.places for finding in diagnosis.misplaced)]
    wrong = {short(place) for places in groups for place in places}
    named = {finding.explanations[0].name for finding in diagnosis.faults if finding.is_known}
    return replace(
        bug, wrong=frozenset(wrong), named=frozenset(named | ({MISPLACED} if diagnosis.misplaced else set()))
    )


def _row(bug: Bug, level: str, candidate: Recording) -> Row:
    assert bug.wrong is not None
    assert bug.named is not None
    start = process_time()
    caught = bool(check(bug.golden, candidate).exit_code)
    middle = process_time()
    if not caught:
        return Row(bug.name, level, caught=False, check_seconds=middle - start)
    try:
        diagnosis = diagnose(bug.golden, candidate, weights_of(candidate, CHECKPOINTS))
    except Exception as error:  # caught is caught, and the other bugs go on
        return Row(bug.name, level, caught=True, failure=f"{type(error).__name__}: {error}")
    seconds = process_time() - middle
    said = tuple(_names(diagnosis))
    named_first = [names[0] in bug.named for names in said]
    behind = [bool(bug.named & set(names)) for names in said]
    recorded = [bool(finding.record) for finding in diagnosis.faults] + [True for _ in diagnosis.misplaced]
    return Row(
        bug.name,
        level,
        caught=True,
        innocents=tuple(
            finding.fault.place for finding in diagnosis.faults if not bug.wrong & set(map(short, finding.places))
        ),
        said=said,
        first=bool(said) and all(named_first),
        among=bool(said) and all(bug.named & set(names[:_FIRST]) for names in said),
        decided=bool(said) and all(any(ways) for ways in zip(named_first, behind, recorded, strict=True)),
        seconds=seconds,
        check_seconds=middle - start,
    )


def _names(diagnosis: Diagnosis) -> Iterator[tuple[str, ...]]:
    yield from (_of_fault(fault) for fault in diagnosis.faults)
    yield from ((MISPLACED,) for _ in diagnosis.misplaced)


def _of_fault(fault: Explained) -> tuple[str, ...]:
    return tuple(x.name for x in fault.explanations) + tuple(x.name for x in fault.numbers) or ("",)
