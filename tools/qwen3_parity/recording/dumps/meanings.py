"""Which tap a name of a dump means: by a name map, by Hugging Face's modules, by the names of taps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from qwen3_golden import ParityError, pattern_of
from qwen3_parity.recording.hugging_face import end_of, usual_rows
from qwen3_parity.recording.names import Named, Names, left_out, pattern_named, patterns_of_stack, says_all

READY: Mapping[str, Path] = {"llama.cpp": Path(__file__).with_name("llama_cpp.toml")}
"""Name maps that come along, by what they are called instead of a file."""

_LAYER = "{layer}"
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.:])")
_END = re.compile(r"(?P<path>.+?)[.:](?P<end>input|output)s?(\.(?P<number>\d+))?")
_STEP = re.compile(r"(?P<step>\d{1,6})\.(?P<rest>.+)")
_HEAD = Named("lm_head", ("logits",))


@dataclass(frozen=True)
class Meaning:
    """What a name says: the tap, or taps side by side, of an entry of a name map, the layer, and the forward.

    `laid_out`: by a name of Hugging Face's or of ours it has our order of axes, where its shape leaves that open.
    """

    entry: Named
    layer: str = ""
    step: int | None = None
    laid_out: bool = True

    @property
    def taps(self) -> tuple[str, ...]:
        """The taps' full names."""
        return tuple(pattern.replace(_LAYER, self.layer) for pattern in self.entry.patterns)


def is_input(name: str) -> bool:
    """Whether a name is what goes into a module."""
    match = _END.fullmatch(name)
    return match is not None and match["end"] == "input"


def ready(names: Names | None) -> Names | None:
    """A name map, where it is called by its name the file that comes along."""
    return READY.get(str(names), names) if isinstance(names, str | Path) else names


def general(name: str) -> str:
    """A name with {layer} in the place of its first number, which is not that of an input or output."""
    match = _END.fullmatch(name)
    path = match["path"] if match else name
    return _NUMBER.sub(_LAYER, path, count=1) + name[len(path) :]


def meanings(names: Iterable[str], named: Sequence[Named], stack: str) -> dict[str, Meaning]:
    """The meaning of each name that has one, by the entries of a name map where it names a tap.

    A name that the map leaves out means no tap: its meaning has none. "3.NAME" is the NAME of the forward 3 where
    "3.NAME" means nothing itself.
    """
    every = list(dict.fromkeys(names))
    rests = {name: match["rest"] for name in every if (match := _STEP.fullmatch(name))}
    known = _Known([*every, *rests.values()], named, stack)
    by_name = dict[str, Meaning]()
    for name in every:
        meaning = known.meaning(name)
        if meaning is None and name in rests and (rest := known.meaning(rests[name])) is not None:
            meaning = replace(rest, step=int(name.partition(".")[0]))
        if meaning is not None:
            by_name[name] = meaning
    return by_name


class _Known:
    """What names can mean in one dump."""

    def __init__(self, names: Sequence[str], named: Sequence[Named], stack: str) -> None:
        self.patterns = patterns_of_stack(stack)
        self.map = [(entry, _expression(entry.path)) for entry in named]
        self.is_all, out = says_all(named), left_out(named)
        usual = (
            ()
            if self.is_all
            else (entry for entry in _usual(names, stack) if (entry.path, entry.end, entry.number) not in out)
        )
        self.usual = {(entry.path, entry.end, entry.number): entry for entry in usual}

    def meaning(self, name: str) -> Meaning | None:
        """What a name means, None for nothing."""
        readings = [(name, "output", 0), *ends(name)]
        for path, end, number in readings:
            for entry, expression in self.map:
                match = expression.fullmatch(path) if (end, number) == (entry.end, entry.number) else None
                if match is not None:
                    return Meaning(entry, match.groupdict().get("layer", ""), laid_out=False)
        if self.is_all:
            return None
        pattern, layer = pattern_of(name), _layer(name)
        if pattern in self.patterns:
            return Meaning(Named(name, (pattern,)), layer)
        for path, end, number in reversed(readings):
            if usual := self.usual.get((general(path), end, number)):
                return Meaning(usual, _layer(path))
        try:
            pattern = pattern_named(general(name), self.patterns)
        except ParityError:
            return None
        if (_LAYER in pattern) != bool(layer):
            return None
        return Meaning(Named(name, (pattern,)), layer)


def ends(name: str) -> list[tuple[str, str, int]]:
    """The path, the end and its number in a name that says whether it goes in or comes out; empty for another."""
    match = _END.fullmatch(name)
    return [(match["path"], match["end"], int(match["number"] or 0))] if match else []


def _layer(path: str) -> str:
    match = _NUMBER.search(path)
    return match[0] if match else ""


def _expression(path: str) -> re.Pattern[str]:
    """What the names look like that a path of a map means, its layer a number."""
    first, *others = [re.escape(part) for part in path.split(_LAYER)]
    for number, part in enumerate(others):
        first += (r"(?P<layer>\d{1,6})" if number == 0 else r"(?P=layer)") + part
    return re.compile(first)


def _usual(names: Sequence[str], stack: str) -> list[Named]:
    """Hugging Face's modules among what a dump names."""
    paths = {general(path) for name in names for path, _, _ in [(name, "", 0), *ends(name)]}
    paths |= {path.removesuffix(".inv_freq") for path in paths}
    entries = [_HEAD] if stack == "decoder" else []
    for row in usual_rows(paths, stack):
        path = f"{row.module}.{row.row.buffer}" if row.row.buffer else row.module
        entries.append(Named(path, (row.pattern,), *end_of(row.row)))
    return entries


def nearest(name: str, stack: str) -> str:
    """The tap that a name without meaning is most like, empty for none."""
    patterns = patterns_of_stack(stack)
    last = {pattern.rpartition(".")[2]: pattern for pattern in patterns}
    match = _END.fullmatch(name)
    for word in reversed(re.findall(r"[A-Za-z_]+", match["path"] if match else name)):
        if close := get_close_matches(word, last, n=1, cutoff=0.7):
            return str(close[0])
    return ""
