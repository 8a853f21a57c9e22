"""Mistakes of single experts, told by the tokens that chose them: left out, not weighted, loaded otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, islice, product
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Around, Call, Change, Edit, Site, Written
from qwen3_parity.diagnosis.edits.grammar.layouts import halved, interleaved
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.target import Target
from qwen3_parity.diagnosis.edits.words import line_of, of_site, parameter_line, short
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.graph import Ref

_CAPACITY = 9
"""Tokens of an expert beyond which none is thought to be dropped."""
_FACTORS = (1, 1.25, 1.5, 2)
"""By how much an expert's capacity is larger than what each has where all have as many."""
_SUBSETS = 40
"""Sets of a token's experts that are left out to see which is."""
_SAID = 4
"""Experts that are said."""
_LARGEST = 1 << 22
"""Numbers of a parameter that is changed as a whole; of larger ones the weights of what experts give tell enough."""
_OTHERS = 16
"""Experts of which any may be taken for another; of more its neighbours alone."""


class _Table(NamedTuple):
    """A parameter `[expert, …]` of a region, and the experts `[token, choice]` that are read, from `place`."""

    site: Site
    base: Array
    chosen: Array
    place: Site


def of_experts(target: Target) -> Iterator[Edit]:
    """Edits of some experts alone that may give a tap which is wrong where a token chose them, and nowhere else."""
    tables = list(_tables(target))
    yield from _router_beyond_a_capacity(target)
    if not tables:
        return
    region, chosen, count = target.region, tables[0].chosen, len(tables[0].base)
    wrong, judged = (_of_tokens(cells) for cells in (target.cells, target.counts))
    yield from _beyond_a_capacity(region, tables[-1])
    alone = [expert for expert in range(count) if np.array_equal((chosen == expert).any(1) & judged, wrong)]
    for expert in alone:
        yield from _of_expert(region, tables, expert)
    if not alone and tables[-1].base.size <= _LARGEST:  # which computes the tap many times
        yield from _left_out(target, tables[-1], wrong)
    for first in range(1, count - 1) if tables[0].base.size <= _LARGEST else ():
        if np.array_equal((chosen >= first).any(1) & judged, wrong):
            line = parameter_line(region, region.at(tables[0].site)[0])
            for (by, whose), circle in product(((1, "before"), (-1, "behind")), (True, False)):
                says = f"has the expert {whose} in the place of each of the experts {first}–{count - 1}"
                says += ", in a circle" if circle else ""
                changes = {table.site: _from(first, by, circle=circle) for table in tables}
                yield Edit("edit.expert", says, RARE, changes, line)


def _of_tokens(cells: Array) -> Array:
    return np.asarray(cells.reshape(-1, cells.shape[-1]).any(1))


def _tables(target: Target) -> Iterator[_Table]:
    """The parameters of experts that a region reads by the indices of chosen ones, in the order in which it does."""
    region, tokens = target.region, int(np.prod(target.actual.shape[:-1]))
    if target.rows or target.actual.ndim < 2:
        return
    sites = {values[0]: site for site, values in region.sites.items() if len(values) == 1}
    for value in region.order:
        node = region.node(value)
        if node is None or short(node.op) != "index" or not isinstance(node.operands[0], Ref):
            continue
        table, indices = node.operands[0].value, node.operands[1]
        site, chosen = sites.get(table), indices[0] if isinstance(indices, tuple) and len(indices) == 1 else None
        if site is None or table not in region.names or not isinstance(chosen, Ref) or chosen.value not in sites:
            continue
        base, index = np.asarray(region.base[table]), np.asarray(region.base[chosen.value])
        if base.ndim == 3 and index.dtype.kind == "i" and index.ndim == 1 and index.size % tokens == 0:
            yield _Table(site, base, index.reshape(tokens, -1), sites[chosen.value])


def _of_expert(region: Region, tables: list[_Table], expert: int) -> Iterator[Edit]:
    last, says = tables[-1], f"leaves expert {expert} out"
    if is_small := all(table.base.size <= _LARGEST for table in tables):
        yield from _loaded(region, tables, expert)
        line = parameter_line(region, region.at(tables[0].site)[0])
        yield Edit("edit.expert", says, PLAIN, {last.site: _of(expert, np.zeros_like)}, line)
    for site, line in _weights(region, last):
        unweighted = _by_index(last.place, lambda x, chosen: np.where(chosen == expert, 1.0, x))
        yield Edit("edit.expert", f"does not weight what expert {expert} gives", PLAIN, {site: unweighted}, line)
        if not is_small:
            without = _by_index(last.place, lambda x, chosen: np.where(chosen == expert, 0.0, x))
            yield Edit("edit.expert", says, PLAIN, {site: without}, line)


def _loaded(region: Region, tables: list[_Table], expert: int) -> Iterator[Edit]:
    """Other numbers in an expert's part of the parameters."""
    for table in tables:
        name, line = of_site(table.site), parameter_line(region, region.at(table.site)[0])
        for says, change in _loads(table.base, expert):
            yield Edit("edit.expert", says.format(name=name), RARE, {table.site: _of(expert, change)}, line)
    count, line = len(tables[0].base), parameter_line(region, region.at(tables[0].site)[0])
    for further in range(count) if count <= _OTHERS else (expert - 1, (expert + 1) % count):
        if further % count != expert:
            says = f"runs expert {further % count} for expert {expert}"
            changes = {table.site: _of(expert, _constant(table.base[further])) for table in tables}
            yield Edit("edit.expert", says, RARE, changes, line)


def _loads(base: Array, expert: int) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """What may have been loaded as an expert's part of a parameter, in words that want its name."""
    _, rows, columns = base.shape
    for axis, along, size in ((0, "rows", rows), (1, "columns", columns)):
        if size % 2 == 0 and size > 2:
            of = f"the {along} of {{name}}"
            yield f"has the halves of {of} exchanged in expert {expert}", partial(np.roll, shift=size // 2, axis=axis)
            says = f"has {of} in pairs, where halves are meant, in expert {expert}"
            yield says, partial(interleaved, axis=axis)
            yield f"has {of} in halves, where pairs are meant, in expert {expert}", partial(halved, axis=axis)
    if rows == columns:
        yield f"has {{name}} transposed in expert {expert}", np.transpose


def _constant(array: Array) -> Callable[[Array], Array]:
    return lambda _: array


def _from(first: int, by: int, *, circle: bool) -> Change:
    """Experts from one on, each with the numbers of the one before or behind; of these alone in a `circle`."""

    def change(call: Call) -> Array:
        whole = np.asarray(call.operands[0])
        moved = np.roll(whole[first:], by, 0) if circle else np.roll(whole, by, 0)[first:]
        return np.concatenate([whole[:first], moved])

    return change


def _of(expert: int, function: Callable[[Array], Array]) -> Change:
    def change(call: Call) -> Array:
        whole = np.array(call.operands[0])
        if not 0 <= expert < len(whole):
            raise ValueError("no such expert")
        whole[expert] = function(whole[expert])
        return whole

    return change


def _weights(region: Region, table: _Table) -> Iterator[tuple[Site, Written | None]]:
    """Where the weights of the chosen experts stand in a row, as many as there are choices."""
    for site, values in region.sites.items():
        node, base = region.node(values[0]), region.base[values[0]]
        if node is None or not isinstance(base, np.ndarray) or base.dtype.kind != "f" or base.ndim != 1:
            continue
        if base.size == table.chosen.size:
            yield site, line_of(region, values[0])


def _left_out(target: Target, table: _Table, wrong: Array) -> Iterator[Edit]:
    """For each wrong token the experts without which its numbers are the candidate's."""
    region, chosen = target.region, table.chosen
    for site, line in _weights(region, table):
        gone = np.zeros(chosen.shape, bool)
        choices = range(chosen.shape[1])
        subsets = (subset for count in (1, 2, 3) for subset in combinations(choices, count))
        for subset in islice(subsets, _SUBSETS):
            places = np.zeros(chosen.shape, bool)
            places[:, subset] = True
            predicted = target.predicted(Edit("", "", PLAIN, {site: _without(places.ravel())}))
            if predicted is not None:
                gone |= places & (wrong & ~gone.any(1) & ~_of_tokens(target.off(predicted)))[:, None]
        if (gone.any(1) == wrong).all():
            tokens = {expert: np.flatnonzero((gone & (chosen == expert)).any(1)) for expert in np.unique(chosen[gone])}
            each = [f"expert {expert} out for {_tokens(of)}" for expert, of in list(tokens.items())[:_SAID]]
            says = f"leaves {', '.join(each)}{', and more' if len(tokens) > _SAID else ''}"
            yield Edit("edit.expert", says, PLAIN + 1, {site: _without(gone.ravel())}, line)


def _tokens(numbers: Array) -> str:
    return f"token{'s' * (len(numbers) > 1)} {ranges(numbers.tolist())}"


def _without(places: Array) -> Change:
    def change(call: Call) -> Array:
        plain = np.asarray(call.plain())
        if plain.shape != places.shape:
            raise ValueError("another step has other tokens")
        return np.where(places, 0.0, plain)

    return change


def _beyond_a_capacity(region: Region, table: _Table) -> Iterator[Edit]:
    """Every expert left out for the tokens of a forward beyond its first few."""
    for site, line in _weights(region, table):
        for says, weights in _capacities(table.chosen, len(table.base)):
            yield Edit("edit.expert", says, PLAIN + 1, {site: _by_index(table.place, weights)}, line)


def _router_beyond_a_capacity(target: Target) -> Iterator[Edit]:
    """The same where it is a router's recorded weights that are 0."""
    region, node = target.region, target.region.node(target.region.value)
    site = next((site for site, values in region.sites.items() if region.value in values), None)
    top = _top(region)
    if node is None or site is None or top is None or target.actual.ndim != 2 or target.actual.dtype.kind != "f":
        return
    chosen, line = np.asarray(region.base[top][1]), line_of(region, region.value)
    if chosen.shape != target.actual.shape:
        return
    for says, weights in _capacities(chosen, _experts(region, top)):
        yield Edit("edit.expert", says, PLAIN + 1, {site: _by_top(weights)}, line)


def _top(region: Around) -> int | None:
    """The last op of a region that chooses experts."""
    return next((x for x in reversed(region.order) if (n := region.node(x)) and short(n.op) == "topk"), None)


def _experts(region: Around, top: int) -> int:
    node = region.node(top)
    assert node is not None
    return int(np.shape(region.base[node.reads[0]])[-1])


def _capacities(chosen: Array, experts: int) -> Iterator[tuple[str, Callable[[Array, Array], Array]]]:
    """What is left of weights where each expert has room for so many tokens: by their number in a forward, or fixed."""
    most, words = int(max(np.bincount(chosen.ravel(), minlength=1))), "leaves every expert out beyond"
    choices, parts = chosen.shape[-1], dict[float, str]()
    for factor in _FACTORS:
        times = "" if factor == 1 else f"{factor:g} × "
        parts.setdefault(factor, f"{times}tokens × {choices}" if choices > 1 else f"{times}tokens")
    for factor in _FACTORS if choices > 1 else ():
        parts.setdefault(factor / choices, "tokens" if factor == 1 else f"{factor:g} × tokens")
    for part, of in parts.items():
        if _capacity_of(chosen.size, part=part, experts=experts) < most:
            says = f"{words} a capacity of {of} / {experts}, rounded up"
            yield says, _first(partial(_capacity_of, part=part, experts=experts))
    for capacity in range(1, min(most, _CAPACITY)):
        says = f"{words} its first {'token' if capacity == 1 else f'{capacity} tokens'}"
        yield says, _first(partial(_as_many, capacity=capacity))


def _capacity_of(size: int, part: float, experts: int) -> int:
    return -int(-part * size // experts)


def _as_many(_: int, capacity: int) -> int:
    return capacity


def _first(capacity: Callable[[int], int]) -> Callable[[Array, Array], Array]:
    """Weights of the first tokens of each expert, of so many choices in all."""

    def weights(x: Array, chosen: Array) -> Array:
        earlier = np.tril(chosen[:, None] == chosen[None, :], -1).sum(1)
        return np.where(earlier < capacity(chosen.size), x, 0.0)

    return weights


def _by_top(function: Callable[[Array, Array], Array]) -> Change:
    """A router's weights changed by the experts that they are of."""

    def change(call: Call) -> Array:
        top, plain = _top(call.region), np.asarray(call.plain())
        chosen = np.asarray(call.before[top][1]) if top is not None else plain
        if chosen.shape != plain.shape or top is None:
            raise ValueError("nothing was chosen here")
        return np.asarray(function(plain.ravel(), chosen.ravel())).reshape(plain.shape)

    return change


def _by_index(index: Site, function: Callable[[Array, Array], Array]) -> Change:
    """Weights changed by the experts that they are of, of the same layer and step."""

    def change(call: Call) -> Array:
        places, here = call.region.at(index), call.region.at(call.site)
        chosen = np.asarray(call.before[places[min(here.index(call.value), len(places) - 1)]])
        return np.asarray(function(np.asarray(call.plain()), chosen.ravel()))

    return change
