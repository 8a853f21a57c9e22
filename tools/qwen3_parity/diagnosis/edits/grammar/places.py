"""Values in each other's place, results of one module changed alike, axes that were not exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.grammar.layouts import halved, interleaved
from qwen3_parity.diagnosis.edits.nearest import nearest
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import called, line_of, of_site, recorded_line, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.graph import Node, Ref

_SHAPING = frozenset({"view", "unsafe_view", "reshape"})
_TURNING = frozenset({"transpose", "permute"})
_MOST = 150
"""Pairs of values that may stand in each other's place."""


def places(region: Region) -> Iterator[Edit]:
    """Every pair of values that are handed on, every module with several results, every shape that is changed."""
    yield from _exchanged(region)
    yield from _alike(region)
    for site, every in reversed(region.sites.items()):
        node = region.node(every[0])
        if node is not None and short(node.op) in _SHAPING:
            yield from _shapes(region, site, node, every[0])
        if node is not None and short(node.op) in _TURNING:
            says = "leaves the exchange of axes out, the numbers in its shape as they lie"
            yield Edit("edit.transposed", says, RARE, {site: _unturned}, line_of(region, every[0]))


def _handed_on(region: Region) -> Iterator[Site]:
    """Recorded values, and results that another function or module reads."""
    for site, values in region.sites.items():
        node, base = region.node(values[0]), region.base[values[0]]
        if not isinstance(base, np.ndarray) or base.dtype.kind != "f" or base.ndim < 2:
            continue
        if node is None:
            if values[0] not in region.names:
                yield site
            continue
        users = [user for each in region.users.get(values[0], ()) if (user := region.node(each)) is not None]
        if any(_function(user) != _function(node) for user in users):
            yield site


def _function(node: Node) -> tuple[str, str, str]:
    last = node.lines[-1] if node.lines else None
    return node.module, last.file if last else "", last.function if last else ""


def _exchanged(region: Region) -> Iterator[Edit]:
    """Two values that do not follow from one another, each for the other."""
    pairs = (pair for pair in combinations(_handed_on(region), 2) if _fit(region, *pair))
    for first, second in islice(pairs, _MOST):
        ours, theirs = region.at(first)[-1], region.at(second)[-1]
        says = f"has {called(region, ours)} and {called(region, theirs)} in each other's place"
        changes, line = {first: _of(second), second: _of(first)}, line_of(region, max(ours, theirs))
        yield Edit("edit.exchanged", says, RARE, changes, line)
        if _are_projected(region, ours, theirs):
            for former, latter in (((first, ours), (second, theirs)), ((second, theirs), (first, ours))):
                names = [called(region, value) for _, value in (former, latter)]
                for words, dealt in _DEALT.items() if np.shape(region.base[ours])[-1] % 2 == 0 else ():
                    parts = [_dealt(dealt, part, _of(former[0]), _of(latter[0])) for part in (0, 1)]
                    both = {former[0]: parts[0], latter[0]: parts[1]}
                    yield Edit("edit.order", words.format(*names), RARE, both, line)
    yield from _dealt_with_one_outside(region)


def _are_projected(region: Region, *values: int) -> bool:
    nodes = [region.network.graph.node(value) for value in values]
    return all(node is not None and short(node.op) in ("linear", "addmm") for node in nodes)


def _dealt_with_one_outside(region: Region) -> Iterator[Edit]:
    """As both, where the region reads one of two projections alone, as an activation does: the other is recorded."""
    recorded = region.network.slices.recorded
    beside = [name for name, x in region.sources.items() if x in recorded and _are_projected(region, x)]
    for site, values in region.sites.items():
        base = region.base[values[0]]
        if site.file or not isinstance(base, np.ndarray) or not base.ndim or base.shape[-1] % 2:
            continue
        for name in beside if _are_projected(region, values[0]) else ():
            is_another = region.sources[name] not in values and _module(site.op) == _module(name)
            if not is_another or np.shape(region.source(name)) != base.shape:
                continue
            names, line = (of_site(site), name.removeprefix("model.")), recorded_line(region, values[-1])
            for words, dealt in _DEALT.items():
                parts = [_plain, _source(name)]
                for part in (0, 1):
                    change = _dealt(dealt, part, *parts[:: 1 - 2 * part])
                    yield Edit("edit.order", words.format(*names[:: 1 - 2 * part]), RARE, {site: change}, line)


def _module(path: str) -> str:
    return opened(path).removeprefix("model.").rpartition(".")[0]


def _plain(call: Call) -> Array:
    return np.asarray(call.plain())


def _source(name: str) -> Change:
    return lambda call: call.region.source(name, call.numbers, np.shape(_plain(call)))


def _dealt(dealt: Callable[[Array, Array], tuple[Array, Array]], part: int, first: Change, second: Change) -> Change:
    return lambda call: dealt(np.asarray(first(call)), np.asarray(second(call)))[part]


def _by_halves(first: Array, second: Array) -> tuple[Array, Array]:
    (a, c), (b, d) = (np.split(x, 2, -1) for x in (first, second))
    return np.concatenate([a, b], -1), np.concatenate([c, d], -1)


def _by_twos(first: Array, second: Array) -> tuple[Array, Array]:
    both = np.concatenate([first, second], -1)
    return both[..., ::2], both[..., 1::2]


def _by_neighbours(first: Array, second: Array) -> tuple[Array, Array]:
    ours, theirs = np.split(np.stack([first, second], -1).reshape(*first.shape[:-1], -1), 2, -1)
    return ours, theirs


def _fit(region: Region, first: Site, second: Site) -> bool:
    """Whether two values have one shape, stand as often, and neither follows from the other."""
    ours, theirs = region.at(first), region.at(second)
    return (
        len(ours) == len(theirs)
        and np.shape(region.base[ours[0]]) == np.shape(region.base[theirs[0]])
        and theirs[-1] not in region.downstream(ours)
        and ours[-1] not in region.downstream(theirs)
    )


def _of(site: Site) -> Change:
    """The value of a site in the same place: a recorded one's, or the nearest of the layer."""

    def change(call: Call) -> Array:
        every, here = call.region.at(site), call.region.at(call.site)
        if len(every) == len(here):
            return call.numbers.lifted(np.asarray(call.before[every[here.index(call.value)]]))
        return call.numbers.lifted(nearest(call, site))

    return change


def _alike(region: Region) -> Iterator[Edit]:
    """All recorded results of one module, such as cosines and sines, changed in one way."""
    groups = dict[str, list[Site]]()
    for site, values in region.sites.items():
        if not site.file and region.node(values[0]) is None and values[0] not in region.names:
            base = region.base[values[0]]
            if isinstance(base, np.ndarray) and base.dtype.kind == "f" and base.ndim > 1:
                groups.setdefault(site.op.partition("[")[0], []).append(site)
    for sites in groups.values():
        base = region.base[region.at(sites[0])[0]]
        if len(sites) < 2 or any(np.shape(region.base[region.at(site)[0]]) != np.shape(base) for site in sites):
            continue
        whose = " and ".join(of_site(site) for site in sites)
        line = line_of(region, region.at(sites[0])[0])
        for axis, size in enumerate(np.shape(base)):
            for says, function in _MOVED.items() if size > 1 else ():
                if size % 2 == 0 or function in _OF_ANY_SIZE:
                    words = f"{says.format(whose)} along axis {axis}"
                    yield Edit("edit.order", words, RARE, dict.fromkeys(sites, _along(function, axis)), line)


def _along(function: Callable[[Array, int], Array], axis: int) -> Change:
    return lambda call: function(np.asarray(call.operands[0]), axis)


_DEALT: Mapping[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "has the first halves of {} and {} in the place of the former, the second halves in that of the latter": _by_halves,
    "takes {} and {} as if they lay interleaved: every second channel of the two joined for each": _by_twos,
    "takes {} and {} as if they lay in halves, where they lie interleaved": _by_neighbours,
}
"""Two results of one product cut otherwise than they were joined, in words."""
_MOVED: Mapping[str, Callable[[Array, int], Array]] = {
    "has {} reversed": np.flip,
    "has {} of the index before": lambda x, axis: np.roll(x, 1, axis),
    "has {} of the index behind": lambda x, axis: np.roll(x, -1, axis),
    "has the halves of {} in turns, as pairs": interleaved,
    "has the pairs of {} in halves": halved,
    "has the halves of {} exchanged": lambda x, axis: np.roll(x, x.shape[axis] // 2, axis),
}
_OF_ANY_SIZE = [*_MOVED.values()][:3]


def _shapes(region: Region, site: Site, node: Node, value: int) -> Iterator[Edit]:
    source = node.operands[0]
    if not isinstance(source, Ref):
        return
    before: tuple[int, ...] = np.shape(region.base[source.value])
    after: tuple[int, ...] = np.shape(region.base[value])
    line = line_of(region, value)
    if len(before) == len(after) + 1 and before[2:] == after[1:] and min(before[:2]) > 1:
        says = f"joins rows of {before[0]} × {before[1]} in the order of {before[1]} × {before[0]}"
        yield Edit("edit.transposed", says, RARE, {site: _rows_transposed}, line)
    if len(after) == len(before) + 1 and after[:-2] == before[:-1] and min(after[-2:]) > 1:
        says = f"cuts channels into {after[-1]} × {after[-2]} and transposes, where {after[-2]} × {after[-1]} are meant"
        yield Edit("edit.transposed", says, RARE, {site: _cut_transposed}, line)
    if len(before) == len(after) + 1 and before[:-2] == after[:-1] and min(before[-2:]) > 1:
        says = f"joins channels of {before[-2]} × {before[-1]} in the order of {before[-1]} × {before[-2]}"
        yield Edit("edit.transposed", says, RARE, {site: _joined_transposed}, line)


def _unturned(call: Call) -> Array:
    return np.reshape(np.asarray(call.operands[0]), np.shape(call.plain()))


def _cut_transposed(call: Call) -> Array:
    x, (rows, columns) = np.asarray(call.operands[0]), np.shape(call.plain())[-2:]
    return np.swapaxes(x.reshape(*x.shape[:-1], columns, rows), -1, -2)


def _rows_transposed(call: Call) -> Array:
    return np.swapaxes(np.asarray(call.operands[0]), 0, 1).reshape(np.shape(call.plain()))


def _joined_transposed(call: Call) -> Array:
    return np.swapaxes(np.asarray(call.operands[0]), -1, -2).reshape(np.shape(call.plain()))
