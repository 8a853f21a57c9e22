"""Something that runs in one place more: an activation on a result, a length of 1, the norm of a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import MODULE
from qwen3_parity.diagnosis.edits.edit import Block, Call, Change, Edit, Site, opened
from qwen3_parity.diagnosis.edits.grammar.activations import ACTIVATIONS, Activation
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.grammar.softmax import softmax
from qwen3_parity.diagnosis.edits.modules import SMALL
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, short
from qwen3_parity.mistakes.ranks import COMBINED, RARE

_ON = frozenset({"linear", "addmm", "matmul", "bmm", "add", "mul", "div", "softmax", "getitem"})
"""Ops whose results people run something on; a part of a split is one, too."""
_MOST_PARTS = 64
_EPS, _HEADS = "_eps", 4
"""What a key of the config has that is a norm's epsilon; the axes of heads by themselves."""


def added(region: Region) -> Iterator[Edit]:
    """Every product and sum with something run on it; every norm by parts, or over all heads."""
    for site, places in reversed(region.sites.items()):
        node, base = region.node(places[0]), region.base[places[0]]
        if node is None or short(node.op) not in _ON or not isinstance(base, np.ndarray) or not base.ndim:
            continue
        line, op = line_of(region, places[0]), short(node.op)
        result = f"part {site.operands[-1]}" if op == "getitem" else f"the result of {op}"
        for name, function in FUNCTIONS.items():
            yield Edit("edit.added", f"runs {name} on {result}", COMBINED, {site: _run_on(function)}, line)
        if op == "linear":
            says = "scales what linear reads to length 1"
            yield Edit("edit.added", says, COMBINED, {site: _before(unit_length)}, line)
    yield from _of_size_1(region)
    yield from _unread(region)
    norms = {site: blocks[-1] for site, blocks in region.blocks.items()
             if site.file == MODULE and _is_norm(region, blocks[-1])}  # fmt: skip
    yield from _norms(region, norms)


def unweighted(region: Region) -> Mapping[str, Callable[[Array], Array]]:
    """Norms without a weight, by name, with the config's epsilon."""
    eps = max((value for key, value in config_numbers(region.network.config).items() if _EPS in key), default=0.0)

    def by_rms(x: Array) -> Array:
        return np.asarray(x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + eps))

    return {"a norm": by_rms, "a LayerNorm": lambda x: by_rms(x - np.mean(x, -1, keepdims=True))}


def _of_size_1(region: Region) -> Iterator[Edit]:
    """Rows of a product, or of its heads, that a norm without a weight runs on: V as Q and K, say."""
    for site, places in reversed(region.sites.items()):
        node, base = region.node(places[0]), region.base[places[0]]
        heads = node is not None and short(node.op) == "transpose" and np.ndim(base) == _HEADS
        if node is not None and (heads or short(node.op) == "linear"):
            for name, norm in unweighted(region).items():
                says = f"runs {name} without a weight on the result of {short(node.op)}"
                yield Edit("edit.added", says, COMBINED, {site: _behind(norm)}, line_of(region, places[0]))


def _unread(region: Region) -> Iterator[Edit]:
    """Vectors of an op's own module that nothing here reads, added to what is as wide: a router's correction, say."""
    read = {region.names[value] for value in region.leaves if value in region.names}
    vectors = dict[str, list[str]]()
    for name in region.network.graph.leaves:
        module, _, leaf = name.rpartition(".")
        if module and name not in read and np.ndim(region.parameter(name)) == 1:
            vectors.setdefault(module, []).append(leaf)
    for site, places in reversed(region.sites.items()):
        node, base = region.node(places[0]), region.base[places[0]]
        if node is None or not isinstance(base, np.ndarray) or base.dtype.kind != "f":
            continue
        for leaf in vectors.get(node.module, ()):
            if region.parameter(f"{node.module}.{leaf}").shape == base.shape[-1:]:
                name = opened(f"{node.module}.{leaf}").removeprefix("model.")
                says = f"adds {name} to the result of {short(node.op)}"
                yield Edit("edit.added", says, RARE, {site: _with_vector(leaf)}, line_of(region, places[0]))


def _with_vector(leaf: str) -> Change:
    def change(call: Call) -> Array:
        assert call.node is not None
        return np.asarray(call.plain() + call.region.parameter(f"{call.node.module}.{leaf}"))

    return change


def unit_length(x: Array) -> Array:
    """Rows of length 1."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12))


FUNCTIONS: Mapping[str, Activation] = {
    "a square": lambda _, x: np.square(x),
    **{name: function for name, function in ACTIVATIONS.items() if name not in ("nothing", "silu twice")},
    "softmax": lambda _, x: softmax(x, -1),
    "log softmax": lambda _, x: np.log(softmax(x, -1)),
}
"""What people run on a result, by name."""


def _run_on(function: Activation) -> Change:
    return lambda call: function(call.numbers, call.plain())


def _behind(function: Callable[[Array], Array]) -> Change:
    return lambda call: function(call.plain())


def _before(function: Callable[[Array], Array]) -> Change:
    return lambda call: call.plain(function(call.operands[0]), *call.operands[1:])


def _is_norm(region: Region, block: Block) -> bool:
    ops = [short(node.op) for value in block.values if (node := region.node(value)) is not None]
    return len(ops) <= SMALL and ("mean" in ops or "rms_norm" in ops)


def _norms(region: Region, norms: Mapping[Site, Block]) -> Iterator[Edit]:
    """Every norm by itself, and all of them: by RMS alone, of a mean that is taken off nothing is said."""
    every = dict[str, dict[Site, Change]]()
    for site, block in norms.items():
        for says, change in _statistics(region, block):
            where = says.format(site.op.removeprefix("model."))
            yield Edit("edit.axis", where, RARE, {site: change}, line_of(region, _statistic(region, block)))
            every.setdefault(says, {})[site] = change
    for says, changes in every.items():
        if len(changes) > 1:
            line = line_of(region, max(_statistic(region, norms[site]) for site in changes))
            yield Edit("edit.axis", says.format("every norm"), RARE, changes, line)
    within = dict[str, list[Site]]()
    for site in norms:
        within.setdefault(site.op.rpartition(".")[0], []).append(site)
    for module, sites in within.items():
        if len(sites) > 1:
            names = " and ".join(site.op.rpartition(".")[2] for site in sites)
            says = f"leaves all {len(sites)} norms of {module.removeprefix('model.')} out: {names}"
            line = caller_line(region, norms[sites[0]].end, sites[0].op)
            yield Edit("edit.module_left_out", says, RARE, dict.fromkeys(sites, _begin), line)


def _statistic(region: Region, block: Block) -> int:
    """The value that a norm divides by, as far as its channels are summed; its result where that is one op."""
    ops = {short(node.op): value for value in block.values if (node := region.node(value)) is not None}
    return ops.get("mean", block.end)


def _statistics(region: Region, block: Block) -> Iterator[tuple[str, Change]]:
    shape = np.shape(region.base[block.begin])
    numbers = {int(value) for value in config_numbers(region.network.config).values() if value == int(value)}
    parts = {2} | {count for count in numbers if 1 < count <= _MOST_PARTS}
    parts |= {shape[-1] // count for count in numbers if 1 < count < shape[-1] and shape[-1] % count == 0}
    for count in sorted(parts):
        if shape[-1] % count == 0 and count < shape[-1]:
            yield f"runs {{}} on each of {count} parts by itself", _by_parts(count)
    if (weight := _weight(region, block)) is not None:
        yield "multiplies by the weight before {} takes its statistics, not behind them", _weighted_before(weight)
    powers = {2**n for n in range(2, shape[-1].bit_length())}
    for count in sorted(numbers | powers | {shape[-1] // part for part in (2, 4) if shape[-1] % part == 0}):
        if 0 < count < shape[-1]:
            yield f"takes the statistics of {{}} over the first {count} channels alone", _of_first(count, count)
            yield f"sums the first {count} channels alone in the statistics of {{}}", _of_first(count, shape[-1])
    for axis in (1, 2):
        if len(shape) > axis and 1 < shape[-1 - axis] <= _MOST_PARTS:
            yield f"has the statistics of {{}} over axis {-1 - axis}, too", _over(-1 - axis)


def _weight(region: Region, block: Block) -> str | None:
    """The one parameter of a block's modules, its numbers open."""
    reads = {read for value in block.values if (node := region.node(value)) is not None for read in node.reads}
    names = {opened(region.names[read]) for read in reads & region.parameters}
    return names.pop() if len(names) == 1 else None


def _weighted_before(name: str) -> Change:
    def change(call: Call) -> Array:
        block = call.region.block_of(call.value, call.site)
        reads = {read for value in block.values if (node := call.region.node(value)) is not None for read in node.reads}
        weights = [read for read in sorted(reads & call.region.parameters) if opened(call.region.names[read]) == name]
        weight = np.asarray(call.env[weights[0]], np.float64)
        return np.asarray(call.region.again(call, _begin(call) * weight) / np.where(weight == 0, 1, weight))

    return change


def _begin(call: Call) -> Array:
    return np.asarray(call.env[call.region.block_of(call.value, call.site).begin])


def _by_parts(count: int) -> Change:
    """A part beside copies of itself has its own statistics: all parts as rows of one batch, where its size is free."""

    def change(call: Call) -> Array:
        x = _begin(call)
        rows = [np.concatenate([part] * count, -1) for part in np.split(x, count, -1)]
        try:
            every = np.split(call.region.again(call, np.concatenate(rows)), count)
        except ValueError:
            every = [call.region.again(call, row) for row in rows]
        width = x.shape[-1] // count
        return np.concatenate([each[..., n * width : (n + 1) * width] for n, each in enumerate(every)], -1)

    return change


def _over(axis: int) -> Change:
    return lambda call: _of_size(call, np.square(_begin(call)).mean((axis, -1), keepdims=True))


def _of_first(count: int, divisor: int) -> Change:
    return lambda call: _of_size(call, np.square(_begin(call)[..., :count]).sum(-1, keepdims=True) / divisor)


def _of_size(call: Call, square: Array) -> Array:
    """Of numbers that are all as large as a root of mean squares a norm gives weight and factor."""
    x = _begin(call)
    even = np.broadcast_to(np.sqrt(square), x.shape)
    return np.asarray(x * call.region.again(call, even) / np.where(even > 0, even, 1))
