"""RoPE that does not turn what a line turns, or turns it the other way, however the line is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.source import assigned
from qwen3_spec.graph import Ref

_HANDED_ON = frozenset(
    {
        *(
            "slice",
            "unsqueeze",
            "squeeze",
            "view",
            "expand",
            "to_copy",
            "type_as",
            "clone",
            "getitem",
            "select",
            "index",
        ),
        *("transpose", "permute", "reshape", "unsafe_view", "repeat_interleave", "cat", "stack", "mul", "gather"),
    }
)
"""What may stand between cos or sin and the product with it: of several operands the first."""
_FARTHEST = 12
_STILL = "does not rotate {}"
_BEHIND_CACHE = "keeps keys unturned in the cache, and turns all of them by the newest position"


def unturned(region: Region) -> Iterator[Edit]:
    """Every line that multiplies with cos and with sin, by angles of 0 and by negative ones; then all such lines."""
    lines = dict[tuple[str, int], dict[str, list[tuple[Site, int]]]]()
    for site, places in region.sites.items():
        node = region.node(places[0])
        if node is None or short(node.op) != "mul" or not site.file:
            continue
        for slot, operand in enumerate(node.operands[:2]):
            table = _table(region, operand)
            if table and isinstance(node.operands[1 - slot], Ref):
                lines.setdefault((site.file, site.number), {}).setdefault(table, []).append((site, slot))
                break
    turning = {at: products for at, products in lines.items() if len(products) == 2}
    every = dict[str, tuple[dict[Site, Change], list[str], Edit]]()
    for products in turning.values():
        line = line_of(region, region.at(products["cos"][0][0])[0])
        name = "" if line is None else assigned(line.line, region.network.golden).partition(" ")[0]
        for words, changes in _of(products).items():
            edit = Edit("edit.rotation", f"{words.format(name or 'it')}", PLAIN + 1, changes, line)
            together = every.setdefault(words, ({}, [], edit))
            together[0].update(changes)
            together[1].append(name)
            yield edit
    for words, (changes, names, edit) in every.items():
        if len(names) > 1 and all(names):
            says, rank = words.format(" and ".join(dict.fromkeys(names))), PLAIN + 1
            if words == _STILL and region.key[1]:  # one angle for a query and all keys turns neither against the other
                says, rank = _BEHIND_CACHE, PLAIN
            yield Edit("edit.rotation", says, rank, changes, edit.line)


def _of(products: Mapping[str, list[tuple[Site, int]]]) -> dict[str, dict[Site, Change]]:
    """Changes of a line's products, by what is said of its result."""
    unmoved: dict[Site, Change] = {site: _beside(slot) for site, slot in products["cos"]}
    return {
        _STILL: {**unmoved, **{site: _nothing for site, _ in products["sin"]}},
        "rotates {} the other way": {site: _negated for site, _ in products["sin"]},
    }


def _table(region: Region, operand: object) -> str:
    """Which of "cos" and "sin" an operand is; empty for neither."""
    graph = region.network.graph
    for _ in range(_FARTHEST):
        node = graph.node(operand.value) if isinstance(operand, Ref) else None
        if node is None:
            return ""
        if short(node.op) in ("cos", "sin"):
            return short(node.op)
        if short(node.op) not in _HANDED_ON or not node.reads:
            return ""
        operand = Ref(node.reads[0])
    return ""


def _beside(slot: int) -> Change:
    return lambda call: np.broadcast_to(call.operands[1 - slot], np.shape(call.plain()))


def _nothing(call: Call) -> Array:
    return np.zeros_like(call.plain())


def _negated(call: Call) -> Array:
    return np.asarray(-call.plain())
