"""Channels of a projection that holds several parts for each head: head by head for part by part, or the reverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, combinations, pairwise, permutations, product
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, Written
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.nearest import value_of
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import called, line_of, recorded_line, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_parity.slices.network import Network
from qwen3_spec.graph import Node, Ref

_MOST_PARTS = 4
"""The most parts of an axis that are exchanged."""


def fused(region: Region) -> Iterator[Edit]:
    """A projection's channels taken in the other order of heads and parts, or parts in each other's place."""
    yield from _by_index(region)
    yield from _by_split(region)
    yield from _by_slices(region)
    yield from _of_equal_parts(region)
    yield from _of_siblings(region)


def _heads(region: Region) -> list[int]:
    """The counts of heads, and how many stand in a group, as the network's config has them."""
    config = config_numbers(region.network.config)
    return sorted({int(count) for key, count in config.items() if "head" in key and "dim" not in key and count > 1})


class _Cut(NamedTuple):
    """The parts of `sizes` channels one after the other for each of `heads`, on an axis of their own or not."""

    sizes: tuple[int, ...]
    heads: int
    axis: int | None

    @property
    def says(self) -> str:
        parts = ", ".join(f"{self.heads} × {size}" for size in self.sizes)
        by_parts, by_heads = (
            f"part by part, {parts}",
            f"head by head, {self.heads} × ({' + '.join(map(str, self.sizes))})",
        )
        taken, lie = (by_heads, by_parts) if self.axis is None else (by_parts, by_heads)
        return f"takes channels as if they lay {taken}, where they lie {lie}"

    def parts(self, x: Array) -> tuple[Array, ...]:
        """The parts of a value as the other order has them, of the shapes that the right ones have."""
        bounds = [0, *accumulate(self.sizes)]
        if self.axis is None:
            by_heads = x.reshape(*x.shape[:-1], self.heads, -1)
            cut = (by_heads[..., start:stop] for start, stop in pairwise(bounds))
            return tuple(np.ascontiguousarray(part).reshape(*x.shape[:-1], -1) for part in cut)
        last = np.moveaxis(x, self.axis, -2)
        flat = np.ascontiguousarray(last).reshape(*last.shape[:-2], -1)
        cut = (flat[..., self.heads * start : self.heads * stop] for start, stop in pairwise(bounds))
        return tuple(np.moveaxis(part.reshape(*last.shape[:-1], -1), -2, self.axis) for part in cut)


def _cuts(region: Region, value: int, sizes: Sequence[int]) -> Iterator[_Cut]:
    """How the parts of a value's last axis may be mistaken: by the axis of heads before it, or by heads within them."""
    x = region.base[value]
    axis = _axis_of_heads(region, value)
    if axis is not None and x.shape[axis] > 1:
        yield _Cut(tuple(sizes), x.shape[axis], axis)
    elif axis is None:
        for heads in _heads(region):
            if all(size % heads == 0 and size > heads for size in sizes):
                yield _Cut(tuple(size // heads for size in sizes), heads, None)


def _axis_of_heads(region: Region, value: int) -> int | None:
    """The axis of heads of a value that is a view of channels, also where it stands elsewhere since; None of others."""
    node = region.node(value)
    axes = list(range(np.ndim(region.base[value])))
    if node is not None and short(node.op) == "transpose" and isinstance(node.operands[0], Ref):
        first, second = (int(axis) % len(axes) for axis in node.operands[1:3])
        axes[first], axes[second] = axes[second], axes[first]
        node = region.node(node.operands[0].value)
    if node is None or short(node.op) not in ("view", "unsafe_view", "reshape") or len(axes) < 3:
        return None
    begin = node.operands[0]
    flat = region.base.get(begin.value) if isinstance(begin, Ref) else None
    if axes[-1] != len(axes) - 1 or not isinstance(flat, np.ndarray) or flat.ndim != len(axes) - 1:
        return None
    return axes.index(len(axes) - 2)


def _by_index(region: Region) -> Iterator[Edit]:
    """Parts that are taken of one value by an index each: another one, or two in each other's place."""
    graph, done = region.network.graph, set[int]()
    for value in region.order:
        node, base = region.node(value), region.base[value]
        if node is None or short(node.op) != "select" or base.dtype.kind != "f" or node.reads[0] in done:
            continue
        done.add(node.reads[0])
        count = np.shape(region.base[node.reads[0]])[node.operands[1]]
        users = region.network.users[node.reads[0]].items() if count <= _MOST_PARTS else ()
        parts = {
            user.operands[2] % count: (part, site_of(user, graph))
            for part, user in users
            if user.op == node.op and user.operands[1] == node.operands[1] and isinstance(user.operands[2], int)
        }
        for low, high in combinations(sorted(parts), 2):
            (first, site), (second, partner) = parts[low], parts[high]
            changes = {site: _selected(high), partner: _selected(low)}
            names = f"{_name(region, first)} and {_name(region, second)}"
            says = f"has {names} in each other's place: parts {low} and {high} of {count}"
            here = [part for part in (first, second) if region.node(part) is not None]
            both = [Edit("edit.order", says, RARE, changes, line_of(region, part)) for part in here[:1]]
            yield from both if len(here) > 1 else ()
            for part in here:
                says = f"takes part {high if part == first else low} of {count} for {_name(region, part)}"
                at = site if part == first else partner
                yield Edit("edit.order", says, RARE, {at: changes[at]}, line_of(region, part))
            yield from both if len(here) == 1 else ()  # where the other one is read tells the two apart


def _name(region: Region, value: int) -> str:
    """What a part is called, of itself or with its axes in the order in which it is read."""
    users = region.network.users.get(value, {})
    moved = [user for user, node in users.items() if short(node.op) in ("transpose", "permute")]
    return called(region, moved[0] if len(users) == len(moved) == 1 else value)


def _selected(part: int) -> Change:
    return lambda call: call.plain(*call.operands[:2], part)


def _by_split(region: Region) -> Iterator[Edit]:
    for site, places in region.sites.items():
        node = region.node(places[0])
        if node is None or short(node.op) not in ("split_with_sizes", "split") or not isinstance(node.operands[0], Ref):
            continue
        base, x = region.base[places[0]], region.base[node.operands[0].value]
        if int((*node.operands, -1)[2]) % x.ndim != x.ndim - 1:
            continue
        for cut in _cuts(region, node.operands[0].value, [part.shape[-1] for part in base]):
            yield Edit("edit.order", cut.says, PLAIN + 1, {site: _split(cut)}, line_of(region, places[0]))


def _split(cut: _Cut) -> Change:
    return lambda call: cut.parts(np.asarray(call.operands[0]))


def _by_slices(region: Region) -> Iterator[Edit]:
    """Parts that are taken by slices of one value, which cover it."""
    of_value = dict[int, dict[Site, int]]()
    for site, places in region.sites.items():
        for place in places:
            node = region.node(place)
            if node is not None and short(node.op) == "slice" and isinstance(node.operands[0], Ref):
                of_value.setdefault(node.operands[0].value, {})[site] = place
    for value, sites in of_value.items():
        x, users = region.base[value], region.network.users.get(value, {}).values()
        bounds = sorted({bound for node in users if short(node.op) == "slice" for bound in _bounds(node, x)})
        if len(bounds) < 2 or [0, *(end for _, end in bounds)] != [*(begin for begin, _ in bounds), x.shape[-1]]:
            continue
        line = line_of(region, min(sites.values()))
        for cut in _cuts(region, value, [end - begin for begin, end in bounds]):
            yield Edit("edit.order", cut.says, PLAIN + 1, dict.fromkeys(sites, _sliced(cut)), line)


def _bounds(node: Node, x: Array) -> Iterator[tuple[int, int]]:
    """From where to where a node takes a slice of a value's last axis, where plain numbers say so."""
    operands: list[Any] = [*node.operands, *(None, 0, None, None, 1)[len(node.operands) :]]
    axis, begin, end, step = operands[1:]
    if not isinstance(axis, int) or x.ndim < 2 or axis % x.ndim != x.ndim - 1 or step != 1:
        return
    if not isinstance(begin, Ref) and not isinstance(end, Ref):
        yield slice(begin, end).indices(x.shape[-1])[:2]


def _sliced(cut: _Cut) -> Change:
    def change(call: Call) -> Array:
        x = np.asarray(call.operands[0])
        begins = np.cumsum([0, *cut.sizes]) * (cut.heads if cut.axis is None else 1)
        begin = int((*call.operands, None, None)[2] or 0) % x.shape[-1]
        return cut.parts(x)[int(np.searchsorted(begins, begin))]

    return change


def _of_equal_parts(region: Region) -> Iterator[Edit]:
    """Channels of a projection that holds two or three of something for each head, in the other order of the two."""
    for site, places in region.sites.items():
        node, base = region.node(places[0]), region.base[places[0]]
        is_leaf = node is None and places[0] not in region.names and not site.file
        if not is_leaf and (node is None or short(node.op) not in ("linear", "addmm")):
            continue
        if not isinstance(base, np.ndarray) or base.dtype.kind != "f" or base.ndim < 2:
            continue
        line = recorded_line(region, places[0]) if is_leaf else line_of(region, places[0])
        for several, count in product((2, 3), _heads(region)):
            if base.shape[-1] % (several * count):
                continue
            each = base.shape[-1] // (several * count)
            parts, by_heads = (
                f"part by part, {several} × {count} heads × {each}",
                f"head by head, {count} × {several} × {each}",
            )
            for lie, taken, order in ((by_heads, parts, (several, count)), (parts, by_heads, (count, several))):
                says = f"takes channels as if they lay {taken}, where they lie {lie}"
                yield Edit("edit.order", says, RARE, {site: _regrouped(*order)}, line)


def _regrouped(first: int, second: int) -> Change:
    """Channels that lie as first × second × the rest, put down as second × first × the rest."""

    def change(call: Call) -> Array:
        x = np.asarray(call.plain())
        cut = x.reshape(*x.shape[:-1], first, second, -1)
        return np.ascontiguousarray(np.swapaxes(cut, -3, -2)).reshape(x.shape)

    return change


def _of_siblings(region: Region) -> Iterator[Edit]:
    """Projections of one value that a loader joins, cut in another order than it joined them, or head by head.

    All of them are changed, those outside of the region as well: whether they are wrong tells one order from another.
    """
    of_value = {value: site for site, values in region.sites.items() for value in values}
    groups = dict.fromkeys(_projections(region.network, value) for value in reversed(of_value))
    for group in groups:
        sizes = [_width(region.network, value) for value in group]
        if len(sizes) < 2 or sizes == [sizes[0]] * 2:  # two alike are dealt in `places`
            continue
        line = _line(region, max(value for value in group if value in of_value))
        sites = [of_value[value] if value in of_value else _site(region, value) for value in group]
        names = [_name_of(region, value) for value in group]
        for says, taken in _dealt(names, sizes, _heads(region)):
            yield Edit("edit.order", says, RARE, dict.fromkeys(sites, _as_dealt(taken)), line)


def _projections(network: Network, value: int) -> tuple[int, ...]:
    """The projections beside a value that read what it reads, itself among them; empty where it is none."""
    node = network.graph.node(value)
    if node is None or short(node.op) != "linear" or not isinstance(node.operands[0], Ref):
        return ()
    parent = node.module.rpartition(".")[0]
    users = sorted(network.users[node.operands[0].value].items())
    return tuple(user for user, each in users if each.op == node.op and each.module.rpartition(".")[0] == parent)


def _site(region: Region, value: int) -> Site:
    """The site of a projection where it is computed."""
    node = region.network.graph.node(value)
    assert node is not None
    return site_of(node, region.network.graph)


def _width(network: Network, value: int) -> int:
    node = network.graph.node(value)
    return int(node.shape[-1] or 0) if node is not None else 0


def _name_of(region: Region, value: int) -> str:
    """A projection as its module is called: it may stand outside of the region."""
    node = region.network.graph.node(value)
    return node.module.rpartition(".")[2] if node is not None else ""


def _line(region: Region, value: int) -> Written | None:
    return recorded_line(region, value) if region.node(value) is None else line_of(region, value)


def _dealt(
    names: Sequence[str], sizes: Sequence[int], heads: Sequence[int]
) -> Iterator[tuple[str, Callable[[Sequence[Array]], list[Array]]]]:
    """How joined projections may be cut otherwise than they lie, in words, and the parts that come of it."""
    lie = ", ".join(names)
    for order in permutations(range(len(sizes))) if len(sizes) <= _MOST_PARTS - 1 else ():
        if [*order] != sorted(order):
            says = f"cuts {lie}, joined, as if they lay in the order {', '.join(names[part] for part in order)}"
            yield says, partial(_in_order, order)
    for count in heads:
        if all(size % count == 0 and size > count for size in sizes):
            each = " + ".join(str(size // count) for size in sizes)
            by_heads, by_parts = f"head by head, {count} × ({each})", "part by part"
            yield (
                f"takes {lie}, joined, as if they lay {by_heads}, where they lie {by_parts}",
                partial(_by_heads, count),
            )
            yield (
                f"takes {lie}, joined, as if they lay {by_parts}, where they lie {by_heads}",
                partial(_by_parts, count),
            )


def _in_order(order: Sequence[int], parts: Sequence[Array]) -> list[Array]:
    bounds = np.cumsum([parts[part].shape[-1] for part in order])[:-1]
    cut = dict(zip(order, np.split(np.concatenate(parts, -1), bounds, -1), strict=True))
    return [cut[part] for part in range(len(parts))]


def _by_heads(count: int, parts: Sequence[Array]) -> list[Array]:
    joined = np.concatenate(parts, -1)
    by_heads = joined.reshape(*joined.shape[:-1], count, -1)
    cut = np.split(by_heads, np.cumsum([part.shape[-1] // count for part in parts])[:-1], -1)
    return [part.reshape(*joined.shape[:-1], -1) for part in cut]


def _by_parts(count: int, parts: Sequence[Array]) -> list[Array]:
    by_heads = [part.reshape(*part.shape[:-1], count, -1) for part in parts]
    joined = np.concatenate(by_heads, -1).reshape(*parts[0].shape[:-1], -1)
    return np.split(joined, np.cumsum([part.shape[-1] for part in parts])[:-1], -1)


def _as_dealt(taken: Callable[[Sequence[Array]], list[Array]]) -> Change:
    def change(call: Call) -> Array:
        group = _projections(call.region.network, call.value)
        return taken([_projected(call, value) for value in group])[group.index(call.value)]

    return change


def _projected(call: Call, value: int) -> Array:
    """A projection of what the call's own reads, as the reference has it: beside this it is edited, too."""
    node = call.region.network.graph.node(value)
    if call.node is None:
        return np.asarray(call.before[value] if value in call.before else value_of(call, value))
    reads = node.operands[1:] if node is not None else ()
    return np.asarray(
        call.loose(call.operands[0], *(value_of(call, ref.value) if isinstance(ref, Ref) else ref for ref in reads))
    )
