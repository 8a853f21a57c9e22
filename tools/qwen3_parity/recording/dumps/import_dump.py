"""A dump on the case of a golden -> a recording; what has no name, no tensor or another shape is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from math import prod
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import pattern_of, pb, place
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dump, Dumped, refused, shown
from qwen3_parity.recording.dumps.formats import read_dump
from qwen3_parity.recording.dumps.given import equal, forward_of, is_given, refuse_other_inputs
from qwen3_parity.recording.dumps.graph_dump import import_graph_dump
from qwen3_parity.recording.dumps.imported import (
    Imported,
    Misfit,
    forwards_after,
    refuse_unfinished,
    stored_in,
    taps_without,
)
from qwen3_parity.recording.dumps.meanings import Meaning, general, is_input, meanings, nearest, ready
from qwen3_parity.recording.graph_names import graph_map
from qwen3_parity.recording.layout import readings, split_axes, width_of
from qwen3_parity.recording.names import Named, Names, name_map, part_of
from qwen3_parity.recording.recorder import Recorder, is_last_alone, recorder
from qwen3_parity.recording.slots import Forward

_BROADCAST = ("cos", "sin", "position_ids")
"""Taps that a model may have once for all rows."""
_SHOWN = 6


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
    if case.golden.case.mode not in (pb.ENCODER, pb.CAUSAL, pb.GRAPH):
        rule, wanted = "a dump is of one stack of layers", "a case of decoder/*, llama/* or encoder/*, or with a graph"
        raise refused(case.name, rule, wanted, pb.Mode.Name(case.golden.case.mode), "choose another case")
    names = ready(names)
    if case.is_graph:
        entries = graph_map(names, case.golden)
        with ExitStack() as opened:
            return import_graph_dump(read_dump(dump, opened), case, entries, path, arithmetic)
    named = [] if names is None else name_map(names, case.stack)
    with ExitStack() as opened:
        return _imported(read_dump(dump, opened), case, named, path, arithmetic)


def _imported(dump: Dump, case: Case, named: Sequence[Named], path: Path | None, arithmetic: pb.Arithmetic) -> Imported:
    known = meanings([one.name for one in dump.arrays], named, case.stack)
    matched = [_Matched(one, known[one.name]) for one in dump.arrays if one.name in known and known[one.name].taps]
    others = [one for one in dump.arrays if one.name not in known]
    inputs, left = ([one for one in others if is_given(one.name) is wanted] for wanted in (True, False))
    if not matched:
        raise _nothing(dump, left, case)
    misfits, forwards = list[Misfit](), list[Forward]()
    with recorder(case, path, f"{dump.kind} dump") as recording:
        recording.arithmetic, recording.stored = arithmetic, stored_in(one.one for one in matched)
        groups = groupby(sorted(matched, key=lambda one: one.forward), key=lambda one: one.forward)
        for number, group in groups:
            members = list(group)
            forward = _slots(recording, members, forwards, dump.path)
            refuse_other_inputs(case, [one for one in inputs if forward_of(one) == number], forward)
            misfits += _record(recording, members, forward)
            forwards.append(forward)
        refuse_unfinished(recording, forwards, dump.path)
        if not len(recording):
            raise _only_misfits(dump, misfits)
        without, tensors, recognised = taps_without(recording), len(recording), recording.recognised
    names = dict.fromkeys(general(one.name) for one in sorted(left, key=lambda one: is_input(one.name)))
    unmatched = {name: nearest(name, case.stack) for name in names}
    return Imported(
        recording.path, dump.kind, len(dump.arrays), tensors, forwards, unmatched, without, misfits, recognised
    )


def _slots(recording: Recorder, members: Sequence[_Matched], before: Sequence[Forward], path: Path) -> Forward:
    """The slots of a forward: those behind the last one, or the whole row again, as most of its shapes say.

    As a model without a cache runs, one forward over all slots serves every step.
    """
    choices = forwards_after(recording, before, path)
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
            elif not equal(owner.load(), array):  # what a model gives is what its last module gives
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
