"""Values of a site near an op that is run otherwise: in its region, or in its layer where the region needs none."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Site, numbers_of
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import site_of

_FARTHEST = 200
"""Ops between two values that stand in each other's place."""


def last_before(call: Call, site: Site) -> Array:
    """The last value of a site before a call's: keys of former steps need no other value of theirs.

    Raises `ValueError` where there is none in the region or in its layer.
    """
    first = len(call.region.network.graph.leaves)
    inside = [value for value in call.region.sites.get(site, ()) if value < call.value]
    for value in range(call.value - 1, max(first, *inside, first) - 1, -1):
        if _is_of(call, value, site):
            known = call.env.get(value)
            return _computed(call, value) if known is None else np.asarray(known)
    if not inside:
        raise ValueError("nothing stands before it")
    return np.asarray(call.env[inside[-1]])


def nearest(call: Call, site: Site, *, behind: bool = False) -> Array:
    """The value of a site nearest to a call's in its layer, or nearest `behind` it alone, without an edit.

    Raises `ValueError` without one.
    """
    graph = call.region.network.graph
    first = len(graph.leaves)
    for away in range(1, _FARTHEST):
        for value in (call.value + away,) if behind else (call.value + away, call.value - away):
            if first <= value < first + len(graph.nodes) and _is_of(call, value, site):
                known = call.before.get(value)
                return _computed(call, value) if known is None else np.asarray(known)
    raise ValueError("nothing stands beside it")


def _is_of(call: Call, value: int, site: Site) -> bool:
    graph = call.region.network.graph
    node, here = graph.node(value), graph.node(call.value)
    if node is None or here is None or node.op != site.op:
        return False
    return numbers_of(f"{node.module}.") == numbers_of(f"{here.module}.") and site_of(node, graph) == site


def value_of(call: Call, value: int) -> Array:
    """Any value of the graph: as the call has it, as it was recorded or stored, or computed from that."""
    region = call.region
    if value in call.env:
        return np.asarray(call.env[value])
    slices = region.network.slices
    for known in (slices.recorded, slices.leaves):
        if value in known:
            return np.asarray(known[value])
    return _computed(call, value)


def _computed(call: Call, value: int) -> Array:
    there = Region(call.region.network, value, call.region.key)
    result = np.asarray(there.base[value])
    call.region.work += there.work
    return result
