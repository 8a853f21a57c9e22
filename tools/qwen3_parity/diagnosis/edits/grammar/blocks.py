"""A module or a line left out, run twice, with its mean taken off first, with channels in pairs for halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import LINE, LINES, MODULE
from qwen3_parity.diagnosis.edits.edit import Block, Call, Change, Edit, Site, Written, opened
from qwen3_parity.diagnosis.edits.grammar.layouts import halved, interleaved
from qwen3_parity.diagnosis.edits.modules import SMALL, modules_beside
from qwen3_parity.diagnosis.edits.region import Region, is_like
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, named, of_site, recorded_line, short
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE
from qwen3_spec.graph import Ref

_JOINTS = frozenset({"add", "linear", "mul", "cat", "embedding", "view"})
"""Ops whose results modules stand behind."""
_PRODUCTS = frozenset({"matmul", "bmm"})


def blocks(region: Region) -> Iterator[Edit]:
    """Every block of the region, on other inputs or without it."""
    for site in sorted(region.blocks, key=lambda site: [MODULE, LINES, LINE].index(site.file)):
        last = region.blocks[site][-1]
        line = caller_line(region, last.end, site.op) if site.file == MODULE else line_of(region, last.end)
        where = _where(site)
        name = "edit.module_left_out" if site.file == MODULE else "edit.left_out"
        yield Edit(name, f"leaves {where} out", PLAIN + 1, {site: _hands_on}, line)
        yield Edit("edit.twice", f"runs {where} twice", PLAIN + 1, {site: _twice}, line)
        shape = np.shape(region.base[last.end])
        if shape and shape[-1] > 1:
            says = f"takes the mean off what {where} reads"
            yield Edit("edit.mean_taken_off", says, PLAIN + 1, {site: _before(_without_mean)}, line)
        if site.file == MODULE and 1 < len(last.values) <= SMALL:
            yield from _earlier(region, site, where)
            yield from _moved(region, site, where)
        if site.file == MODULE and len(last.values) <= SMALL and _is_whole(region, site, last):
            yield from _on_others(region, site, where)
        if site.file == LINE and 1 < len(last.values) <= SMALL and not site.op.endswith(":forward"):
            yield from _too(region, site, site.op.partition(":")[2])
        cut = _cut(region, last) if shape and shape[-1] % 2 == 0 and shape[-1] > 2 else frozenset()
        if "halves" in cut:
            says = f"takes neighbouring channels in pairs, where halves are meant in {where}"
            yield Edit("edit.pairs", says, RARE, {site: _around(halved, interleaved)}, line)
        if "neighbours" in cut:
            says = f"takes halves of the channels, where neighbours in pairs are meant in {where}"
            yield Edit("edit.pairs", says, RARE, {site: _around(interleaved, halved)}, line)
    yield from _beside(region)
    yield from _of_products(region)


def _where(site: Site) -> str:
    """A module by its path, a line by its number, lines that are alike by what each of them does."""
    if site.file == MODULE:
        return site.op.removeprefix("model.")
    function = site.op.partition(":")[2]
    if site.file == LINE:
        return f"line {site.number} of {function}"
    ops = {short(op) for op in site.operands[0].split(",")}
    return f"each {ops.pop()} of {function}" if len(ops) == 1 else f"each line like this of {function}"


def _of_products(region: Region) -> Iterator[Edit]:
    """What a product of two values reads, keys or values, with its mean along an axis taken off."""
    for site, places in region.sites.items():
        node = region.node(places[0])
        is_product = node is not None and short(node.op) in _PRODUCTS
        for slot, operand in reversed([*enumerate(node.operands)]) if node is not None and is_product else ():
            for axis, size in enumerate(np.shape(region.base[operand.value]) if isinstance(operand, Ref) else ()):
                if size > 1 and isinstance(operand, Ref):
                    says = f"takes the mean of {named(region, operand.value)} along axis {axis} off"
                    change = _centred(slot, axis)
                    yield Edit("edit.mean_taken_off", says, COMBINED, {site: change}, line_of(region, places[0]))


def _centred(slot: int, axis: int) -> Change:
    def change(call: Call) -> Any:
        x = np.asarray(call.operands[slot])
        return call.plain(*call.operands[:slot], x - x.mean(axis, keepdims=True), *call.operands[slot + 1 :])

    return change


def _cut(region: Region, block: Block) -> frozenset[str]:
    """Into what a block cuts as many channels as it gives: halves, or neighbours that are pairs."""
    channels, cut, halves = np.shape(region.base[block.end])[-1], set[str](), list[int]()
    for value in block.values:
        node, base = region.node(value), region.base[value]
        source = region.base[node.reads[0]] if node is not None and node.reads else None
        whole = source.shape if isinstance(source, np.ndarray) else ()  # not what is itself in parts
        if node is None or whole[-1:] != (channels,):
            continue
        if not isinstance(base, np.ndarray):  # a split
            cut |= {"halves"} if [np.shape(part)[-1] for part in base] == 2 * [channels // 2] else set()
        elif base.shape == (*whole[:-1], channels // 2, 2):
            cut.add("neighbours")
        elif base.shape == (*whole[:-1], 2, channels // 2):
            cut.add("halves")
        elif short(node.op) == "slice" and base.shape == (*whole[:-1], channels // 2):
            if (*node.operands, 1)[4:5] == (2,):
                cut.add("neighbours")
            elif not any(_joins_last(region, user, value) for user in region.users.get(value, ())):
                halves.append(node.reads[0])  # a last part that no angle turns is no half
    return frozenset(cut | ({"halves"} if len(set(halves)) < len(halves) else set()))


def _joins_last(region: Region, user: int, value: int) -> bool:
    """Whether an op joins parts, of which the last is a value from the end of another."""
    node, cut = region.node(user), region.node(value)
    joins = node is not None and short(node.op) == "cat" and node.reads[-1] == value
    return joins and cut is not None and bool(cut.operands[2])


def _beside(region: Region) -> Iterator[Edit]:
    """A module of the same layer run on a value of the region, beside its own place."""
    for name, module in modules_beside(region).items():
        shape = np.shape(module.region.base[module.block.end])
        for site, places in reversed(region.sites.items()):
            base = region.base[places[0]]
            if isinstance(base, np.ndarray) and base.shape == shape and base.dtype.kind == "f":
                node = region.node(places[0])
                target = short(node.op) if node is not None else of_site(site)
                says = f"runs {name.removeprefix('model.')} on {target}, too"
                line = recorded_line(region, places[0]) if node is None else line_of(region, places[0])
                yield Edit("edit.moved", says, COMBINED + 1, {site: _by_module(name)}, line)


def _by_module(name: str) -> Change:
    return lambda call: modules_beside(call.region)[name].of(call.plain())  # each layer has its own


def _earlier(region: Region, site: Site, where: str) -> Iterator[Edit]:
    """A small module that reads one part of the sum or product alone which it is to read."""
    block = region.blocks[site][-1]
    node = region.node(block.begin)
    for slot, operand in enumerate(node.operands if node is not None else ()):
        part = region.base.get(operand.value) if isinstance(operand, Ref) else None
        if node is not None and isinstance(part, np.ndarray) and part.shape == np.shape(region.base[block.begin]):
            says = f"runs {where} on {named(region, operand.value)}, not on the result of {short(node.op)}"
            line = caller_line(region, block.end, site.op)
            yield Edit("edit.reads", says, RARE, {site: _on_part(slot)}, line)


def _on_part(slot: int) -> Change:
    """The block on an operand of the op that makes what it reads."""

    def change(call: Call) -> Any:
        node = call.region.node(call.region.block_of(call.value, call.site).begin)
        operand = node.operands[slot] if node is not None and slot < len(node.operands) else None
        if not isinstance(operand, Ref):
            raise ValueError("nothing stands before it")
        return call.region.again(call, np.asarray(call.env[operand.value]))

    return change


def _moved(region: Region, site: Site, where: str) -> Iterator[Edit]:
    """A small module run on another value, and not on its own."""
    shape = np.shape(region.base[region.blocks[site][-1].end])
    for target, places in region.sites.items():
        node = region.node(places[0])
        if node is None or short(node.op) not in _JOINTS or np.shape(region.base[places[0]]) != shape:
            continue
        if len(places) == len(region.blocks[site]) and not set(places) & {b.begin for b in region.blocks[site]}:
            line = line_of(region, places[0])
            says = f"runs {where} on the result of {short(node.op)}, not on what it reads"
            yield Edit("edit.moved", says, COMBINED, {site: _hands_on, target: _run_on(site)}, line)
            says = f"runs {where} on the result of {short(node.op)}, too"
            yield Edit("edit.moved", says, COMBINED, {target: _run_on(site)}, line)


def _is_whole(region: Region, site: Site, block: Block) -> bool:
    """Whether a block is a module, and not what it does beside those within it that were recorded."""
    modules = {node.module for value in block.values if (node := region.node(value)) is not None}
    return any(region.network.is_smallest(module) or opened(module) != site.op for module in modules)


def _on_others(region: Region, site: Site, where: str) -> Iterator[Edit]:
    """A small module run on another value of the layer, or on the sum with one."""
    block = region.blocks[site][-1]
    shape, line = np.shape(region.base[block.begin]), caller_line(region, block.end, site.op)
    behind = region.downstream([block.end])
    values = dict[str, Callable[[Call], Any]]()
    for target, places in region.sites.items():
        value = places[-1]
        if len(places) == len(region.blocks[site]) and value not in (block.begin, *block.values):
            base = region.base[value]
            if value not in behind and region.node(value) is not None and getattr(base, "shape", None) == shape:
                values[named(region, value)] = _value_of(target)
    for name in region.sources_of(shape):
        if region.sources[name] != block.begin:
            values[name.removeprefix("model.")] = _source(name)
    for name in region.later_sources if block.end == region.value else ():
        if is_like(np.shape(region.source(name)), shape):
            values[name.removeprefix("model.")] = _source(name)
    for name, of in values.items():
        says = f"runs {where} on {name}, not on what it reads"
        yield Edit("edit.reads", says, COMBINED, {site: _on_another(of)}, line)
        yield Edit("edit.reads", f"adds {name} to what {where} reads", COMBINED + 1, {site: _with(of)}, line)


def _source(name: str) -> Callable[[Call], Any]:
    return lambda call: call.region.source(name, call.numbers, np.shape(_hands_on(call)))


def _value_of(site: Site) -> Callable[[Call], Any]:
    """The value of a site that stands in the same place among its own as a block does among its site's."""

    def value(call: Call) -> Any:
        number = call.region.at(call.site).index(call.value)
        place = call.region.at(site)[number]
        return call.env[place] if place in call.env else call.region.alone(place, call.numbers)

    return value


def _on_another(of: Callable[[Call], Any]) -> Change:
    return lambda call: call.region.again(call, np.asarray(of(call)))


def _too(region: Region, site: Site, function: str) -> Iterator[Edit]:
    """A function's line run on another value of the shape of what it reads, too: RoPE on values."""
    block = region.blocks[site][-1]
    shape, between = np.shape(region.base[block.end]), {*block.values, block.begin}
    for target, places in region.sites.items():
        if len(places) != len(region.blocks[site]) or places[-1] in between:
            continue
        node, base = region.node(places[0]), region.base[places[-1]]
        if node is not None and isinstance(base, np.ndarray) and base.shape == shape and base.dtype.kind == "f":
            says = f"runs {function} on the result of {short(node.op)}, too"
            line = _called_for(line_of(region, places[0]), line_of(region, block.end))
            yield Edit("edit.moved", says, COMBINED + 1, {target: _run_on(site)}, line)


def _called_for(target: Written | None, function: Written | None) -> Written | None:
    """The line of a value, and the one that calls the function which is run on it, too."""
    if target is None or function is None or function.caller is None:
        return target
    return target._replace(reader=function.caller)


def _with(of: Callable[[Call], Any]) -> Change:
    return lambda call: call.region.again(call, _hands_on(call) + of(call))


def _run_on(site: Site) -> Change:
    """The block of a site that stands in the same place among its own as a value does among its site's."""

    def change(call: Call) -> Any:
        number, blocks = call.region.at(call.site).index(call.value), call.region.blocks[site]
        return call.region.again(call, call.plain(), blocks[min(number, len(blocks) - 1)])

    return change


def _hands_on(call: Call) -> Any:
    return np.asarray(call.env[call.region.block_of(call.value, call.site).begin])


def _twice(call: Call) -> Any:
    return call.region.again(call, call.plain())


def _before(function: Callable[[Array], Array]) -> Change:
    return lambda call: call.region.again(call, function(_hands_on(call)))


def _around(before: Callable[[Array, int], Array], behind: Callable[[Array, int], Array]) -> Change:
    return lambda call: behind(call.region.again(call, before(_hands_on(call), -1)), -1)


def _without_mean(x: Array) -> Array:
    return np.asarray(x - x.mean(-1, keepdims=True))
