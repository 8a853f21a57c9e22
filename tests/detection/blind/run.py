"""A row recorded once, and judged with the taps of every level, in a process that may die."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import torch

from detection.blind.answers import answers
from detection.blind.row import Row
from detection.levels.thinned import thinned
from detection.mutants.isolated import CHECKPOINTS, golden_of, record_mutant
from detection.mutants.judged import MISPLACED, short
from qwen3_golden import Recording, pattern_of, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
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
    """The row at each level, in a process of its own; one that dies or hangs is a failure of every level."""
    context = multiprocessing.get_context("fork")  # what is imported and read stays warm
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(row, levels, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(timeout):
            return _failed(row, levels, "time limit")
        answer: list[Judged] = receiver.recv()
        return answer
    except EOFError:
        return _failed(row, levels, "the process died")
    finally:
        process.kill()
        process.join()
        receiver.close()


def _failed(row: Row, levels: Sequence[str], failure: str) -> list[Judged]:
    return [Judged(row.name, level, level in ("all", *row.levels), failure=failure) for level in levels]


def _child(row: Row, levels: Sequence[str], sender: Connection) -> None:
    torch.set_num_threads(1)
    try:
        golden = golden_of(row.cases[0])
        with TemporaryDirectory() as folder:
            path = Path(folder) / "blind.pb"
            record_mutant(row.mutant, golden, path)
            whole = read(path)
            sender.send([_at(row, level, golden, thinned(whole, level)) for level in levels])
    except Exception as error:  # whatever it is, the other rows go on
        sender.send(_failed(row, levels, f"{type(error).__name__}: {error}"))


def _text(fault: Explained) -> str:
    """The text of what a fault is called."""
    texts = [(x.name, x.says) for x in fault.explanations] + [(x.name, x.says) for x in fault.findings]
    return next((says for name, says in texts if name == fault.name), "")


def _at(row: Row, level: str, golden: Recording, candidate: Recording) -> Judged:
    expected = level in ("all", *row.levels)
    start = process_time()
    try:
        if not check(golden, candidate).exit_code:
            return Judged(row.name, level, expected)
        start = process_time()
        result = diagnose(golden, candidate, weights_of(candidate, CHECKPOINTS))
    except Exception as error:  # caught is caught, whatever the judge can make of it
        return Judged(row.name, level, expected, caught=True, failure=f"{type(error).__name__}: {error}")
    seconds = process_time() - start
    firsts = [(fault.places, fault.name, _text(fault)) for fault in result.faults]
    firsts += [(fault.places, MISPLACED, "a right tap at another place") for fault in result.misplaced]
    guilty = row.wrong | row.also
    covered = frozenset(short(place) for places, _, _ in firsts for place in places)
    recorded = {short(pattern_of(item.info.name)) for item in candidate}
    is_right = answers()[row.name].is_right
    return Judged(
        row.name,
        level,
        expected,
        caught=True,
        said=tuple(Said(places[0], name, text, is_right(f"{name} {text}")) for places, name, text in firsts),
        innocents=tuple(places[0] for places, _, _ in firsts if not guilty & set(map(short, places))),
        missed=tuple(sorted((row.wrong & recorded) - covered)),
        seconds=seconds,
    )
