"""What becomes of a dump: the forwards that it holds, and what of it has no name, no tensor or another shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import pattern_of, pb
from qwen3_golden.dtypes import ARITHMETIC, FLOATS
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.dumps.dump import Dumped, refused
from qwen3_parity.recording.recorder import Recorder
from qwen3_parity.recording.slots import Forward


class Misfit(NamedTuple):
    """An array that is not shaped as its tap."""

    name: str
    tap: str
    expected: str
    got: str


@dataclass(frozen=True)
class Imported:
    """What became of a dump.

    `unmatched` are the names that mean no tap, {layer} for their numbers, each with the tap that it is most like;
    `without` the golden's taps that have no tensor; `recognised` the arithmetic whose numbers are stored as float32.
    """

    path: Path
    kind: str
    arrays: int
    tensors: int
    forwards: Sequence[Forward]
    unmatched: Mapping[str, str]
    without: Sequence[str]
    misfits: Sequence[Misfit]
    recognised: pb.Arithmetic


def stored_in(arrays: Iterable[Dumped]) -> pb.Arithmetic:
    """What most floats of a dump are stored in: a model in bfloat16 has a few taps in float32."""
    counted = Counter(one.dtype for one in arrays if one.dtype in FLOATS)
    most = counted.most_common(1)
    return ARITHMETIC[most[0][0]] if most else pb.ARITHMETIC_UNSPECIFIED


def forwards_after(recording: Recorder, before: Sequence[Forward], path: Path) -> list[Forward]:
    """What the next forward of a dump can be: over the slots behind the last one, or the whole row again.

    Raises `ParityError` where the case is at its end.
    """
    ends, done = [stop for _, stop in recording.bounds], before[-1].stop if before else 0
    choices = [
        Forward(first, done, stop)
        for stop in sorted((end for end in ends if end > done), reverse=True)
        for first in sorted({done, 0}, reverse=True)
    ]
    if not choices:
        rule, got = "the case is at its end, and the dump has one more forward", f"{len(before) + 1} or more"
        wanted = f"forwards over the {ends[-1]} slots of {recording.case.name}, {len(ends)} or fewer"
        raise refused(
            path, rule, wanted, got, "leave in the dump what belongs to the case: no warm-up, no other request"
        )
    return choices


def refuse_unfinished(recording: Recorder, forwards: Sequence[Forward], path: Path) -> None:
    """Raise `ParityError` for a dump that ends before the case does."""
    total, stop = recording.bounds[-1][1], forwards[-1].stop
    if stop != total:
        wanted = f"forwards over all {total} slots of {recording.case.name}, in one or in {len(recording.bounds)}"
        got = f"{len(forwards)} forwards, {stop} slots"
        raise refused(
            path, "the dump ends before the case does", wanted, got, "run the case to its end, or choose another"
        )


def taps_without(recording: Recorder) -> list[str]:
    """The golden's taps that were not recorded: their pattern where no layer has it, else their name and step."""
    golden = [item.key for item in recording.case.golden if not item.info.name.startswith(GIVEN)]
    there = {pattern_of(name) for name, step in golden if (name, step) in recording}
    left = [key for key in golden if key not in recording]
    texts = [f"{name} (step {step})" if pattern_of(name) in there else pattern_of(name) for name, step in left]
    return list(dict.fromkeys(texts))
