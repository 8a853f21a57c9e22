"""A dump on a golden with a graph -> a recording: arrays are called after the golden's taps, or a map says which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from qwen3_golden import Recording, pb
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dump, Dumped, refused, shown
from qwen3_parity.recording.dumps.given import is_given
from qwen3_parity.recording.dumps.import_forwards import Part, import_forwards
from qwen3_parity.recording.dumps.imported import Imported, Misfit
from qwen3_parity.recording.dumps.meanings import is_input
from qwen3_parity.recording.graph_names import Entry, each_once, in_layers, is_all, parts_of_fused
from qwen3_parity.recording.graph_steps import Wanted, fits, wanted_of
from qwen3_parity.recording.graph_taps import called, general, module_of, modules_of, names_of
from qwen3_parity.recording.packed import as_tokens, packed_order, real_tokens
from qwen3_parity.recording.prefixes import prefixes_of
from qwen3_parity.recording.recorder import Recorder
from qwen3_parity.recording.slots import Forward
from qwen3_parity.recording.tap_axes import width_of
from qwen3_parity.slices.module_inputs import tap_read_by
from qwen3_parity.slices.stored import graph_of

_STEP = re.compile(r"(?P<step>\d{1,6})\.(?P<rest>.+)")
_END = re.compile(r"(?P<path>.+?)[.:](?P<end>input|output)s?(\.(?P<number>\d{1,3}))?")
_SHOWN, _LIKE = 6, 24
"""How many names a message shows, and for how many without a meaning the nearest tap is looked for."""


class _Matched(NamedTuple):
    """An array and the taps that it holds, by its own name or by an entry of a map."""

    dumped: Dumped
    forward: int
    taps: tuple[str, ...]
    entry: Entry | None

    @property
    def order(self) -> tuple[str, ...]:
        return self.entry.order if self.entry else ()


def import_graph_dump(
    dump: Dump, case: Case, entries: Sequence[Entry], path: Path | None, arithmetic: pb.Arithmetic
) -> Imported:
    """As `import_dump`, of a golden with a graph; `entries` are those of a name map."""
    matched, left = _matched(dump, case.golden, entries)
    inputs = [dumped for dumped in left if is_given(dumped.name)]
    by_step = any(match.dumped.name.startswith(f"{match.forward}.") for match in matched)
    names = [dumped.name for dumped in left if not is_given(dumped.name)]
    others = list(dict.fromkeys(general(_STEP.sub(r"\g<rest>", name) if by_step else name) for name in names))
    if not matched:
        raise _nothing(dump, others, case)
    known = list(dict.fromkeys(general(name) for name in names_of(case.golden)))
    outputs = [name for name in others[:_LIKE] if not is_input(name)]  # what a module gives is not what goes into it
    like = {name: get_close_matches(name, known, n=1)[:1] for name in outputs}
    unmatched = {name: "".join(like.get(name, ())) for name in others}
    return import_forwards(dump, case, path, arithmetic, matched, inputs, _fits, _laid_out, unmatched)


class _Reading(NamedTuple):
    """What a name can say: what a module gives or is given; `step` is the number in front of it, None for none."""

    path: str
    end: str
    number: int
    step: int | None


def _matched(dump: Dump, golden: Recording, entries: Sequence[Entry]) -> tuple[list[_Matched], list[Dumped]]:
    """The arrays that mean taps, and those that mean none; what a map leaves out is neither."""
    readings = {name: _readings(name) for name in dict.fromkeys(dumped.name for dumped in dump.arrays)}
    every = [reading for group in readings.values() for reading in group]
    by_map = _by_map(every, golden, entries)
    by_name = {} if is_all(entries) else _by_name(every, golden)
    matched, left = list[_Matched](), list[Dumped]()
    for dumped in dump.arrays:
        said = next((reading for reading in readings[dumped.name] if reading[:3] in by_map), None)
        entry = None if said is None else by_map[said[:3]]
        said = said or next((reading for reading in readings[dumped.name] if reading[:3] in by_name), None)
        if said is None:
            left.append(dumped)
            continue
        taps = entry.named.patterns if entry else by_name[said[:3]]
        if taps:
            matched.append(_Matched(dumped, dumped.forward if said.step is None else said.step, taps, entry))
    return matched, left


def _readings(name: str) -> list[_Reading]:
    readings, step = list[_Reading](), _STEP.fullmatch(name)
    for text, number in ((name, None), *([(step["rest"], int(step["step"]))] if step else [])):
        readings.append(_Reading(text, "output", 0, number))
        if match := _END.fullmatch(text):
            readings.append(_Reading(match["path"], match["end"], int(match["number"] or 0), number))
    return readings


def _by_map(
    readings: Sequence[_Reading], golden: Recording, entries: Sequence[Entry]
) -> dict[tuple[str, str, int], Entry]:
    """The entry, of its layer, that each path and end means."""
    paths = dict[tuple[str, int], dict[str, None]]()
    for path, end, number, _ in readings:
        paths.setdefault((end, number), {})[path] = None
    layers = [
        each
        for entry in entries
        for each in in_layers(entry, paths.get((entry.named.end, entry.named.number), ()), golden)
    ]
    return {(path, layer.named.end, layer.named.number): layer for path, layer in each_once(layers)}


def _by_name(readings: Sequence[_Reading], golden: Recording) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """The tap that each path and end is called after, below whatever prefix; none for what stands there already."""
    taps = names_of(golden)
    there = {module_of(reading.path) for reading in readings if reading.end == "output"}
    prefixes = prefixes_of(modules_of(taps), there)
    theirs = dict[str, str]()
    for tap in taps:
        path = module_of(tap)
        moved = prefixes.path(path, there)
        theirs.setdefault(tap if moved is None else moved + tap[len(path) :], tap)
    names = {(path, end, number): called(path, place=number) for path, end, number, _ in readings if end == "output"}
    outputs = {key: theirs[name] for key, name in names.items() if name in theirs}
    read, taken = _read_by_modules(readings, theirs, golden), set(outputs.values())
    by_name: dict[tuple[str, str, int], tuple[str, ...]] = {key: (tap,) for key, tap in outputs.items()}
    for key, tap in read.items():  # what a module gives is said by itself; engines may change what goes on from there
        by_name[key] = () if tap in taken else (tap,)
        taken.add(tap)
    return by_name


def _read_by_modules(
    readings: Sequence[_Reading], theirs: Mapping[str, str], golden: Recording
) -> dict[tuple[str, str, int], str]:
    """The tap that goes into each module, where the golden's graph has it."""
    modules = {
        path: theirs[path] for path, end, number, _ in readings if end == "input" and not number and path in theirs
    }
    graph = graph_of(golden.graph, golden.source) if modules else None
    read = {} if graph is None else {path: tap_read_by(graph, tap, 0) for path, tap in modules.items()}
    return {(path, "input", 0): tap for path, tap in read.items() if tap}


def _fits(recording: Recorder, member: _Matched, forward: Forward) -> bool:
    """Whether the forward has taps that an array can be, by its shape."""
    return bool(_fitting(recording, member, forward))


def _fitting(recording: Recorder, member: _Matched, forward: Forward) -> list[Wanted] | None:
    """The taps of an array as the forward has them, where its shape is theirs; None for another shape.

    Empty where the forward has none of them to give: a state between the steps that it runs through.
    """
    golden, bounds, batch = recording.case.golden, recording.bounds, recording.case.batch
    try:
        every = [wanted_of(golden, tap, forward, bounds, batch) for tap in member.taps]
    except ValueError:
        return None
    there = [layout for layout in every if layout is not None]
    if len(there) < len(every):
        return []
    if len(every) > 1:
        shape, width = member.dumped.shape, sum(width_of(layout.parts) for layout in there)
        return there if shape and shape[-1] == width else None
    by_name = member.entry is None
    if fits(member.dumped.shape, member.taps[0], there[0], member.order, by_name=by_name):
        return there
    real = real_tokens(recording.case, forward)
    is_packed = real is not None and packed_order(member.dumped.shape, there[0].parts, real, member.order)
    return there if is_packed else None


def _laid_out(recording: Recorder, member: _Matched, forward: Forward) -> list[Part] | Misfit:
    """The taps in an array, or what is wrong with its shape."""
    dumped, where, entry = member.dumped, shown(member.dumped.name), member.entry
    layouts = _fitting(recording, member, forward)
    if layouts is None:
        golden, bounds, batch = recording.case.golden, recording.bounds, recording.case.batch
        wants = [wanted_of(golden, tap, forward, bounds, batch) for tap in member.taps]
        text = " + ".join(str([part.size for part in want.parts]) for want in wants if want)
        got = f"{list(dumped.shape)}{as_tokens(recording.case, forward, dumped.shape)}"
        return Misfit(where, " + ".join(member.taps), text, got)
    if not layouts:
        return []
    array, widths = dumped.load(), [width_of(part.parts) for part in layouts]
    parts = parts_of_fused(entry, widths, array, where) if entry else [array]
    return [Part(tap, part, member.order, entry is None) for tap, part in zip(member.taps, parts, strict=True)]


def _nothing(dump: Dump, others: Sequence[str], case: Case) -> Exception:
    more = f", and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return refused(
        dump.path,
        "none of its names means a tap",
        f"names of the golden's taps, as {', '.join(names_of(case.golden)[:3])}, or a name map",
        f"{', '.join(shown(name) for name in others[:_SHOWN]) or 'no arrays'}{more}",
        'give a map with --names FILE: "their.{layer}.name" = "mlp.down_proj" on each line',
    )
