"""Wrong taps of a value that another wrong tap holds, too, as `self_attn` holds its `o_proj`'s.

With the same numbers they are the same fault. With others they are judged as what they are, copies: that the first is
wrong, as by a weight in few bits, does not clear what is done to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Tensor
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding, Key
from qwen3_parity.slices.judge import Alone, judge
from qwen3_parity.slices.network import DTYPES, Network, is_finite
from qwen3_reference.graph.scope import counted
from qwen3_spec.graph import Ref

_COPY = "clone.default"


class Joined(NamedTuple):
    """What is wrong of a fault beside what the taps before have: nothing, or taps in a `network` that copies those.

    `first` are the taps before of all its taps that have such.
    """

    first: Mapping[Key, Key]
    fault: Fault
    wrong: Sequence[Alone]
    network: Network


def joined(fault: Fault, wrong: Sequence[Alone], before: Mapping[int, Key], network: Network) -> Joined:
    """A fault whose taps are judged by the wrong ones `before` them that hold their values."""
    values = {_key(part): network.graph.taps[_key(part)] for part in wrong}
    first = {key: before[value] for key, value in values.items() if value in before}
    same = {key for key, source in first.items() if _hold_the_same(network.candidate[key], network.candidate[source])}
    if same == values.keys():
        return Joined(first, replace(fault, wrong=()), (), network)
    copies = {key: source for key, source in first.items() if _is_whole(source, network)}
    judged = [part for part in wrong if _key(part) in copies or _key(part) not in same]
    return _judged_again(fault, judged, copies, network)._replace(first=first)


def _judged_again(fault: Fault, wrong: Sequence[Alone], copies: Mapping[Key, Key], network: Network) -> Joined:
    """A fault of these taps, of which some are `copies`."""
    net = _of_copies(copies, network) if copies else network
    parts = [_again(part, net) if _key(part) in copies else part for part in wrong]
    rest = [part for part in parts if not part.verdict.passed and not part.verdict.reason]
    passing = tuple(part.verdict for part in parts if part.verdict.passed)
    fault = replace(fault, wrong=tuple(part.verdict for part in rest), passing=(*fault.passing, *passing))
    return Joined({}, fault, rest, net)


def idle_beside(key: Key, first: Mapping[Key, Key], network: Network) -> list[Finding]:
    """That the reference does nothing at a tap, where the candidate holds its value in a `first` one, or right."""
    if key in first:
        return [_idle(first[key][0])]
    value = network.graph.taps[key]
    if value not in network.twice:
        return []
    names = [name for (name, step), tap in network.graph.taps.items() if tap == value and step == key[1]]
    taps = (network.candidate.get(name, key[1]) for name in names if name != key[0])
    before = [tap.info.name for tap in taps if tap is not None and np.array_equal(tap.values(), network.twice[value])]
    return [_idle(name) for name in before[-1:]]


def _idle(name: str) -> Finding:
    says = f"the reference does nothing here: it gives what {name} holds, and this engine gives otherwise"
    return Finding("from.nothing", says, 1.0)


def _key(part: Alone) -> Key:
    return part.verdict.name, part.verdict.step


def _hold_the_same(tap: Tensor, first: Tensor) -> bool:
    return np.array_equal(tap.values(), first.values(), equal_nan=tap.is_float)


def _again(part: Alone, network: Network) -> Alone:
    expected = network.golden[_key(part)]
    return judge(network.candidate[_key(part)], expected, counted(expected, network.golden), network)


def _is_whole(key: Key, network: Network) -> bool:
    return network.candidate[key].array.shape == network.golden[key].array.shape


def _of_copies(copies: Mapping[Key, Key], network: Network) -> Network:
    """The network in which these taps are copies of others, which hold the numbers of their values."""
    graph, slices, broken = network.graph, network.slices, {*network.broken}
    nodes, taps = [*graph.nodes], dict(graph.taps)
    recorded, dtypes = dict(slices.recorded), dict(slices.dtypes)
    for key, source in copies.items():
        value, tap = taps[source], network.candidate[source]
        node = graph.node(value)
        assert node is not None  # an input is no wrong tap
        recorded[value], dtypes[value] = tap.values(), DTYPES.get(tap.info.dtype, "")
        broken -= {value} if is_finite(tap, network.golden[source]) else set()
        taps[key] = len(graph.leaves) + len(nodes)
        nodes.append(replace(node, op=_COPY, operands=(Ref(value),), named={}))
    graph = replace(graph, nodes=tuple(nodes), taps=taps)
    slices = replace(slices, graph=graph, recorded=recorded, dtypes=dtypes)
    return replace(network, graph=graph, slices=slices, broken=broken)
