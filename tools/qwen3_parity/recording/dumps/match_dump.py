"""Which array of a dump is which tap: proposed from its numbers, as for the modules of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from qwen3_golden import Array, pattern_of, pb, to_float32
from qwen3_golden.dtypes import FLOATS
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.dumps.dump import Dumped, refused
from qwen3_parity.recording.dumps.formats import read_dump
from qwen3_parity.recording.dumps.given import is_given
from qwen3_parity.recording.dumps.meanings import ends
from qwen3_parity.recording.matches import LAYER, Match, Matched, Observed, Taps, by_numbers, by_place, no_table

_TABLES = ("inv_freq", "cos", "sin")
_FORWARD = re.compile(r"(\d{1,6})\.(.+)")


def match_dump(path: Path, case: Case) -> tuple[list[Match], list[str]]:
    """The proposed entries of a name map for a dump, in network order, and the taps for which there is none.

    Its first forward is looked at, over all slots or those of the prefill. Raises `ParityError` for a dump that cannot
    be read, and for a case that is not of one stack of layers.
    """
    if case.is_graph:
        raise no_table(case)
    if case.golden.case.mode not in (pb.ENCODER, pb.CAUSAL):
        rule = "names of a dump are matched on a case of one stack of layers"
        expected = "a case of decoder/*, llama/* or encoder/*"
        raise refused(case.name, rule, expected, pb.Mode.Name(case.golden.case.mode), "choose another case")
    with ExitStack() as opened:
        places = _places(read_dump(path, opened).arrays, case.golden.case.config.num_hidden_layers)
    both = [_matched(Taps(case), places), _matched(Taps(case, [0]), places)]
    return max(both, key=lambda proposal: sum(len(match.named.patterns) for match in proposal[0]))


def _matched(taps: Taps, places: Sequence[Observed]) -> tuple[list[Match], list[str]]:
    golden = taps.case.golden
    floats = [item for item in golden if item.is_float and "query" in item.info.axes and item.info.op not in _TABLES]
    taps.patterns = list(dict.fromkeys(pattern_of(t.info.name) for t in floats if not t.info.name.startswith(GIVEN)))
    matched = Matched()
    matched.take(by_numbers(taps, places))
    matched.take(by_place(taps, places, matched))
    return matched.proposed(taps)


def _places(arrays: Sequence[Dumped], layers: int) -> list[Observed]:
    """The arrays of the first forward by their names, those of the layers together."""
    first = [(name, dumped) for name, dumped in _first_forward(arrays) if dumped.dtype in FLOATS]
    general = _by_layers([name for name, _ in first], layers)
    places = dict[tuple[str, str, int], Observed]()
    for name, dumped in first:
        path, layer = general[name]
        place = next(iter(ends(path)), (path, "output", 0))
        observed = places.setdefault(place, Observed(*place, leaf=True, turn=len(places)))
        observed.arrays[layer] = _values(dumped)
    return list(places.values())


def _first_forward(arrays: Sequence[Dumped]) -> Iterator[tuple[str, Dumped]]:
    """The arrays of the first forward with their names in it; "3.NAME" is NAME in the forward 3 where all are so."""
    every = [dumped for dumped in arrays if not is_given(dumped.name)]
    numbered = [_FORWARD.fullmatch(dumped.name) for dumped in every]
    if all(numbered) and not any(dumped.forward for dumped in every):
        least = min((int(match[1]) for match in numbered if match), default=0)
        yield from ((m[2], dumped) for m, dumped in zip(numbered, every, strict=True) if m and int(m[1]) == least)
        return
    least = min((dumped.forward for dumped in every), default=0)
    yield from ((dumped.name, dumped) for dumped in every if dumped.forward == least)


def _by_layers(names: Sequence[str], layers: int) -> dict[str, tuple[str, int]]:
    """Each name with {layer} in the place of that number of it which goes through all layers, and its layer."""
    there, known = set(names), dict[str, tuple[str, int]]()
    for name in names:
        known[name] = name, 0
        for number in re.finditer(r"\d+", name):
            before, behind = name[: number.start()], name[number.end() :]
            if int(number[0]) < layers and all(f"{before}{layer}{behind}" in there for layer in range(layers)):
                known[name] = f"{before}{LAYER}{behind}", int(number[0])
                break
    return known


def _values(dumped: Dumped) -> Array:
    array = dumped.load()
    return to_float32(array) if dumped.dtype == pb.BF16 else array.astype(np.float32, copy=False)
