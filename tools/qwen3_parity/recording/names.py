"""Name maps: which tap, or taps, somebody's module or array holds, and how they are laid out there.

A map is a dict, or a TOML file, from the path of a module (or the name of an array) to the tap that comes out of it:

    "blocks.{layer}.attn.wo" = "o_proj"
    "blocks.{layer}.attn.wo:input" = "context"
    "blocks.{layer}.attn.wqkv" = { taps = ["q_proj", "k_proj", "v_proj"], groups = "kv_heads" }
    "blocks.{layer}.attn.q_norm" = { tap = "q_norm", axes = "query batch heads head_dim" }
    "lm_head:output.0" = "logits"

It says all that is taken. One that only leaves names out ("layers.{layer}" = "") leaves the others as they are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from qwen3_golden import Array, ParityError, pattern_of, place, refusals, table
from qwen3_golden.regular_file import open_regular
from qwen3_parity.judge.spoken import as_filed
from qwen3_parity.recording.layout import parse_axes, split, split_axes, width_of

_refused = refusals("correct the name map")

Names = Mapping[str, Any] | str | Path
"""A name map, or the TOML file of one."""

_KEY = re.compile(r"(?P<path>[^:]*)(:(?P<end>input|output)(\.(?P<number>\d+))?)?")
_FIELDS = {"tap", "taps", "axes", "groups"}
_LAYER = "{layer}"


@dataclass(frozen=True)
class Named:
    """What a module gives (`end` "output") or is given ("input"): the patterns of its taps, in the order they stand.

    None of them: it is left out. `axes` are those of what it gives, slowest first, empty where shapes tell; `groups` as
    in `layout.split`, an axis.
    """

    path: str
    patterns: tuple[str, ...]
    end: str = "output"
    number: int = 0
    axes: tuple[str, ...] = ()
    groups: str = ""

    @property
    def key(self) -> str:
        """As it is written in a map."""
        number = f".{self.number}" if self.number else ""
        return f"{self.path}:{self.end}{number}" if self.end == "input" or number else self.path


def pattern_named(name: str, patterns: Iterable[str]) -> str:
    """The pattern that a short name means: "q_proj", "layers.{layer}.output", "mlp.act"; `ParityError` for none or two.

    The words of a short name stand in the pattern in this order, the last one at its end.
    """
    known = list(patterns)
    if name in known:
        return name
    words = name.split(".")
    fits = next(filter(None, (_fitting(filed.split("."), known) for filed in as_filed([name]))), [])
    if len(fits) == 1:
        return fits[0]
    last = [pattern.rpartition(".")[2] for pattern in known]
    close = get_close_matches(words[-1], last, n=1)
    raise ParityError(
        name,
        "more than one tap is called so" if fits else "there is no tap of this name",
        expected=" or ".join(fits)
        if fits
        else f"the nearest there is: {known[last.index(close[0])] if close else 'none'}",
        got=name,
        next_step="write the tap's name as golden/taps.textproto has it",
    )


def _fitting(words: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The patterns in which these words stand in this order, the last one at the end."""
    return [
        pattern for pattern in patterns if pattern.split(".")[-1] == words[-1] and _in_order(words, pattern.split("."))
    ]


def _in_order(words: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(word in rest for word in words)


def tap_named(name: str, patterns: Iterable[str]) -> str:
    """The full name of a tap from a short one with its layer filled in: "layers.0.q_proj"; `ParityError` for none."""
    pattern = pattern_named(re.sub(r"(?<![^.])\d+(?![^.])", _LAYER, name), patterns)
    layer = re.search(r"(?<![^.])\d+(?![^.])", name)
    if _LAYER in pattern and layer is None:
        raise ParityError(
            name,
            "each layer has a tap of this name",
            expected=f"layers.0.{name.rpartition('.')[2]}, and so on",
            got=name,
            next_step="say which layer",
        )
    return pattern.replace(_LAYER, layer[0]) if layer else pattern


def patterns_of_stack(stack: str) -> tuple[str, ...]:
    """The patterns that a forward of "encoder" or "decoder" may have, in network order."""
    results = ("logits", "generated_ids", "next_token_probs") if stack == "decoder" else ()
    return tuple(row.pattern for row in table() if row.pattern.startswith(f"{stack}.") or row.pattern in results)


def name_map(names: Names, stack: str) -> list[Named]:
    """The entries of a map; raises `ParityError` for one that says nothing, or what another one says already."""
    where = "names" if isinstance(names, Mapping) else str(names)
    known, entries, owners = patterns_of_stack(stack), list[Named](), dict[str, str]()
    for key, value in read_entries(names).items():
        entry = _named(f"{where}[{key!r}]", key, value, known)
        for pattern in entry.patterns:
            if pattern in owners:
                raise _refused(
                    f"{where}[{key!r}]", f"{pattern} has one place already", "each tap once", owners[pattern]
                )
            owners[pattern] = key
        entries.append(entry)
    return entries


def part_of(entry: Named, pattern: str, array: Array, where: str, sizes: Mapping[str, int]) -> Array:
    """The part of a fused tensor that is one of an entry's taps; raises `ParityError` for widths that do not add up.

    `sizes` are those of the axes, see `layout.sizes_of`.
    """
    axes = [split_axes(name, _axes(name)) for name in entry.patterns]
    widths = [width_of(pattern_axes, sizes) for pattern_axes in axes]
    said = [f"{name.rpartition('.')[2]} {width}" for name, width in zip(entry.patterns, widths, strict=True)]
    try:
        parts = split(array, widths, sizes[entry.groups] if entry.groups else 1)
    except (ValueError, KeyError) as error:
        raise ParityError(
            where,
            "the taps of this module do not make up what comes out of it",
            expected=f"{' + '.join(said)} = {sum(widths)} on its last axis ({error})",
            got=f"shape {list(array.shape)}",
            next_step='list the taps in the order in which they stand, and groups = "kv_heads" if they take turns',
        ) from None
    return parts[entry.patterns.index(pattern)]


def _axes(pattern: str) -> Sequence[str]:
    tap_place = place(pattern.replace(_LAYER, "0"))
    return tap_place.axes if tap_place else ()


def read_entries(names: Names) -> dict[str, Any]:
    """What a map says, by its keys; raises `ParityError` for a file that cannot be read."""
    if isinstance(names, Mapping):
        return dict(names)
    path = Path(names)
    try:
        with open_regular(path) as file:
            return tomllib.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise _refused(path, "the name map cannot be read", "a TOML file", error.strerror) from None
    except (ValueError, RecursionError) as error:  # TOML's and UTF-8's own
        raise _refused(path, "this is no TOML", '"path.of.{layer}.module" = "tap" on each line', error) from None


def says_all(named: Iterable[Named]) -> bool:
    """Whether a map names a tap: then nothing else is taken, whatever it is called."""
    return any(entry.patterns for entry in named)


def left_out(named: Iterable[Named]) -> frozenset[tuple[str, str, int]]:
    """What a map leaves out: path, end and number of each such entry."""
    return frozenset((entry.path, entry.end, entry.number) for entry in named if not entry.patterns)


def entry_of(where: str, key: str, value: Any) -> Named:
    """An entry of a map with its taps as they are written there; raises `ParityError` for one that says nothing."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise _refused(where, "this is no module", "PATH, PATH:input or PATH:output.1", key)
    if value == "":
        return Named(match["path"], (), match["end"] or "output", int(match["number"] or 0))
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"taps": value}
    taps: Any = fields.get("taps", fields.get("tap", ()))
    taps = [taps] if isinstance(taps, str) else taps
    strings = isinstance(taps, list) and taps and all(isinstance(tap, str) for tap in taps)
    texts = all(isinstance(fields.get(name, ""), str) for name in ("axes", "groups"))
    if not strings or not texts or not fields.keys() <= _FIELDS:
        expected = (
            '"q_proj", ["q_proj", "k_proj", "v_proj"], { tap = …, axes = "batch heads query head_dim" }, or "" for none'
        )
        raise _refused(where, "this says no tap", expected, value)
    axes, groups = parse_axes(str(fields.get("axes", ""))), fields.get("groups", "")
    return Named(match["path"], tuple(taps), match["end"] or "output", int(match["number"] or 0), axes, groups)


def _named(where: str, key: str, value: Any, known: Sequence[str]) -> Named:
    entry = entry_of(where, key, value)
    patterns = tuple(pattern_named(pattern_of(tap.replace("*", _LAYER)), known) for tap in entry.patterns)
    for pattern in patterns:
        if (_LAYER in pattern) != (_LAYER in entry.path):
            raise _refused(
                where, f"{pattern}: a layer's number on one side alone", f"{_LAYER} in both, or in neither", key
            )
    return replace(entry, patterns=patterns)
