"""An op that reads another value: what stood one op earlier, another tap, another value of the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site
from qwen3_parity.diagnosis.edits.nearest import last_before, nearest
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, named, of_site, read_line, short
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.graph import Node, Ref

_WITH_A_NUMBER = frozenset({"add", "sub", "mul", "div"})
_COMPUTING = (Kind.POINT, Kind.SUM)
_CHANNELS = 3
"""The axes of what is not cut into heads: of the parts of what has more, keys are soon mistaken for values."""
_SUMMED = frozenset({"sum", "mean", "amax", "logsumexp"})
_STATISTICS: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}
"""Of another axis they have another shape: what reads them shows whether that fits."""
_JOINED: Mapping[str, Callable[[Array, Array], Array]] = {
    "reads {} times {} in {}": np.multiply,
    "reads {} plus {} in {}": np.add,
    "reads {} minus {} in {}": np.subtract,
    "reads the first half of {} beside the first half of {} in {}": lambda x, y: _halves(x, y, 0),
    "reads the second half of {1} beside the second half of {0} in {2}": lambda x, y: _halves(y, x, 1),
}
"""How another value may be mixed in; two results of which each shard has a part lie in turns."""


def _halves(x: Array, y: Array, half: int) -> Array:
    if x.shape[-1] % 2 or x.shape != y.shape:
        raise ValueError("no two halves")
    return np.concatenate([np.split(x, 2, -1)[half], np.split(y, 2, -1)[half]], -1)


def reads(region: Region) -> Iterator[Edit]:
    """Every operand of every op that computes, by every other value that fits."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        if node is not None and short(node.op) == "cat":
            yield from _parts(region, site)
        if node is None and places[0] in region.network.slices.recorded and _is_float(region, places[0]):
            yield from _beside(region, site, places[0])
        if node is not None and _kind(node) is Kind.MOVE and isinstance(node.operands[0], Ref):
            yield from _moved(region, site, node)
        if node is None or _kind(node) not in _COMPUTING:
            continue
        for slot, operand in enumerate(node.operands):
            if isinstance(operand, Ref) and _is_float(region, operand.value):
                yield from _others(region, site, node, slot, operand.value)
            elif isinstance(operand, float) and short(node.op) in _WITH_A_NUMBER:
                yield from _for_number(region, site, node, slot)


def _beside(region: Region, site: Site, value: int) -> Iterator[Edit]:
    """A recorded value by what another module beside the one that gives it gave: values for keys."""
    name, base, recorded = of_site(site), region.base[value], region.network.slices.recorded
    for source in region.sources_of(base.shape):
        parent, _, last = source.removeprefix("model.").rpartition(".")
        there = recorded.get(region.sources[source])
        if there is None or parent != name.rpartition(".")[0] or region.sources[source] == value:
            continue
        if there.shape == base.shape and there.dtype.kind == "f":
            says = f"reads {source.removeprefix('model.')} for {name}"
            yield Edit("edit.reads", says, RARE + 1, {site: _of_beside(last)}, line_of(region, value))


def _of_beside(last: str) -> Change:
    """In the same layer and step."""

    def change(call: Call) -> Any:
        taps, recorded = call.region.network.graph.taps, call.region.network.slices.recorded
        (name, step), *_ = (tap for tap, value in taps.items() if value == call.value)
        return call.numbers.lifted(np.asarray(recorded[taps[f"{name.rpartition('.')[0]}.{last}", step]]))

    return change


def _others(region: Region, site: Site, node: Node, slot: int, reads: int) -> Iterator[Edit]:
    op, shape = short(node.op), np.shape(region.base[reads])
    line = read_line(region, region.sites[site][0], reads)
    maker = region.node(reads)
    for place, operand in enumerate(maker.operands if maker is not None else ()):
        if (
            isinstance(operand, Ref)
            and _is_float(region, operand.value)
            and np.shape(region.base[operand.value]) == shape
        ):
            says = f"reads what stands before {short(maker.op)} in {op}" if maker is not None else ""
            yield Edit("edit.reads", says, COMBINED, {site: _earlier(slot, place)}, line)
    if maker is not None and short(maker.op) == "cumsum":
        says = f"reads sums of what stands before alone for {named(region, reads)} in {op}"
        yield Edit("edit.reads", says, RARE, {site: _before_alone(slot)}, line)
    for name in region.sources_of(shape):
        if region.sources[name] not in (reads, region.value) and not _is_made_of(region, name, region.sites[site]):
            says = f"reads {name.removeprefix('model.')} for {named(region, reads)} in {op}"
            rank = COMBINED if op == "add" else COMBINED + 1  # a residual is soon mistaken
            yield Edit("edit.reads", says, rank, {site: _source(slot, name)}, line)
            for words, join in _JOINED.items():
                says = words.format(named(region, reads), name.removeprefix("model."), op)
                yield Edit("edit.reads", says, COMBINED + 1, {site: _joined(slot, name, join)}, line)
    if maker is not None and short(maker.op) in _STATISTICS and len(maker.reads) == 1:
        line = line_of(region, reads)
        for axis in range(np.ndim(region.base[maker.reads[0]])):
            says = f"takes {short(maker.op)} along axis {axis}"
            yield Edit("edit.axis", says, PLAIN + 1, {site: _along(slot, axis)}, line)
    yield from _within(region, site, node, slot, reads)


def _moved(region: Region, site: Site, node: Node) -> Iterator[Edit]:
    """What is brought into another shape first, as heads that are joined, by another value of its shape."""
    reads = node.reads[0]
    shape = np.shape(region.base[reads]) if _is_float(region, reads) else ()
    if len(shape) <= _CHANNELS or _unmoved(region, reads) != reads:
        return
    for name in region.sources_of(shape):
        if region.sources[name] not in (reads, region.value) and not _is_made_of(region, name, region.sites[site]):
            says = f"reads {name.removeprefix('model.')} for {named(region, reads)} in {short(node.op)}"
            line = read_line(region, region.sites[site][0], reads)
            yield Edit("edit.reads", says, COMBINED + 1, {site: _source(0, name)}, line)


def _within(region: Region, site: Site, node: Node, slot: int, reads: int) -> Iterator[Edit]:
    """An operand by the values that the region itself makes."""
    op, shape, line = short(node.op), np.shape(region.base[reads]), read_line(region, region.sites[site][0], reads)
    for source, values in region.sites.items():
        # Of a class's line that ran for several modules the last before the op is read.
        last = max((value for value in values if value < max(region.sites[site])), default=None)
        if last is None or region.node(last) is None or last in (reads, region.value):
            continue
        if _is_float(region, last) and _fits(np.shape(region.base[last]), shape, node):
            says = f"reads {named(region, last)} for {named(region, reads)} in {op}"
            yield Edit("edit.reads", says, COMBINED + 1, {site: _inside(slot, source)}, line)
            if op == "add" and slot == 0 and np.shape(region.base[last]) == shape:
                says = f"adds {named(region, last)}, too, in add"
                yield Edit("edit.reads", says, COMBINED + 1, {site: _more(source)}, line)
    yield from _behind(region, site, node, slot, reads)


def _behind(region: Region, site: Site, node: Node, slot: int, reads: int) -> Iterator[Edit]:
    """An operand by what the same function makes later of what it is, and not of the op: as of a name bound anew."""
    here, shape, root = region.sites[site][-1], np.shape(region.base[reads]), _unmoved(region, reads)
    follows, line = set(region.downstream([here])), read_line(region, here, reads)
    for source, values in region.sites.items():
        later = next((value for value in values if value > here), here)
        maker = region.node(_unmoved(region, later))
        if later in follows or maker is None or maker.module != node.module:
            continue
        of_root = root in [_unmoved(region, read) for read in maker.reads] and _kind(maker) is Kind.POINT
        if of_root and _is_float(region, later) and np.shape(region.base[later]) == shape:
            name, of = named(region, _unmoved(region, later)), named(region, reads)
            says = f"reads {name}, which is made later, for {of} in {short(node.op)}"
            yield Edit("edit.reads", says, RARE, {site: _ahead(slot, source)}, line)


def _unmoved(region: Region, value: int) -> int:
    """A value, or the one whose numbers it has in another shape."""
    while (node := region.node(value)) is not None and _kind(node) is Kind.MOVE and len(node.reads) == 1:
        (value,) = node.reads
    return value


def _kind(node: Node) -> Kind | None:
    kernel = kernel_of(node.op)
    return None if kernel is None else kernel.kind


def _parts(region: Region, site: Site) -> Iterator[Edit]:
    """Every part that is joined, by other values of its module of the same shape: values for keys."""
    here = region.sites[site][-1]  # of several layers the last, as what is read instead
    node = region.network.graph.node(here)
    assert node is not None
    line, joined = line_of(region, here), _joined_in(region, node.module)
    beside = [(source, last) for source, values in region.sites.items()
              if (last := max((value for value in values if value < here), default=-1)) >= 0
              and _is_by_heads(region, last) and getattr(region.node(last), "module", None) == node.module]  # fmt: skip
    for place, part in enumerate(node.operands[0]):
        shape = np.shape(region.base[part.value])
        for source, last in beside if _is_by_heads(region, part.value) else ():
            if last != part.value and np.shape(region.base[last]) == shape:
                says = f"reads {named(region, last)} for {named(region, part.value)}, part {place} of cat"
                rank = PLAIN if (place, last) in joined else COMBINED  # values for keys are soon mistaken
                yield Edit("edit.reads", says, rank, {site: _part(place, source)}, line)


def _is_by_heads(region: Region, value: int) -> bool:
    return _is_float(region, value) and np.ndim(region.base[value]) > _CHANNELS


def _joined_in(region: Region, module: str) -> set[tuple[int, int]]:
    """All parts that a module joins, with their places."""
    nodes = (region.node(value) for value in region.order)
    return {
        part
        for node in nodes
        if node is not None and node.module == module and short(node.op) == "cat"
        for part in enumerate(node.reads)
    }


def _part(place: int, source: Site) -> Change:
    def change(call: Call) -> Any:
        parts = list(call.operands[0])
        parts[place] = last_before(call, source)
        return call.plain(parts, *call.operands[1:])

    return change


def _is_made_of(region: Region, name: str, places: Sequence[int]) -> bool:
    """Whether a source follows from what an op gives: nobody reads what is yet to be made of that, as a new state."""
    open_, passed = [region.sources[name]], set[int]()
    while open_:
        value = open_.pop()
        node = region.network.graph.node(value)
        if value in places:
            return True
        if node is not None and value > places[0] and value not in passed:
            passed.add(value)
            open_ += node.reads
    return False


def _fits(there: tuple[int, ...], shape: tuple[int, ...], node: Node) -> bool:
    """Whether a value may stand for one of a shape: what is summed may have more channels, as all experts are."""
    return there == shape or (short(node.op) in _SUMMED and len(shape) > 1 and there[:-1] == shape[:-1])


def _for_number(region: Region, site: Site, node: Node, slot: int) -> Iterator[Edit]:
    """Values of the op's own shape that the line's function has, in the place of a number."""
    here = region.sites[site][-1]
    line, shape = line_of(region, here), np.shape(region.base[here])
    for source, values in region.sites.items():
        last = max((value for value in values if value < here), default=None)
        if last is None or last in region.names or not _is_float(region, last):
            continue
        if np.shape(region.base[last]) == shape:
            says = f"has {named(region, last)} for {node.operands[slot]:.7g} in {short(node.op)}"
            yield Edit("edit.reads", says, COMBINED, {site: _inside(slot, source)}, line)


def _is_float(region: Region, value: int) -> bool:
    base = region.base.get(value)
    return isinstance(base, np.ndarray) and base.dtype.kind == "f"


def _put(call: Call, slot: int, value: Any) -> Any:
    return call.plain(*call.operands[:slot], value, *call.operands[slot + 1 :])


def _earlier(slot: int, place: int) -> Change:
    def change(call: Call) -> Any:
        operand = call.node.operands[slot] if call.node is not None else None
        maker = call.region.node(operand.value) if isinstance(operand, Ref) else None
        source = maker.operands[place] if maker is not None else None
        if not isinstance(source, Ref):
            raise ValueError("nothing stands before it")
        return _put(call, slot, call.numbers.lifted(np.asarray(call.env[source.value])))

    return change


def _before_alone(slot: int) -> Change:
    return lambda call: _put(call, slot, call.operands[slot] - _made_of(call, slot)[1])


def _along(slot: int, axis: int) -> Change:
    def change(call: Call) -> Any:
        op, x = _made_of(call, slot)
        statistic = _STATISTICS[op](x, axis, keepdims=True)
        if statistic.shape == np.shape(call.operands[slot]):
            raise ValueError("the same axis, or of as many")
        return _put(call, slot, statistic)

    return change


def _made_of(call: Call, slot: int) -> tuple[str, Array]:
    """The op that makes an operand, and what it reads. Raises `ValueError` where it is none of the region's."""
    assert call.node is not None
    maker = call.region.node(call.node.operands[slot].value)
    if maker is None:
        raise ValueError("nothing is summed here")
    return short(maker.op), call.numbers.lifted(np.asarray(call.env[maker.reads[0]]))


def _source(slot: int, name: str) -> Change:
    return lambda call: _put(call, slot, _like(call, slot, name))


def _joined(slot: int, name: str, join: Callable[[Array, Array], Array]) -> Change:
    return lambda call: _put(call, slot, join(call.operands[slot], _like(call, slot, name)))


def _like(call: Call, slot: int, name: str) -> Any:
    """A source in the shape of an operand."""
    return call.numbers.lifted(call.region.source(name, call.numbers, np.shape(call.operands[slot])))


def _more(source: Site) -> Change:
    return lambda call: call.plain() + last_before(call, source)


def _ahead(slot: int, source: Site) -> Change:
    return lambda call: _put(call, slot, call.numbers.lifted(nearest(call, source, behind=True)))


def _inside(slot: int, source: Site) -> Change:
    return lambda call: _put(call, slot, last_before(call, source))
