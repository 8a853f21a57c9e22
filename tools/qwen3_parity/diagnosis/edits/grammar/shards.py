"""What processes share: a product without the sums of other shards, rows of a vocabulary that a shard does not have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import RARE

_PRODUCTS = frozenset({"linear", "addmm", "bmm"})
"""Products with weights, an expert's among them."""
_COUNTS = (2, 4)
"""How many processes share a product."""
_PADDED = (1, 8, 16, 32, 64, 128)
"""What a shard's rows of a vocabulary are a multiple of."""


def shards(region: Region) -> Iterator[Edit]:
    """Every product with weights, summed over a part of its channels, and every embedding with rows of all shards."""
    yield from _vocabularies(region)
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        if node is None or short(node.op) not in _PRODUCTS:
            continue
        slot = 1 if short(node.op) == "addmm" else 0
        inner, line = np.shape(region.base[node.reads[slot]])[-1], line_of(region, places[0])
        for count in _COUNTS if inner > 1 else ():
            for part in range(count if inner % count == 0 else 0):
                of = f"part {part} of {count} of the channels that {short(node.op)} reads"
                says = f"sums over {of} alone: a shard's sums, without the others'"
                yield Edit("edit.shard", says, RARE, {site: _summed(slot, count, part, alone=True)}, line)
                if count > min(_COUNTS):
                    says = f"leaves {of} out: the sums of a shard"
                    yield Edit("edit.shard", says, RARE, {site: _summed(slot, count, part, alone=False)}, line)


def _summed(slot: int, count: int, part: int, *, alone: bool) -> Change:
    def change(call: Call) -> object:
        x = np.asarray(call.operands[slot])
        inside = np.arange(x.shape[-1]) * count // x.shape[-1] == part
        return call.plain(*call.operands[:slot], np.where(inside == alone, x, 0), *call.operands[slot + 1 :])

    return change


def _vocabularies(region: Region) -> Iterator[Edit]:
    """An embedding whose shards each add a row for every token, its own or not, as without a mask."""
    for site, places in region.sites.items():
        node = region.node(places[0])
        if node is None or short(node.op) != "embedding":
            continue
        rows, line = len(region.base[node.reads[0]]), line_of(region, places[0])
        sizes = {-(-rows // (count * padded)) * padded for count in _COUNTS for padded in _PADDED}
        for size in sorted(size for size in sizes if size < rows):
            for words, nearest in (("the first row", False), ("the nearest row", True)):
                says = f"adds {words} of every shard of {size} rows of the vocabulary that a token is not in"
                yield Edit("edit.shard", says, RARE + 1, {site: _unmasked(size, nearest=nearest)}, line)


def _unmasked(size: int, *, nearest: bool) -> Change:
    def change(call: Call) -> object:
        table, ids = (np.asarray(operand) for operand in call.operands[:2])
        total = np.asarray(call.plain())
        for begin in range(0, len(table), size):
            end = min(begin + size, len(table)) - 1
            row = np.clip(ids, begin, end) if nearest else np.full_like(ids, begin)
            outside = (ids < begin) | (ids > end)
            added = np.where(outside[..., None], call.plain(table, row, *call.operands[2:]), 0)
            total = call.numbers.rounded(total + added)
        return total

    return change
