"""Biases left out, added twice or behind an activation: of a projection, of several, of a part of a fused one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.grammar.values import ACTIVATING
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, named, of_site, recorded_line, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.graph import Ref

_SHAPING = frozenset({"view", "unsafe_view", "reshape", "transpose"})
_CUTTING = frozenset({"split", "split_with_sizes", "slice", "select"})
_SLOTS = {"linear": 2, "addmm": 0}
"""Where projections have their bias."""
_MOST = 4
"""Projections of a module of which any several may lack their biases."""
_PARTS = (3, 2)
"""Projections that are fused: queries, keys and values, or two; a bias of keys alone changes nothing."""


def biases(region: Region) -> Iterator[Edit]:
    """Every projection that was recorded, or is in the region, without its bias or with it twice."""
    recorded, inside = dict[str, list[Site]](), dict[str, list[Site]]()
    for site, places in region.sites.items():
        node = region.network.graph.node(places[0])
        if node is not None and short(node.op) in ACTIVATING and bias_of(region, node.reads[0]) is not None:
            says = f"adds the bias of {named(region, node.reads[0])} behind {short(node.op)}, not before it"
            yield Edit("edit.moved", says, RARE, {site: _behind}, line_of(region, places[0]))
        if node is None or bias_of(region, places[0]) is None:
            continue
        if region.node(places[0]) is not None:
            if short(node.op) in _SLOTS:
                inside.setdefault(opened(node.module).rpartition(".")[0], []).append(site)
                yield from _of_part(region, site, f"leaves the bias of {{}} of {short(node.op)} out")
        elif not site.file:
            name, line = of_site(site), recorded_line(region, places[0])
            recorded.setdefault(site.op.rpartition(".")[0], []).append(site)
            for more, how in _HOW.items():
                says = f"reads {name} {how.format('its bias')}"
                yield Edit("edit.operand", says, PLAIN + 1, {site: with_biases(more)}, line)
            yield from _of_part(region, site, f"reads {name} without the bias of {{}}")
    for sites in recorded.values():
        yield from _of_several(region, sites)
    for module, sites in inside.items():
        if len(sites) > 1:
            says = f"leaves all {len(sites)} biases of {module.removeprefix('model.')} out"
            line = line_of(region, region.at(sites[0])[0])
            yield Edit("edit.left_out", says, RARE, dict.fromkeys(sites, with_biases(-1)), line)


_HOW = {-1: "without {}", 1: "with {} added twice"}


def _of_several(region: Region, sites: list[Site]) -> Iterator[Edit]:
    for count in range(len(sites), 1, -1) if len(sites) <= _MOST else ():
        for group in combinations(sites, count):
            *names, last = (of_site(site) for site in group)
            line = recorded_line(region, region.at(group[0])[0])
            for more, how in _HOW.items():
                says = f"reads {', '.join(names)} and {last} {how.format('their biases')}"
                yield Edit("edit.operand", says, PLAIN + 1, dict.fromkeys(group, with_biases(more)), line)


def _of_part(region: Region, site: Site, words: str) -> Iterator[Edit]:
    """Of a projection whose channels are cut the bias of one part alone."""
    value = region.at(site)[0]
    width = np.shape(region.base[value])[-1]
    for parts in _PARTS if _is_cut(region, value) else ():
        for part in range(parts if width % parts == 0 else 0):
            says = words.format(f"part {part} of {parts}")
            yield Edit("edit.left_out", says, RARE, {site: with_biases(-1, part, parts)}, line_of(region, value))


def _is_cut(region: Region, value: int) -> bool:
    users = [(user, node) for user in region.users.get(value, ()) if (node := region.node(user)) is not None]
    return any(
        short(node.op) in _CUTTING or (short(node.op) in _SHAPING and _is_cut(region, user)) for user, node in users
    )


def bias_of(region: Around, value: int) -> int | None:
    """The bias of the projection that gives a value, whatever shape it was brought into since."""
    node = region.network.graph.node(value)
    while node is not None and short(node.op) in _SHAPING and isinstance(node.operands[0], Ref):
        node = region.network.graph.node(node.operands[0].value)
    slot = _SLOTS.get("" if node is None else short(node.op))
    bias = node.operands[slot] if node is not None and slot is not None and len(node.operands) > slot else None
    return bias.value if isinstance(bias, Ref) else None


def _behind(call: Call) -> Array:
    """An activation with the bias of what it reads added to its result."""
    value = None if call.node is None else bias_of(call.region, call.node.reads[0])
    if value is None:
        raise ValueError("it has no bias here")
    bias = np.asarray(call.region.network.slices.leaves[value], np.float64)
    return np.asarray(call.plain(call.operands[0] - bias, *call.operands[1:]) + bias)


def with_biases(more: int, part: int = 0, parts: int = 1) -> Change:
    """A projection with its bias so many times more, in one of so many equal parts of its channels.

    Raises `ValueError` for one that has none.
    """

    def change(call: Call) -> Array:
        value = bias_of(call.region, call.value)
        if value is None:
            raise ValueError("it has no bias here")
        bias = np.asarray(call.region.network.slices.leaves[value], np.float64)
        here = np.arange(bias.size) * parts // bias.size == part
        return np.asarray(call.plain() + more * np.where(here, bias, 0))

    return change
