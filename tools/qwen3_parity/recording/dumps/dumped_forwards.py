"""Which slots of a case each forward of a dump covers: as most of its shapes say, in order or by its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from qwen3_parity.recording.dumps.dump import Dumped, refused
from qwen3_parity.recording.recorder import Recorder
from qwen3_parity.recording.slots import Forward


class Match(Protocol):
    """An array that means taps, and the number of its forward."""

    @property
    def dumped(self) -> Dumped:
        """The array."""

    @property
    def forward(self) -> int:
        """Its forward's number."""


_M = TypeVar("_M", bound=Match)
Fits = Callable[[Recorder, _M, Forward], bool]


class _Order(NamedTuple):
    """The forwards of a dump by a reading, and how many arrays are shaped so."""

    forwards: list[Forward]
    fitting: int


def forwards_of(recording: Recorder, groups: Sequence[Sequence[_M]], fits: Fits[_M], path: Path) -> list[Forward]:
    """The slots of each group of arrays, a forward each; `fits` says whether an array can be its taps in one.

    One after the other they are all slots of the case. Numbers that leave steps out are those of the steps, and so are
    the numbers in front of names wherever the shapes let them. Raises `ParityError` for more forwards than the case
    has, and for a dump that ends before the case does.
    """
    in_order, by_number = _in_order(recording, groups, fits), _by_number(recording, groups, fits)
    is_whole = len(in_order.forwards) == len(groups) and in_order.forwards[-1].stop == recording.bounds[-1][1]
    if by_number and (by_number.fitting, _is_named(groups) or not is_whole) >= (in_order.fitting, True):
        return by_number.forwards
    if not is_whole:
        raise _not_the_cases(recording, in_order.forwards, len(groups), path)
    return in_order.forwards


def _in_order(recording: Recorder, groups: Sequence[Sequence[_M]], fits: Fits[_M]) -> _Order:
    """Each over the slots behind the last one, or the whole row again, as far as the case goes.

    As a model without a cache runs, one forward over all slots serves every step: where shapes leave it open, a
    forward goes as far as leaves a step for each one behind it.
    """
    ends, forwards, fitting = [stop for _, stop in recording.bounds], list[Forward](), 0
    for number, members in enumerate(groups):
        done, behind = forwards[-1].stop if forwards else 0, len(groups) - number - 1
        choices = [
            Forward(first, done, stop)
            for stop in sorted((end for end in ends if end > done), reverse=True)
            for first in sorted({done, 0}, reverse=True)
        ]
        if not choices:
            break
        counts = [sum(fits(recording, member, choice) for member in members) for choice in choices]
        leaves = [sum(end > choice.stop for end in ends) >= behind for choice in choices]
        best = max(range(len(choices)), key=lambda index: (counts[index], leaves[index]))
        forwards.append(choices[best])
        fitting += counts[best]
    return _Order(forwards, fitting)


def _by_number(recording: Recorder, groups: Sequence[Sequence[_M]], fits: Fits[_M]) -> _Order | None:
    """Each forward is the step of its number; None where the numbers say nothing that their order does not."""
    bounds, numbers = recording.bounds, [members[0].forward for members in groups]
    if max(numbers) >= len(bounds) or (numbers == list(range(len(numbers))) and not _is_named(groups)):
        return None
    forwards, fitting = list[Forward](), 0
    for number, members in zip(numbers, groups, strict=True):
        start, stop = bounds[number]
        choices = [Forward(first, start, stop) for first in sorted({start, 0}, reverse=True)]
        counts = [sum(fits(recording, member, choice) for member in members) for choice in choices]
        forwards.append(choices[counts.index(max(counts))])
        fitting += max(counts)
    return _Order(forwards, fitting)


def _is_named(groups: Sequence[Sequence[_M]]) -> bool:
    """Whether the numbers stand in front of the names."""
    return all(
        member.dumped.forward == 0 and member.dumped.name.startswith(f"{member.forward}.")
        for members in groups
        for member in members
    )


def _not_the_cases(recording: Recorder, forwards: Sequence[Forward], count: int, path: Path) -> Exception:
    total, steps, name = recording.bounds[-1][1], len(recording.bounds), recording.case.name
    if len(forwards) < count:
        rule, got = "the case is at its end, and the dump has one more forward", f"{count} forwards"
        if count <= steps:
            got += f", and forward {len(forwards)} goes to slot {total} by its shapes"
        expected = f"forwards over the {total} slots of {name}, {steps} or fewer"
        next_step = "leave in the dump what belongs to the case: no warm-up, no other request"
        return refused(path, rule, expected, got, next_step)
    expected = f"forwards over all {total} slots of {name}, in one or in {steps}"
    got = f"{count} forwards, {forwards[-1].stop} slots"
    next_step = "run the case to its end; a part of it has the step in front of each name, as 0.logits"
    return refused(path, "the dump ends before the case does", expected, got, next_step)
