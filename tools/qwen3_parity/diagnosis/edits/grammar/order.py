"""Two neighbours in the other order: RoPE before the norm, the residual inside of one, the gate behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import MODULE
from qwen3_parity.diagnosis.edits.edit import Around, Block, Call, Change, Edit, Site, Written, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import of_line, site_of
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, read_as, short
from qwen3_parity.mistakes.ranks import RARE
from qwen3_spec.aten import Kind, kernel_of
from qwen3_spec.graph import Graph, Node, Ref

_FARTHEST = 40
"""Ops behind a recorded value among which what reads it is looked for."""
_MOST = 8
"""Values behind a recorded one that may be made before it."""
_LONG, _LINE = 6, "line"
"""Lines of a function whose name says what it does, and how a line of a longer one is called."""
_MOVING = frozenset({"view", "unsafe_view", "reshape", "to_copy", "type_as", "clone", "transpose", "permute"})
_NONE = Site("", 0, "")
_ROOTS = frozenset({"rsqrt", "sqrt", "linalg_vector_norm", "native_layer_norm"})
_FACTORS, _ADDENDS = frozenset({"mul", "div", "neg"}), frozenset({"add", "sub"})
_NORMS = "the norms"
_VERBS = {"mul": ("multiplies by", "the product with"), "add": ("adds", "the sum with"), "sub": ("takes off", "less")}


class _Part(NamedTuple):
    """What makes a value of another: `does` and `name` say it of this place, `kind` of every one like it.

    `of_all`: what it applies has as many numbers as the value. `module`: the path of one, with layers open.
    """

    block: Block
    does: str
    name: str
    kind: str
    of_all: bool = True
    module: str = ""


_Key = tuple[Any, ...]
"""What names a part of a value wherever its line runs."""


class _Swap(NamedTuple):
    """The keys of what stands before and behind; `site`: of the value behind a recorded one, in another slice."""

    before: _Key
    behind: _Key
    site: Site | None = None


def order(region: Region) -> Iterator[Edit]:
    """Every two parts of which the second reads the first, as the reference has them, exchanged."""
    alike, sites = dict[tuple[str, str], dict[Site, tuple[Change, Written | None]]](), dict[int, Site]()
    for site, values in region.sites.items():
        sites[values[-1]] = site
    for blocks in region.blocks.values():
        sites.setdefault(blocks[-1].end, _NONE)
    for end in sorted(sites, reverse=True):
        for swap, before, behind, reader in _swaps(region, end):
            is_module = swap.behind[0] == "module" and swap.site is None
            site = Site(MODULE, 0, swap.behind[1]) if is_module else sites[end]
            if site == _NONE:
                continue  # another place of its line, which stands for both
            says = f"{behind.does} before {before.name}, not behind it"
            line = _both(_line(region, before, behind), reader)
            by_number = any(part.kind.startswith(_LINE) for part in (before, behind))
            rank = RARE + (2 if by_number else 0 if before.module else 0.5)
            yield Edit("edit.moved", says, rank, {site: _exchanged(swap)}, line)
            if swap.site is None:
                alike.setdefault((behind.kind, before.kind), {})[site] = _exchanged(swap), line
    for (second, first), changes in alike.items():
        if len(changes) > 1:
            says = f"runs {second} before {first}, not behind, in all {len(changes)} lines"
            (_, line), *_ = changes.values()
            rank = RARE if first == _NORMS else RARE + 0.5
            yield Edit("edit.moved", says, rank, {site: change for site, (change, _) in changes.items()}, line)


def _line(region: Region, part: _Part, beside: _Part) -> Written | None:
    """The line that calls a module, where what stands beside is not in it; of an op of the model's own, its line."""
    node, near = (region.network.graph.node(end) for end in (part.block.end, beside.block.end))
    is_small = (
        node is not None and region.network.is_smallest(node.module) and node.module != getattr(near, "module", "")
    )
    calls = part.module or is_small
    return caller_line(region, part.block.end, part.module) if calls else line_of(region, part.block.end)


def _both(line: Written | None, reader: Written | None) -> Written | None:
    """The line of what stands first, and the one that reads it."""
    if line is None or reader is None or reader.line == line.line:
        return line or reader
    return line._replace(reader=reader.line)


def _swaps(region: Region, end: int) -> Iterator[tuple[_Swap, _Part, _Part, Written | None]]:
    """What ends with a value and what it reads; of a recorded value, what reads it as well."""
    for key, behind in _parts(region, end).items():
        if key[0] == "weighted":
            continue  # the norm without its weight says so, and is alike in every step
        begin, _ = _unmoved(region, behind.block.begin)
        for first, before in _parts(region, begin).items() if behind.of_all else ():
            if not _commute(before, behind):
                yield _Swap(first, key), before, behind, _line(region, behind, before)
    if end == region.value:
        for site, source, key, behind in _readers(region):
            for first, before in _parts(region, end).items():
                if not _commute(before, behind):
                    yield _Swap(first, key, site), before, behind, _line(source, behind, before)


def _commute(a: _Part, b: _Part) -> bool:
    """Whether the order of two single ops changes nothing."""
    return any({a.kind, b.kind} <= ops for ops in (_FACTORS, _ADDENDS))


def _parts(region: Around, end: int, deep: int = 2) -> dict[_Key, _Part]:
    """Modules, lines, norms and single ops that end with a value and read one with as many numbers."""
    node, result = region.node(end), region.base.get(end)
    kernel = None if node is None else kernel_of(node.op)
    if node is None or kernel is None or not _is_float(result):
        return {}
    parts = dict[_Key, _Part](_of_blocks(region, end))
    if kernel.kind in (Kind.POINT, Kind.SUM):
        begins = {_unmoved(region, part.block.begin)[0] for part in parts.values()}
        reads = [(slot, x.value) for slot, x in enumerate(node.operands) if isinstance(x, Ref)]
        for slot, value in reads:
            if _has_as_many(region, value, np.size(np.asarray(result))):
                side = next((read for place, read in reads if place != slot), value)
                parts.update(_of_operand(region, node, Block(value, end, (end,)), slot, side, begins, deep))
    return parts


def _of_blocks(region: Around, end: int) -> Iterator[tuple[_Key, _Part]]:
    """The deepest of the modules, and the shortest line, each from where it begins."""
    begins, lines = set[int](), list[Block]()
    for site, blocks in region.blocks.items():
        for block in blocks:
            if block.end == end and len(block.values) > 1 and block.begin not in begins:
                if site.file == MODULE:
                    begins.add(block.begin)
                    yield ("module", site.op), _of_module(region, site, block)
                else:
                    lines.append(block)
    shortest = min(lines, key=lambda block: len(block.values), default=None)
    if shortest is not None and shortest.begin not in begins:
        yield ("line",), _of_line(region, shortest)


def _of_operand(
    region: Around, node: Node, block: Block, slot: int, side: int, begins: set[int], deep: int
) -> Iterator[tuple[_Key, _Part]]:
    """An op alone, or, where what stands at its `side` follows from the same value, all that lies between."""
    value, end = block.begin, block.end
    if side == value:
        yield ("op", slot), _of_op(region, node, block, 1)
    elif side not in region.downstream([value]):
        yield ("op", slot), _of_op(region, node, block, 1 - slot)
        within = _parts(region, _unmoved(region, value)[0], deep - 1) if side in region.parameters and deep else {}
        for key, part in within.items():  # a weight belongs to its norm
            if key[0] in ("joined", "weighted") and _unmoved(region, part.block.begin)[0] not in begins:
                values = _between(region, part.block.begin, end)
                yield ("weighted", slot, key), part._replace(block=Block(part.block.begin, end, values))
    elif _unmoved(region, value)[0] not in begins:
        yield ("joined", slot), _of_joined(region, Block(value, end, _between(region, value, end)))


def _has_as_many(region: Around, value: int, size: int) -> bool:
    base = region.base.get(value)
    return _is_float(base) and np.size(np.asarray(base)) == size and value not in region.parameters


def _is_float(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 1


def _of_module(region: Around, site: Site, block: Block) -> _Part:
    nodes = [node for value in block.values if (node := region.node(value)) is not None]
    name = site.op.removeprefix("model.")
    kind = _NORMS if any(short(node.op) in _ROOTS for node in nodes) else name
    return _Part(block, f"runs {name}", name, kind, module=site.op)


def _of_line(region: Around, block: Block) -> _Part:
    name = _place(region, block)
    return _Part(block, f"runs {name}", name, name)


def _of_joined(region: Around, block: Block) -> _Part:
    nodes = [node for value in block.values if (node := region.node(value)) is not None]
    is_norm = any(short(node.op) in _ROOTS for node in nodes)
    name = "the norm" if is_norm else _place(region, block)
    return _Part(block, f"runs {name}", name, _NORMS if is_norm else name)


def _place(region: Around, block: Block) -> str:
    """A line by its function; of a module's own, and of a long one, by its number."""
    node = region.node(block.end)
    here = node.lines[-1] if node is not None and node.lines else None
    if here is None:
        return _LINE
    every = {x.lines[-1] for value in region.order if (x := region.node(value)) is not None and x.lines}
    lines = [line for line in every if (line.file, line.function) == (here.file, here.function)]
    is_short = here.function != "forward" and len(lines) <= _LONG
    return here.function if is_short else f"{_LINE} {here.number}"


def _of_op(region: Around, node: Node, block: Block, side: int) -> _Part:
    op = short(node.op)
    if op not in _VERBS or len(node.operands) <= side:
        is_module = isinstance(region, Region) and block.end in region.tap_names
        name = opened(node.module.removeprefix("model.")) if is_module else op
        return _Part(block, f"runs {name}", name, op)
    does, name = _VERBS[op]
    operand = node.operands[side]
    words = read_as(region, node, side) if isinstance(region, Region) else op
    of_all = isinstance(operand, Ref) and _has_as_many(region, operand.value, np.size(region.base[block.end]))
    return _Part(block, f"{does} {words}", f"{name} {words}", op, of_all)


def _between(region: Around, begin: int, end: int) -> tuple[int, ...]:
    """The ops on the way from a value to another, in order."""
    behind, needed, values = {*region.downstream([begin])} - {begin}, {end}, list[int]()
    for value in reversed(region.order):
        node = region.node(value)
        if value in needed and value in behind and node is not None:
            values.append(value)
            needed.update(node.reads)
    return tuple(reversed(values))


def _unmoved(region: Around, value: int) -> tuple[int, tuple[int, ...]]:
    """The value whose numbers a value has, and the ops that give them another shape, type or order of axes."""
    moves = list[int]()
    while (node := region.node(value)) is not None and short(node.op) in _MOVING:
        moves.append(value)
        value = node.reads[0]
    return value, tuple(reversed(moves))


def _readers(region: Region) -> Iterator[tuple[Site, Region, _Key, _Part]]:
    """Parts behind the region's own value that read it, the nearest ones, each in the slice of its result."""
    graph = region.network.graph
    for value in _reached(graph, region.value)[:_MOST]:
        source = Region(region.network, value, region.key)
        for key, part in _parts(source, value).items():
            if _unmoved(source, part.block.begin)[0] == region.value:
                yield site_of(_node(graph, value), graph), source, key, part


def _reached(graph: Graph, begin: int) -> list[int]:
    """Values of as many numbers that follow from one, by ops that are not only moves."""
    first, maker = len(graph.leaves), graph.node(begin)
    reached, values = {begin}, list[int]()
    for value in range(begin + 1, min(begin + _FARTHEST, first + len(graph.nodes))):
        node = graph.nodes[value - first]
        if not reached.isdisjoint(node.reads):
            reached.add(value)
            if maker is not None and sorted(map(str, node.shape)) == sorted(map(str, maker.shape)):
                values += [value] if short(node.op) not in _MOVING else []
    return values


def _node(graph: Graph, value: int) -> Node:
    node = graph.node(value)
    assert node is not None
    return node


def _exchanged(swap: _Swap) -> Change:
    """What stands behind made of what stands before reads, and what stands before of that."""

    def change(call: Call) -> Array:
        region, end = call.region, call.value
        if swap.site is None:
            behind = _parts(region, end).get(swap.behind)
            source, env = region, call.env
        else:
            reader = _reader(call, swap.site, swap.behind)
            source, behind = reader if reader is not None else (region, None)
            env = source.base
        if behind is None:
            raise ValueError("nothing reads it here")
        begin, moves = _unmoved(source, behind.block.begin)
        before = _parts(region, begin).get(swap.before)
        if before is None:
            raise ValueError("something else stands before it")
        x = np.asarray(call.env[before.block.begin])
        there = Block(begin, behind.block.end, (*moves, *behind.block.values))
        first = source.of_block(there, {**env, begin: x.reshape(np.shape(source.base[begin]))}, call.numbers)
        back = _back(source, moves, first).reshape(x.shape)
        result = region.of_block(before.block, {**call.env, before.block.begin: back}, call.numbers)
        if swap.site is None and moves:
            result = region.of_block(Block(begin, moves[-1], moves), {**call.env, begin: result}, call.numbers)
        return result.reshape(np.shape(region.base[end]))

    return change


def _reader(call: Call, site: Site, key: _Key) -> tuple[Around, _Part] | None:
    """The part of a site that reads the value of a call."""
    network = call.region.network
    for value in _reached(network.graph, call.value)[:_MOST]:
        if of_line(site, {site_of(_node(network.graph, value), network.graph): [value]}):
            source = Region(network, value, call.region.key)
            part = _parts(source, value).get(key)
            if part is not None and _unmoved(source, part.block.begin)[0] == call.value:
                return source, part
    return None


def _back(region: Around, moves: tuple[int, ...], values: Array) -> Array:
    """Numbers in the order of axes that they had before the moves."""
    for move in reversed(moves):
        node = region.node(move)
        assert node is not None
        if short(node.op) == "transpose":
            values = np.swapaxes(values, int(node.operands[1]), int(node.operands[2]))
        elif short(node.op) == "permute":
            values = np.transpose(values, np.argsort(node.operands[1]))
        else:
            values = values.reshape(np.shape(region.base[node.reads[0]]))
    return values
