"""The forwards of a dump, one after the other, into a recording: as most of their shapes say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from qwen3_golden import Array, pattern_of, pb
from qwen3_golden.dtypes import ARITHMETIC, FLOATS
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dump, Dumped, refused, shown
from qwen3_parity.recording.dumps.dumped_forwards import Fits, Match, forwards_of
from qwen3_parity.recording.dumps.given import equal, forward_of, refuse_other_inputs
from qwen3_parity.recording.dumps.imported import Imported, Misfit
from qwen3_parity.recording.packed import PAGE
from qwen3_parity.recording.recorder import Recorder, recorder
from qwen3_parity.recording.slots import Forward

_M = TypeVar("_M", bound=Match)


class Part(NamedTuple):
    """What of an array is a tap; `order` are its axes where they are known, `by_name`: nobody said which tap it is."""

    tap: str
    array: Array
    order: tuple[str, ...] = ()
    by_name: bool = False


def import_forwards(
    dump: Dump,
    case: Case,
    path: Path | None,
    arithmetic: pb.Arithmetic,
    matched: Sequence[_M],
    inputs: Sequence[Dumped],
    fits: Fits[_M],
    parts: Callable[[Recorder, _M, Forward], Sequence[Part] | Misfit],
    unmatched: Mapping[str, str],
) -> Imported:
    """Write the recording of what matches: `fits` says whether an array can be its taps in a forward, by shape alone.

    `inputs` are arrays that a forward was given. Raises `ParityError` as `import_dump` does.
    """
    misfits = list[Misfit]()
    with recorder(case, path, f"{dump.kind} dump") as recording:
        recording.arithmetic, recording.stored = arithmetic, _stored_in(match.dumped for match in matched)
        in_order = sorted(matched, key=lambda match: match.forward)
        groups = [list(group) for _, group in groupby(in_order, key=lambda match: match.forward)]
        forwards = forwards_of(recording, groups, fits, dump.path)
        for members, forward in zip(groups, forwards, strict=True):
            number = members[0].forward
            refuse_other_inputs(case, [dumped for dumped in inputs if forward_of(dumped) == number], forward)
            misfits += _record(recording, members, forward, parts)
        if not len(recording):
            raise _no_shape(dump, misfits)
        without, tensors, recognised = _taps_without(recording), len(recording), recording.recognised
    return Imported(
        recording.path, dump.kind, len(dump.arrays), tensors, forwards, unmatched, without, misfits, recognised
    )


def _record(
    recording: Recorder,
    members: Sequence[_M],
    forward: Forward,
    parts: Callable[[Recorder, _M, Forward], Sequence[Part] | Misfit],
) -> list[Misfit]:
    """Write what fits; what does not is said with both shapes."""
    misfits, owners = list[Misfit](), dict[str, Dumped]()
    for member in members:
        dumped, where = member.dumped, shown(member.dumped.name)
        laid_out = parts(recording, member, forward)
        if isinstance(laid_out, Misfit):
            misfits.append(laid_out)
            continue
        for tap, array, order, by_name in laid_out:
            owner = owners.setdefault(tap, dumped)
            if owner is dumped:
                recording.add(tap, array, dumped.dtype, forward, where, order, by_name=by_name)
            elif not equal(owner.load(), dumped.load()):  # what a model gives is what its last module gives
                got = f"{shown(owner.name)} ({owner.file.name}) and {where} ({dumped.file.name}), which differ"
                next_step = "name in the map the one that is meant, and the layer of each"
                raise refused(dumped.file.parent, f"two arrays of a forward are {tap}", "one", got, next_step)
    return misfits


def _no_shape(dump: Dump, misfits: Sequence[Misfit]) -> Exception:
    expected, got = (
        (f"{misfits[0].tap}: {misfits[0].expected}", f"{misfits[0].name}: {misfits[0].got}")
        if misfits
        else ("taps with positions", "states between steps alone")
    )
    next_step = "run the model on the case's own checkpoint and inputs"
    if "real ones" in got:
        next_step = f"lay them into the slots, 0 in padding: qwen3-parity show {PAGE}"
    elif misfits and all(sorted(_sizes(misfit.expected)) == sorted(_sizes(misfit.got)) for misfit in misfits):
        next_step = "these are its axes, exchanged: say `axes` in the map, in the order in which the array has them"
    elif misfits and all(_are_some_rows(_sizes(misfit.got), _sizes(misfit.expected)) for misfit in misfits):
        next_step = "these are some of the case's rows: put all of them into each array, in the case's order"
    return refused(dump.path, "no array has the shape of its tap", expected, got, next_step)


def _are_some_rows(sizes: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether an array is its tap with fewer rows of the batch, which is a tap's first axis."""
    return bool(sizes) and sizes[1:] == expected[1:] and sizes[0] < expected[0]


def _sizes(shape: object) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(shape))]


def _stored_in(arrays: Iterable[Dumped]) -> pb.Arithmetic:
    """What most floats of a dump are stored in: a model in bfloat16 has a few taps in float32."""
    counted = Counter(dumped.dtype for dumped in arrays if dumped.dtype in FLOATS)
    most = counted.most_common(1)
    return ARITHMETIC[most[0][0]] if most else pb.ARITHMETIC_UNSPECIFIED


def _taps_without(recording: Recorder) -> list[str]:
    """The golden's taps that were not recorded: their pattern where no layer has it, else their name and step."""
    golden = [item.key for item in recording.case.golden if not item.info.name.startswith(GIVEN)]
    there = {pattern_of(name) for name, step in golden if (name, step) in recording}
    left = [key for key in golden if key not in recording]
    texts = [f"{name} (step {step})" if pattern_of(name) in there else pattern_of(name) for name, step in left]
    return list(dict.fromkeys(texts))
