"""A dump on the case of a golden -> a recording; what has no name, no tensor or another shape is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import pattern_of, pb, place
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dump, Dumped, refused, shown
from qwen3_parity.recording.dumps.formats import read_dump
from qwen3_parity.recording.dumps.given import is_given
from qwen3_parity.recording.dumps.graph_dump import import_graph_dump
from qwen3_parity.recording.dumps.import_forwards import Part, import_forwards
from qwen3_parity.recording.dumps.imported import Imported, Misfit
from qwen3_parity.recording.dumps.meanings import Meaning, general, is_input, meanings, nearest, ready
from qwen3_parity.recording.graph_names import graph_map
from qwen3_parity.recording.layout import readings, split_axes, width_of
from qwen3_parity.recording.names import Named, Names, name_map, part_of
from qwen3_parity.recording.packed import as_tokens
from qwen3_parity.recording.recorder import Recorder, is_last_alone
from qwen3_parity.recording.slots import Forward

_BROADCAST = ("cos", "sin", "position_ids")
"""Taps that a model may have once for all rows."""
_SHOWN = 6


class _Matched(NamedTuple):
    dumped: Dumped
    meaning: Meaning

    @property
    def forward(self) -> int:
        return self.dumped.forward if self.meaning.step is None else self.meaning.step


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
        rule, expected = (
            "a dump is of one stack of layers",
            "a case of decoder/*, llama/* or encoder/*, or with a graph",
        )
        raise refused(case.name, rule, expected, pb.Mode.Name(case.golden.case.mode), "choose another case")
    names = ready(names)
    if case.is_graph:
        entries = graph_map(names, case.golden)
        with ExitStack() as opened:
            return import_graph_dump(read_dump(dump, opened), case, entries, path, arithmetic)
    named = [] if names is None else name_map(names, case.stack)
    with ExitStack() as opened:
        return _imported(read_dump(dump, opened), case, named, path, arithmetic)


def _imported(dump: Dump, case: Case, named: Sequence[Named], path: Path | None, arithmetic: pb.Arithmetic) -> Imported:
    known = meanings([dumped.name for dumped in dump.arrays], named, case.stack)
    matched = [
        _Matched(dumped, known[dumped.name])
        for dumped in dump.arrays
        if dumped.name in known and known[dumped.name].taps
    ]
    others = [dumped for dumped in dump.arrays if dumped.name not in known]
    inputs = [dumped for dumped in others if is_given(dumped.name)]
    left = [dumped for dumped in others if not is_given(dumped.name)]
    if not matched:
        raise _nothing(dump, left, case)
    names = dict.fromkeys(general(dumped.name) for dumped in sorted(left, key=lambda dumped: is_input(dumped.name)))
    unmatched = {name: nearest(name, case.stack) for name in names}
    return import_forwards(dump, case, path, arithmetic, matched, inputs, _fits, _laid_out, unmatched)


def _parts(meaning: Meaning) -> list[tuple[str, tuple[str, ...]]]:
    """The taps of a meaning, each with its axes, heads by themselves."""
    tap_places = [(name, place(name)) for name in meaning.taps]
    return [
        (name, split_axes(pattern_of(name), tap_place.axes)) for name, tap_place in tap_places if tap_place is not None
    ]


def _fits(recording: Recorder, member: _Matched, forward: Forward) -> bool:
    """Whether an array can be its tap by its shape alone. Only then is it loaded."""
    shape, parts, sizes = member.dumped.shape, _parts(member.meaning), recording.sizes(forward)
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


def _laid_out(recording: Recorder, member: _Matched, forward: Forward) -> list[Part] | Misfit:
    """The taps in an array, or what is wrong with its shape."""
    dumped, meaning, sizes = member.dumped, member.meaning, recording.sizes(forward)
    where, parts = shown(dumped.name), _parts(meaning)
    if not _fits(recording, member, forward):
        expected = " + ".join(f"{tap.rpartition('.')[2]} {[sizes.get(a, 0) for a in axes]}" for tap, axes in parts)
        got = f"{list(dumped.shape)}{as_tokens(recording.case, forward, dumped.shape)}"
        return Misfit(where, " + ".join(meaning.taps), expected, got)
    array, order = dumped.load(), _order(member, sizes)
    return [
        Part(tap, part_of(meaning.entry, pattern, array, where, sizes) if len(parts) > 1 else array, order)
        for pattern, tap in zip(meaning.entry.patterns, meaning.taps, strict=True)
    ]


def _order(member: _Matched, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The order of an array's axes where it is known, empty where its shape tells."""
    dumped, meaning = member
    axes = _parts(meaning)[0][1]
    if meaning.laid_out and set(axes) <= sizes.keys() and axes in readings(dumped.shape, axes, sizes):
        return axes
    return meaning.entry.axes


def _nothing(dump: Dump, left: Sequence[Dumped], case: Case) -> Exception:
    names = list(dict.fromkeys(general(dumped.name) for dumped in left))
    said = [
        f"{shown(name)}{f' (like {like})' if (like := nearest(name, case.stack)) else ''}" for name in names[:_SHOWN]
    ]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return refused(
        dump.path,
        "none of its names means a tap",
        "names of Hugging Face's modules or of taps, or a name map",
        f"{', '.join(said) or 'no arrays'}{more}",
        'give a map with --names FILE: "their.{layer}.name" = "q_proj" on each line',
    )
