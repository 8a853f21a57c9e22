"""What is done to several values at once: cos and sin or a cache in few bits, the order of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Change, Edit, Site, numbers_of
from qwen3_parity.diagnosis.edits.grammar.values import NARROW
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import line_of, parameter_line, short
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.mistakes.rounding import INTEGERS
from qwen3_spec.graph import Node, Ref

_EXPERTS = 3
"""The axes of a parameter of all experts."""
_TEN = 10
"""Up to so many names stand in the order of their numbers."""
_OF_EACH_ROW = "row"
"""How the scales are called that a cache has: one for each head of each token."""


def at_once(region: Region) -> Iterator[Edit]:
    """Both tables of RoPE, keys and values, and all parameters of experts."""
    yield from _in_cache(region)
    turns: dict[tuple[str, str], list[Site]] = {}
    experts: dict[tuple[str, int], list[Site]] = {}
    for site, places in region.sites.items():
        node, base = region.node(places[0]), region.base[places[0]]
        if node is not None and short(node.op) in ("cos", "sin"):
            turns.setdefault((site.file, node.module), []).append(site)
        elif places[0] in region.names and np.ndim(base) == _EXPERTS and len(base) > _TEN:
            experts.setdefault((site.op.rpartition(".")[0], len(base)), []).append(site)
    for sites in turns.values():
        for name, narrow in NARROW if len(sites) > 1 else ():
            line = line_of(region, region.at(sites[0])[0])
            says = f"rounds cos and sin to {name}"
            yield Edit("edit.rounded", says, PLAIN + 1, dict.fromkeys(sites, _rounded(narrow)), line)
    for (module, count), sites in experts.items():
        order = np.array(sorted(range(count), key=str))
        says = f"has the parameters of {module.removeprefix('model.')} in the order of their names as text: 0, 1, 10 …"
        line = parameter_line(region, region.at(sites[0])[0])
        for words, indices in (("", order), (", the other way around", np.argsort(order))):
            change = _in_order(indices)
            yield Edit("edit.parameter", f"{says}{words}", PLAIN + 1, dict.fromkeys(sites, change), line)


def _rounded(narrow: Callable[[Array], Array]) -> Change:
    return lambda call: narrow(np.asarray(call.plain()))


def _in_order(order: Array) -> Change:
    return lambda call: np.asarray(call.operands[0])[order]


def _in_cache(region: Region) -> Iterator[Edit]:
    """Keys and values in few bits where they enter a cache that was not recorded: both, and each alone."""
    entering = _entering(region)
    types = (*NARROW, *((name, narrow) for name, narrow in INTEGERS if name.endswith(_OF_EACH_ROW)))
    for count in range(len(entering), 0, -1):
        for names in combinations(sorted(entering), count):
            sites = [entering[name] for name in names]
            line = line_of(region, region.at(sites[0])[0])
            for name, narrow in types:
                says = f"stores {' and '.join(names)} in the cache in {name}"
                yield Edit("edit.rounded", says, PLAIN + 1, dict.fromkeys(sites, _rounded(narrow)), line)


def _entering(region: Region) -> dict[str, Site]:
    """The ops of a layer whose results a cache joins to those of former steps, keys and values by name."""
    graph, numbers, entering = region.network.graph, numbers_of(region.key[0]), dict[str, Site]()
    for (name, step), value in graph.taps.items():
        kind = name.rpartition(".")[2].removesuffix("s")
        if step == region.key[1] and kind in ("key", "value") and numbers_of(name) == numbers:
            node, joined = region.node(value), False
            while node is not None and (short(node.op) == "slice" or _joins_slots(node)):
                joined = joined or short(node.op) == "cat"
                read = node.operands[0] if isinstance(node.operands[0], Ref) else node.operands[0][-1]  # the newest
                node = region.node(read.value)
            if node is not None and joined:
                entering[f"{kind}s"] = site_of(node, graph)
    return entering


def _joins_slots(node: Node) -> bool:
    """Whether a cat is along the axis before the channels."""
    axis = node.operands[1] if len(node.operands) > 1 else node.named.get("dim", 0)
    return short(node.op) == "cat" and axis in (-2, len(node.shape) - 2)
