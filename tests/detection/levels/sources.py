"""Bugs of every kind, each recorded once with every tap: by hand, of kernels, mechanical changes, derived seeds."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from detection import kernels, mutants
from detection.derived.derive import CASES, Seed, possible, seeds, shows
from detection.derived.seed import case_of, seeded
from detection.mechanical import run as mechanical
from detection.mechanical.apply import install
from detection.mechanical.judged import cases, recorded
from detection.mutants.isolated import golden_of, record_mutant
from detection.mutants.judged import short
from qwen3_golden import ParityError, Recording, pb, read
from qwen3_parity.check import check_run

_TIME_LIMIT = 60
"""Seconds for a mechanical change: some never end."""
_CASES = 5
"""The cases on which a mechanical change is looked for, those first that see most."""


@dataclass(frozen=True)
class Bug:
    """A recording with a bug in it. `wrong`: the taps that are wrong, without stack and layer; `named`: right names.

    Both are None of a mechanical change: nobody wrote them down. What is said with every tap is right then.
    """

    name: str
    golden: Recording
    candidate: Recording
    wrong: frozenset[str] | None = None
    named: frozenset[str] | None = None


@dataclass(frozen=True)
class Source:
    """Where bugs come from: all their names, and how one is recorded in a folder; None where it cannot be run."""

    names: Callable[[], Sequence[str]]
    record: Callable[[str, Path], Bug | None]


def _is_network(case: str) -> bool:
    return golden_of(case).case.mode != pb.OP


def _of_networks() -> list[str]:
    every = (mutant for mutant in mutants.catalogue() if not (mutant.of_tokenizer or mutant.of_weights))
    return [mutant.name for mutant in every if _is_network(mutant.cases[0])]


def _by_hand(catalogue: Callable[[], Sequence[mutants.Mutant]], name: str, folder: Path) -> Bug | None:
    mutant = next(entry for entry in catalogue() if entry.name == name)
    golden, path = golden_of(mutant.cases[0]), folder / "bug.pb"
    try:
        record_mutant(mutant, golden, path)
    except ParityError:
        return None
    return Bug(name, golden, read(path), mutant.wrong, mutant.named)


@cache
def _changes() -> Mapping[str, Any]:
    return {mutant.id: mutant for mutant in mechanical.all_mutants()}


def _changed(name: str, folder: Path) -> Bug | None:
    """The first case that a change of our source shows in; for good, so in a process that is thrown away."""
    change = _changes()[name]
    networks = [case for case in cases() if _is_network(case)][:_CASES]
    try:
        with _in_time():
            install(change.module, change.text)
            for golden, candidate in recorded(networks, folder):
                if check_run(golden, candidate).exit_code:
                    return Bug(name, golden, candidate)
    except Exception:  # whatever the change does, it is refused
        return None
    return None


@contextmanager
def _in_time() -> Iterator[None]:
    def over(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(_TIME_LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def _seeds() -> Mapping[str, Seed]:
    """One seed of each name at each op: the first place of the first case that has it."""
    first: dict[str, Seed] = {}
    for case in CASES:
        for seed in seeds(case):
            first.setdefault(f"{seed.op} {seed.name}", seed)
    return first


def _derived(name: str, _: Path) -> Bug | None:
    seed = _seeds()[name]
    if not (possible(seed) and shows(seed)):
        return None
    case = case_of(seed.case)
    try:
        candidate = seeded(case, seed.wrong)
    except ParityError:
        return None
    return Bug(name, case.golden, candidate, frozenset(map(short, seed.wrong)), frozenset({seed.name}))


SOURCES: Mapping[str, Source] = {
    "mutants": Source(_of_networks, lambda name, folder: _by_hand(mutants.catalogue, name, folder)),
    "kernels": Source(
        lambda: [mutant.name for mutant in kernels.catalogue() if _is_network(mutant.cases[0])],
        lambda name, folder: _by_hand(kernels.catalogue, name, folder),
    ),
    "mechanical": Source(lambda: list(_changes()), _changed),
    "derived": Source(lambda: list(_seeds()), _derived),
}
"""By the word of the command. The rate of derived seeds says that the library is sound, and is no rate of naming."""


def chosen(source: str, globs: Sequence[str], every: int = 1, draw: int | None = None, seed: int = 0) -> list[str]:
    """The names of a source's bugs that match a glob, all without one; every so-manieth, or so many drawn by a seed."""
    names = SOURCES[source].names()
    selected = [name for name in names if not globs or any(fnmatchcase(name, glob) for glob in globs)][::every]
    return selected if draw is None else Random(seed).sample(selected, min(draw, len(selected)))
