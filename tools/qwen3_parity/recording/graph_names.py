"""Name maps of goldens with a graph: which module, or array, of somebody's holds which module's tap.

    "blocks.{layer}.attn.wo" = "model.layers.{layer}.self_attn.o_proj"
    "blocks.{layer}.attn.wo:input" = { tap = "self_attn.context", axes = "batch query (heads head_dim)" }
    "blocks.{layer}.attn.wqkv" = ["q_proj", "k_proj", "v_proj"]
    "blocks.{layer}.attn.cache" = ""

As `recording.names`, but nothing is known of a network: `axes` calls channels whatever it likes, `groups` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from qwen3_golden import Array, ParityError, Recording, refusals
from qwen3_parity.recording.graph_taps import LAYER, general, meant_by, names_of
from qwen3_parity.recording.layout import split
from qwen3_parity.recording.names import Named, Names, entry_of, read_entries, says_all
from qwen3_parity.recording.tap_axes import parse_groups

_refused = refusals("correct the name map")


class Entry(NamedTuple):
    """An entry of a map; its taps may be those of every layer. `order` are the axes of what a module gives."""

    named: Named
    order: tuple[str, ...]
    groups: int

    @property
    def key(self) -> str:
        """As a message calls it."""
        return f"names[{self.named.key!r}]"


def graph_map(names: Names | None, golden: Recording) -> list[Entry]:
    """The entries of a map; raises `ParityError` for one that names no tap of the golden, or what another one names.

    Layers of several kinds may have an entry each for the same tap: `each_once` looks at the layers that there are.
    """
    where = "names" if names is None or isinstance(names, Mapping) else str(names)
    known, owners, entries = names_of(golden), dict[str, str](), list[Entry]()
    patterns = list(dict.fromkeys(general(name) for name in known))
    for key, value in ({} if names is None else read_entries(names)).items():
        place = f"{where}[{key!r}]"
        entry = entry_of(place, key.replace("*", LAYER), value)
        axes = value.get("axes", "") if isinstance(value, Mapping) else ""
        taps = tuple(_pattern(place, pattern.replace("*", LAYER), known, patterns) for pattern in entry.patterns)
        for tap in taps:
            if tap in owners and LAYER not in tap:
                raise _refused(place, f"{tap} has one place already", "each tap once", owners[tap])
            if (LAYER in tap) != (LAYER in entry.path):
                raise _refused(
                    place, f"{tap}: a layer's number on one side alone", f"{LAYER} in both, or in neither", key
                )
            owners[tap] = key
        entries.append(Entry(replace(entry, patterns=taps), parse_groups(axes), _groups(place, entry.groups)))
    return entries


def _groups(where: str, text: str) -> int:
    if not text:
        return 1
    if re.fullmatch(r"[1-9]\d{0,5}", text) is None:
        raise _refused(where, "this says no number of groups", 'groups = "8", as many as there are KV heads', text)
    return int(text)


def _pattern(where: str, name: str, known: Sequence[str], patterns: Sequence[str]) -> str:
    """The tap, or the pattern of taps, that a name in a map means."""
    if name in known or name in patterns:
        return name
    fits = meant_by(name, patterns)
    if len(fits) == 1:
        return fits[0]
    rule = "more than one tap of the golden is called so" if fits else "the golden has no tap of this name"
    near = fits or get_close_matches(name, patterns, n=4, cutoff=0.3) or patterns
    raise _refused(where, f"{name}: {rule}", f"one of its {len(patterns)}, as {', '.join(near[:4])}", name)


def is_all(entries: Sequence[Entry]) -> bool:
    """Whether a map names a tap: then nothing else is taken, whatever it is called."""
    return says_all(entry.named for entry in entries)


def in_layers(entry: Entry, paths: Iterable[str], golden: Recording) -> list[tuple[str, Entry]]:
    """The paths that an entry means among those that there are, each with the entry of that layer's taps alone.

    Taps that the golden does not have in a layer are left out.
    """
    first, *others = [re.escape(part) for part in entry.named.path.split(LAYER)]
    for number, part in enumerate(others):
        first += (r"(?P<layer>\d{1,6})" if number == 0 else r"(?P=layer)") + part
    steps, layer_entries = range(len(golden.case.steps)), list[tuple[str, Entry]]()
    for path in paths:
        match = re.fullmatch(first, path)
        if match is None:
            continue
        taps = tuple(pattern.replace(LAYER, match.groupdict().get("layer", "")) for pattern in entry.named.patterns)
        if not taps or any((tap, step) in golden for tap in taps for step in steps):
            layer_entries.append((path, entry._replace(named=replace(entry.named, path=path, patterns=taps))))
    return layer_entries


def each_once(layers: Sequence[tuple[str, Entry]]) -> Sequence[tuple[str, Entry]]:
    """The paths with their entries, each of one layer; raises `ParityError` where two of them are the same tap."""
    owners = dict[str, tuple[str, str, int]]()
    for path, entry in layers:
        place = path, entry.named.end, entry.named.number
        for tap in entry.named.patterns:
            if owners.setdefault(tap, place) != place:
                raise _refused(entry.key, f"{tap} has one place already", "each tap once", owners[tap][0])
    return layers


def parts_of_fused(entry: Entry, widths: Sequence[int], array: Array, where: str) -> list[Array]:
    """The taps that stand side by side in what a module gives; raises `ParityError` for widths that do not add up.

    `widths` are how many numbers each tap has at one position.
    """
    if len(widths) == 1:
        return [array]
    try:
        return split(array, widths, entry.groups)
    except ValueError as error:
        said = [f"{tap.rpartition('.')[2]} {width}" for tap, width in zip(entry.named.patterns, widths, strict=True)]
        raise ParityError(
            where,
            "the taps of this module do not make up what comes out of it",
            expected=f"{' + '.join(said)} = {sum(widths)} on its last axis ({error})",
            got=f"shape {list(array.shape)}",
            next_step='list the taps in the order in which they stand, and groups = "8" if they take turns in 8 groups',
        ) from None
