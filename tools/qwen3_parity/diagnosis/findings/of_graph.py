"""The wrong tap of a network that its golden's graph judges."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.diagnosis.findings.attended import Attended, attended
from qwen3_parity.diagnosis.findings.product_of_graph import product_of
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap, in_float64
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.slices.axes import axes_of
from qwen3_parity.slices.judge import Alone
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.scope import counted
from qwen3_spec.slices import chooser

_OF_A_CONTEXT = ("query", "key", "value", "probs")
_MOST = 400
"""Ops between a tap and what it is read from: more are not run once more for every way to round that."""


def wrong_tap(alone: Alone, network: Network) -> WrongTap | None:
    """A tap judged by its slice as `WrongTap`; None for another shape, a choice, and the last rows of logits."""
    key = alone.verdict.name, alone.verdict.step
    item, value = network.golden[key], network.value(network.golden[key])
    actual = network.candidate[key].values()
    if alone.verdict.reason or actual.shape != item.array.shape or chooser(network.graph, value) is not None:
        return None
    truth, judged = network.slices.value(value), counted(item, network.golden)
    unit = None
    if truth.dtype.kind == "f":
        unit = network.slices.unit(value, truth, judged, network.dtype(item))
    most = headroom("slice", "narrow" if network.narrow else "").max
    order = network.graph.taps
    names = {number: tap for tap, number in order.items()}

    def recorded(name: str, step: int) -> Array | None:
        tap = network.candidate.get(name, step)
        return None if tap is None else in_float64(tap.values())

    def golden(name: str, step: int) -> Array | None:
        tap = network.golden.get(name, step)
        return None if tap is None else in_float64(tap.values())

    def again(read: Key, values: Array) -> Array | None:
        number = order.get(read)
        if number is None or number not in network.slices.reads(value) or len(network.slices.order(value)) > _MOST:
            return None
        return in_float64(network.slices.value(value, instead={number: values}))

    return WrongTap(
        key=key,
        axes=axes_of(item),
        ops=frozenset(node.op.partition(".")[0] for node in network.slices.computing(value)),
        actual=in_float64(actual),
        truth=in_float64(truth),
        unit=unit,
        judged=judged,
        wrong=np.asarray(judged & (alone.cells > most)),
        headroom=most,
        recorded=recorded,
        keys=sorted((tap.key for tap in network.candidate), key=lambda tap: (order.get(tap, -1), tap != key)),
        reads=[names[read] for read in network.slices.reads(value) if read in names],
        config=network.config,
        axes_of=lambda name, step: () if (tap := network.golden.get(name, step)) is None else axes_of(tap),
        attention=partial(_attention, network, key),
        product=partial(product_of, network, key, most),
        wide=network.candidate[key].info.dtype in (pb.F32, pb.F64),
        again=again,
        golden=golden,
    )


def _attention(network: Network, key: Key) -> Attended | None:
    """What a context is made of: what was recorded, else what follows from it."""
    module, _, leaf = key[0].rpartition(".")
    numbers = [network.graph.taps.get((f"{module}.{name}", key[1])) for name in _OF_A_CONTEXT]
    if leaf != "context" or None in numbers:
        return None
    known, slices = network.slices.recorded, network.slices
    made_of = attended(*(known[at] if at in known else slices.value(at) for at in numbers if at is not None))
    return None if made_of is None else replace(made_of, first=_first_slot(network, key, made_of.keys.shape[2]))


def _first_slot(network: Network, key: Key, keys: int) -> int:
    """The slot of the first of a context's keys, by the queries up to its step: a window's cache has the last alone."""
    module = key[0].rpartition(".")[0]
    items = [network.golden.get(key[0], step) for step in range(key[1] + 1)]
    lengths = [item.info.shape[axes_of(item).index("query")] for item in items if item is not None]
    of_itself = network.golden.get(f"{module}.key", 0)
    if len(lengths) < len(items) or of_itself is None or of_itself.info.shape[2] != lengths[0]:
        return 0
    return max(0, sum(lengths) - keys)
