"""A layer of one type that is run as one of another: with its angles, its mask, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Edit, Site, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of
from qwen3_parity.diagnosis.edits.words import line_of
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec.graph import Node

_HIDDEN = float(np.finfo(np.float32).min)


def layer_types(region: Region) -> Iterator[Edit]:
    """What layers of one type read from outside, by what those of another read: all of it, or what a module makes."""
    graph, groups = region.network.graph, dict[str, list[int]]()
    for value in region.counterparts:
        base = region.base.get(value)
        if isinstance(base, np.ndarray) and base.ndim > 1 and base.dtype.kind in "fb":
            groups.setdefault(region.module_of(value), []).append(value)
    every = [value for values in groups.values() for value in values]
    for values in [every, *groups.values()] if len(groups) > 1 else groups.values():
        sites = [_site(region, value, node) for value in values if (node := graph.node(value)) is not None]
        says = f"reads what {_listed(region, values)} as a layer of another type does{_types(region, values[0])}"
        changes = dict.fromkeys([site for site in sites if site in region.sites], _of_another)
        if changes:
            yield Edit("edit.layer_type", says, PLAIN + 1, changes, line_of(region, values[-1]))


def _site(region: Region, value: int, node: Node) -> Site:
    """An op's, or a recorded value's."""
    name = region.tap_names.get(value, "") if value in region.leaves else ""
    return Site("", 0, opened(name)) if name else site_of(node, region.network.graph)


def _listed(region: Region, values: Sequence[int]) -> str:
    """The modules, or functions, that make values, in words."""
    graph = region.network.graph
    makers = [node for value in values if (node := graph.node(value)) is not None]
    names = list(dict.fromkeys(_maker(region, node) for node in makers))
    return f"{' and '.join(names)} {'give' if len(names) > 1 else 'gives'}"


def _maker(region: Region, node: Node) -> str:
    if region.network.is_smallest(node.module) or not node.lines:
        return node.module.removeprefix("model.")
    return node.lines[-1].function


def _types(region: Region, value: int) -> str:
    """Which type and which other, where the config says it."""
    types, (_, layer, its_layer) = region.network.config.get("layer_types"), region.counterparts[value]
    if not isinstance(types, list) or max(layer, its_layer) >= len(types):
        return f", as layer {its_layer}"
    return f": {types[its_layer]} for {types[layer]}"


def _of_another(call: Call) -> Any:
    if call.value not in call.region.counterparts:
        return call.plain()
    return call.numbers.lifted(_as_long(call.region.counterpart(call.value), np.shape(call.region.base[call.value])))


def _as_long(values: Array, shape: Sequence[int]) -> Array:
    """A mask of the newest keys: the last ones, or with hidden ones ahead of them."""
    more = shape[-1] - values.shape[-1]
    if more <= 0:
        return values[..., -more:]
    hidden = False if values.dtype.kind == "b" else _HIDDEN
    return np.pad(values, [*((0, 0),) * (values.ndim - 1), (more, 0)], constant_values=hidden)
