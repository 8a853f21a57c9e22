"""Parts of a region that read one value and give another of its shape: modules, and lines with all that they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_parity.diagnosis.edits.edit import Around, Block, Site, opened
from qwen3_spec.graph import Node

_MOST = 80
"""Ops of a block that may be left out; a larger one is no part of a mistake."""
MODULE, LINE, LINES = "module", "line", "lines"
"""What a site of blocks has for its file: every module of a kind; a line; the lines of a function that are alike."""


def blocks(region: Around) -> dict[Site, list[Block]]:
    """Every block of a region by its sites, each with one site, of the deepest modules first."""
    sites = dict[Site, list[Block]]()
    fixed = _of_weights(region)
    for site, values in _parts(region):
        block = _block(region, values, fixed)
        if block is None:
            continue
        sites.setdefault(site, []).append(block)
        if site.file == LINE:
            ops = ",".join(node.op for value in block.values if (node := region.node(value)) is not None)
            sites.setdefault(Site(LINES, 0, site.op, (ops,)), []).append(block)
    first_site = dict[tuple[Block, ...], Site]()
    return {site: every for site, every in sites.items() if first_site.setdefault(tuple(every), site) == site}


def _parts(region: Around) -> Iterator[tuple[Site, list[int]]]:
    """The deepest modules first, then lines."""
    modules, lines = dict[str, list[int]](), dict[tuple[str, str, int, str], list[int]]()
    for value in region.order:
        node = region.node(value)
        path = "" if node is None else node.module
        while path:
            modules.setdefault(path, []).append(value)
            path = path.rpartition(".")[0]
        for line in () if node is None else node.lines:
            lines.setdefault((node.module if node else "", line.file, line.number, line.function), []).append(value)
    place = {value: number for number, value in enumerate(region.order)}
    for path, values in sorted(modules.items(), key=lambda pair: -pair[0].count(".")):
        yield from ((Site(MODULE, 0, opened(path)), run) for run in _runs(values, place))
    for (_, file, number, function), values in lines.items():
        yield from ((Site(LINE, number, f"{file}:{function}"), run) for run in _runs(values, place))


def _runs(values: list[int], place: Mapping[int, int]) -> Iterator[list[int]]:
    """Values that follow one another without another op of the region between: a step each, a call each."""
    run = list[int]()
    for value in values:
        if run and place[value] != place[run[-1]] + 1:
            yield run
            run = []
        run.append(value)
    yield run


def _of_weights(region: Around) -> frozenset[int]:
    """Values that follow from parameters alone: 1 + weight is computed in the first step, and read in every one."""
    fixed = set[int]()
    for value in region.order:
        reads = _node(region, value).reads
        if reads and all(read in fixed or read in region.parameters for read in reads):
            fixed.add(value)
    return frozenset(fixed)


def _block(region: Around, values: list[int], fixed: frozenset[int]) -> Block | None:
    inside = set(values)
    results = [
        value
        for value in values
        if value == region.value
        or (value not in fixed and any(user not in inside for user in region.users.get(value, ())))
    ]
    if len(results) != 1 or len(values) > _MOST:
        return None
    result = region.base[results[0]]
    if not isinstance(result, np.ndarray):  # several tensors
        return None
    shape = result.shape
    for value in values:
        for read in _node(region, value).reads:
            before = region.base.get(read)
            if read in inside or read in region.names or not isinstance(before, np.ndarray) or before.dtype.kind != "f":
                continue
            return Block(read, results[0], tuple(values)) if before.shape == shape else None
    return None


def _node(region: Around, value: int) -> Node:
    node = region.node(value)
    assert node is not None
    return node
