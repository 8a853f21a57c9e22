"""A dump on the case of a golden -> a recording; what has no name, no tensor or another shape is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, pattern_of, pb, place
from qwen3_golden.dtypes import ARITHMETIC, FLOATS
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dump, Dumped, refused, shown
from qwen3_parity.recording.dumps.formats import read_dump
from qwen3_parity.recording.dumps.meanings import Meaning, general, is_input, meanings, nearest, ready
from qwen3_parity.recording.layout import readings, split_axes, width_of
from qwen3_parity.recording.names import Named, Names, name_map, part_of
from qwen3_parity.recording.recorder import Recorder, is_last_alone, recorder
from qwen3_parity.recording.slots import Forward

_BROADCAST = ("cos", "sin", "position_ids")
"""Taps that a model may have once for all rows."""
_SHOWN, _SHOWN_IDS = 6, 64


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


class _Matched(NamedTuple):
    one: Dumped
    meaning: Meaning

    @property
    def forward(self) -> int:
        return self.one.forward if self.meaning.step is None else self.meaning.step


def import_dump(
    dump: Path,
    case: Case,
    names: Names | None = None,
    path: Path | None = None,
    arithmetic: pb.Arithmetic = pb.ARITHMETIC_UNSPECIFIED,
) -> Imported:
    """Write the recording of a dump: `path`, or build/parity/CASE.pb.

    `names` is a name map, its file, or "llama.cpp"; names of Hugging Face's modules and of taps need none. `arithmetic`
    is the run's; unspecified it is that of the numbers, or of their type. Raises
    `ParityError` for a dump that cannot be read, of other inputs, with nothing that means a tap, with two arrays that
    mean the same, for forwards that are not the case's, and for a case that is not of one stack of layers.
    """
    if case.golden.case.mode not in (pb.ENCODER, pb.CAUSAL):
        rule, wanted = "a dump is of one stack of layers", "a case of decoder/*, llama/* or encoder/*"
        raise refused(case.name, rule, wanted, pb.Mode.Name(case.golden.case.mode), "choose another case")
    names = ready(names)
    named = [] if names is None else name_map(names, case.stack)
    with ExitStack() as opened:
        return _imported(read_dump(dump, opened), case, named, path, arithmetic)


def _imported(dump: Dump, case: Case, named: Sequence[Named], path: Path | None, arithmetic: pb.Arithmetic) -> Imported:
    known = meanings([one.name for one in dump.arrays], named, case.stack)
    matched = [_Matched(one, known[one.name]) for one in dump.arrays if one.name in known and known[one.name].taps]
    others = [one for one in dump.arrays if one.name not in known]
    inputs, left = ([one for one in others if _is_input(one.name) is wanted] for wanted in (True, False))
    if not matched:
        raise _nothing(dump, left, case)
    misfits, forwards = list[Misfit](), list[Forward]()
    with recorder(case, path, f"{dump.kind} dump") as recording:
        recording.arithmetic, recording.stored = arithmetic, _stored(matched)
        groups = groupby(sorted(matched, key=lambda one: one.forward), key=lambda one: one.forward)
        for number, group in groups:
            members = list(group)
            forward = _slots(recording, members, forwards, dump.path)
            _refuse_other_inputs(case, [one for one in inputs if _forward_of(one) == number], forward)
            misfits += _record(recording, members, forward)
            forwards.append(forward)
        _refuse_unfinished(recording, forwards, dump.path)
        if not len(recording):
            raise _only_misfits(dump, misfits)
        without, tensors, recognised = _without(recording), len(recording), recording.recognised
    names = dict.fromkeys(general(one.name) for one in sorted(left, key=lambda one: is_input(one.name)))
    unmatched = {name: nearest(name, case.stack) for name in names}
    return Imported(
        recording.path, dump.kind, len(dump.arrays), tensors, forwards, unmatched, without, misfits, recognised
    )


def _stored(matched: Sequence[_Matched]) -> pb.Arithmetic:
    """What most floats of the dump are stored in: a model in bfloat16 has a few taps in float32."""
    counted = Counter(one.one.dtype for one in matched if one.one.dtype in FLOATS)
    most = counted.most_common(1)
    return ARITHMETIC[most[0][0]] if most else pb.ARITHMETIC_UNSPECIFIED


def _slots(recording: Recorder, members: Sequence[_Matched], before: Sequence[Forward], path: Path) -> Forward:
    """The slots of a forward: those behind the last one, or the whole row again, as most of its shapes say.

    As a model without a cache runs, one forward over all slots serves every step.
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
    return max(choices, key=lambda one: sum(_fits(member, recording.sizes(one)) for member in members))


def _parts(meaning: Meaning) -> list[tuple[str, tuple[str, ...]]]:
    """The taps of a meaning, each with its axes, heads by themselves."""
    spots = [(name, place(name)) for name in meaning.taps]
    return [(name, split_axes(pattern_of(name), spot.axes)) for name, spot in spots if spot is not None]


def _fits(member: _Matched, sizes: Mapping[str, int]) -> bool:
    """Whether an array can be its tap by its shape alone. Only then is it loaded."""
    shape, parts = member.one.shape, _parts(member.meaning)
    name, axes = parts[0]
    if len(parts) > 1:
        width = sum(width_of(axes, sizes) for _, axes in parts)
        return bool(shape) and shape[-1] == width and prod(shape[:-1]) == sizes["batch"] * sizes["query"]
    full = [sizes.get(axis, -1) for axis in axes]
    if min(full, default=0) < 0:
        return False
    if member.meaning.entry.axes:
        return prod(shape) == prod(full)
    if is_last_alone(name, shape, sizes):
        return True
    if name.endswith(_BROADCAST) and tuple(shape) == tuple(full[1:]):
        return True
    return prod(shape) == prod(full) and any(True for _ in readings(shape, axes, sizes))


def _record(recording: Recorder, members: Sequence[_Matched], forward: Forward) -> list[Misfit]:
    """Write what fits; what does not is said with both shapes."""
    sizes, misfits, owners = recording.sizes(forward), list[Misfit](), dict[str, Dumped]()
    for member in members:
        one, meaning = member
        where, parts = shown(one.name), _parts(meaning)
        if not _fits(member, sizes):
            wanted = " + ".join(f"{tap.rpartition('.')[2]} {[sizes.get(a, 0) for a in axes]}" for tap, axes in parts)
            misfits.append(Misfit(where, " + ".join(meaning.taps), wanted, str(list(one.shape))))
            continue
        array = one.load()
        for pattern, tap in zip(meaning.entry.patterns, meaning.taps, strict=True):
            owner = owners.setdefault(tap, one)
            if owner is one:
                part = part_of(meaning.entry, pattern, array, where, sizes) if len(parts) > 1 else array
                recording.add(tap, part, one.dtype, forward, where, _order(member, sizes))
            elif not _equal(owner.load(), array):  # what a model gives is what its last module gives
                got = f"{shown(owner.name)} ({owner.file.name}) and {where} ({one.file.name}), which differ"
                next_step = "name in the map the one that is meant, and the layer of each"
                raise refused(one.file.parent, f"two arrays of a forward are {tap}", "one", got, next_step)
    return misfits


def _order(member: _Matched, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The order of an array's axes where it is known, empty where its shape tells."""
    one, meaning = member
    own = _parts(meaning)[0][1]
    if meaning.laid_out and set(own) <= sizes.keys() and own in readings(one.shape, own, sizes):
        return own
    return meaning.entry.axes


def _is_input(name: str) -> bool:
    """Whether an array is what the case gives, and so must be the case's."""
    return bool(_given(name)) or name.endswith(("input_ids", "embed_tokens:input", "embed_tokens:input.0"))


def _given(name: str) -> str:
    """The `input.*` of a recording that was written as a dump, or `inputs.*` of a model; empty for another name."""
    rest = name.partition(".")[2] if name.partition(".")[0].isdecimal() else name
    return rest if rest.startswith((*GIVEN, "inputs.")) else ""


def _forward_of(one: Dumped) -> int:
    """The forward that an input was given to: that of the array, or the number in front of its name."""
    step = one.name.partition(".")[0]
    return int(step) if step.isdecimal() and len(step) < 7 and not one.forward else one.forward


def _expected(case: Case, name: str, forward: Forward) -> Array | None:
    """What the case gives in the place of an array of a dump, None for what it does not give."""
    given = _given(name)
    if given.startswith(GIVEN):
        known = case.golden.get(given)
        return known.array if known else None
    word = given.removeprefix("inputs.") or "input_ids"
    array = case.arrays.get("input_ids" if word.isdecimal() else word)
    first = 0 if word == "attention_mask" else forward.first
    return None if array is None else array[:, first : forward.stop]


def _refuse_other_inputs(case: Case, inputs: Sequence[Dumped], forward: Forward) -> None:
    for one in inputs:
        expected = _expected(case, one.name, forward)
        if expected is None or (prod(one.shape) == expected.size and _equal(one.load(), expected)):
            continue
        short = prod(one.shape) == expected.size <= _SHOWN_IDS
        got = str(one.load().reshape(-1).tolist()) if short else f"shape {list(one.shape)}"
        wanted = str(expected.reshape(-1).tolist()) if expected.size <= _SHOWN_IDS else f"shape {list(expected.shape)}"
        rule = f"{shown(one.name)} is another than that of {case.name}"
        raise refused(one.file, rule, wanted, got, f"run the model on the case's inputs: qwen3-parity show {case.path}")


def _equal(array: Array, expected: Array) -> bool:
    return bool(np.array_equal(array.reshape(-1), expected.reshape(-1)))


def _refuse_unfinished(recording: Recorder, forwards: Sequence[Forward], path: Path) -> None:
    total, stop = recording.bounds[-1][1], forwards[-1].stop
    if stop != total:
        wanted = f"forwards over all {total} slots of {recording.case.name}, in one or in {len(recording.bounds)}"
        got = f"{len(forwards)} forwards, {stop} slots"
        raise refused(
            path, "the dump ends before the case does", wanted, got, "run the case to its end, or choose another"
        )


def _without(recording: Recorder) -> list[str]:
    """The golden's taps that were not recorded: their pattern where no layer has it, else their name and step."""
    golden = [item.key for item in recording.case.golden if not item.info.name.startswith(GIVEN)]
    there = {pattern_of(name) for name, step in golden if (name, step) in recording}
    left = [key for key in golden if key not in recording]
    texts = [f"{name} (step {step})" if pattern_of(name) in there else pattern_of(name) for name, step in left]
    return list(dict.fromkeys(texts))


def _nothing(dump: Dump, left: Sequence[Dumped], case: Case) -> Exception:
    names = list(dict.fromkeys(general(one.name) for one in left))
    said = [f"{shown(one)}{f' (like {like})' if (like := nearest(one, case.stack)) else ''}" for one in names[:_SHOWN]]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return refused(
        dump.path,
        "none of its names means a tap",
        "names of Hugging Face's modules or of taps, or a name map",
        f"{', '.join(said) or 'no arrays'}{more}",
        'give a map with --names FILE: "their.{layer}.name" = "q_proj" on each line',
    )


def _only_misfits(dump: Dump, misfits: Sequence[Misfit]) -> Exception:
    first = misfits[0]
    return refused(
        dump.path,
        "no array has the shape of its tap",
        f"{first.tap}: {first.expected}",
        f"{first.name}: {first.got}",
        "run the model on the case's own checkpoint and inputs",
    )
