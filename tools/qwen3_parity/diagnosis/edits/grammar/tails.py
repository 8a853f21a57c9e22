"""What stands behind the last whole block of an axis left undone: channels, rows or keys that are zeros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, Written
from qwen3_parity.diagnosis.edits.grammar.values import ACTIVATING
from qwen3_parity.diagnosis.edits.modules import read_before
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, of_site, recorded_line, short
from qwen3_parity.mistakes.ranks import RARE

_SIZES = (8, 16, 32, 64, 128, 256)
"""What people work through at once."""
_RESULTS = frozenset({"mul", "linear", "addmm", "matmul", "bmm", "softmax"})
_PRODUCTS = frozenset({"linear", "matmul", "bmm"})
_AXES = ((-1, "channels"), (-2, "rows"))
_TIMES = frozenset({"matmul", "bmm", "softmax"})
"""Ops whose last axis may be keys, which every step has more of."""


def tails(region: Region) -> Iterator[Edit]:
    """Every product, what it sums over, every recorded value and every activation, but for the last whole block."""
    for site, places in reversed(region.sites.items()):
        node, base = region.node(places[0]), region.base[places[0]]
        if not isinstance(base, np.ndarray) or base.dtype.kind != "f" or base.ndim < 2:
            continue
        op, line = "" if node is None else short(node.op), line_of(region, places[0])
        if node is None and not site.file and places[0] not in region.names:
            line = recorded_line(region, places[0])
            yield from _of_result(site, base, of_site(site), line)
            yield from _of_module(region, site, base, line)
        elif op in _RESULTS:
            yield from _of_result(site, base, f"the result of {op}", line)
        elif op in ACTIVATING:
            yield from _undone(site, base, op, line, lambda call: np.asarray(call.operands[0]))
        if node is not None and op in _PRODUCTS:
            inner = np.shape(region.base[node.reads[0]])[-1]
            for size, words in _cut(inner, together=op == "linear"):
                says = f"leaves out channels {words.format(of=f'what {op} reads')}"
                yield Edit("edit.left_out", says, RARE, {site: _of_summed(size)}, line)


def _of_result(site: Site, base: Array, of: str, line: Written | None) -> Iterator[Edit]:
    op = short(site.op) if site.file or site.module else ""
    for axis, along in _AXES:
        along = "keys" if op == "softmax" and axis == -1 else along
        for size, words in _cut(base.shape[axis], together=axis == -1 and op not in _TIMES):
            says = f"leaves out {along} {words.format(of=of)}"
            yield Edit("edit.left_out", says, RARE, {site: _zeros(size, axis)}, line)


def _of_module(region: Region, site: Site, base: Array, line: Written | None) -> Iterator[Edit]:
    """What a recorded module reads in the place of what it gives."""

    def reads(call: Call) -> Array:
        before = read_before(call.region, call.value)
        if before is None:
            raise ValueError("no module reads and gives one shape here")
        return before[1]

    before = read_before(region, region.at(site)[0])
    if before is not None:
        yield from _undone(site, base, before[0].removeprefix("model."), line, reads)


def _undone(site: Site, base: Array, name: str, line: Written | None, reads: Change) -> Iterator[Edit]:
    """What does not run on the channels behind the last whole block: they stay as they are read."""
    for size, words in _cut(base.shape[-1], together=True):
        says = f"leaves {name} out for channels {words.format(of='what it reads')}"
        yield Edit("edit.left_out", says, RARE, {site: _but_for(size, reads)}, line)


def _cut(length: int, *, together: bool) -> Iterator[tuple[int, str]]:
    """Sizes of blocks that do not fill a length, the smaller ones first; those that leave the same out `together`."""
    by_begin = dict[int, list[int]]()
    for size in _SIZES:
        if length % size and length > size:
            by_begin.setdefault(length // size * size, []).append(size)
    for begin, sizes in by_begin.items():
        for alike in [sizes] if together else [[size] for size in sizes]:
            yield alike[0], f"{_ranged(begin, length)} of {{of}}, behind the last whole {_either(alike)}"


def _ranged(begin: int, end: int) -> str:
    return f"{begin} to {end - 1}" if begin < end - 1 else f"{begin}"


def _either(sizes: Sequence[int]) -> str:
    return " or ".join(map(str, sizes))


def _zeros(size: int, axis: int) -> Change:
    return lambda call: _without_tail(np.asarray(call.plain()), size, axis)


def _but_for(size: int, reads: Change) -> Change:
    def change(call: Call) -> Array:
        x = np.asarray(call.plain())
        return np.where(np.arange(x.shape[-1]) < x.shape[-1] // size * size, x, reads(call))

    return change


def _of_summed(size: int) -> Change:
    return lambda call: call.plain(_without_tail(np.asarray(call.operands[0]), size, -1), *call.operands[1:])


def _without_tail(x: Array, size: int, axis: int) -> Array:
    whole = x.shape[axis] // size * size
    done = np.arange(x.shape[axis]) < whole
    return np.where(done if axis == -1 else done[:, None], x, 0.0)
