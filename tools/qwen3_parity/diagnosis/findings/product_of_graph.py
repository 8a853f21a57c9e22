"""The matrix product of a tap of a network that its golden's graph judges, over all steps that were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import LARGEST, Product, by_held, ends_of, spread
from qwen3_parity.mistakes.parameters import held_rows, loaded
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.refolded import OPERANDS, SAME, TURNED
from qwen3_reference.graph.scope import counted
from qwen3_spec.aten.noise import ROUNDOFF
from qwen3_spec.graph import Ref

_STEPS = 8
"""Steps whose noise is drawn."""


class _Parts(NamedTuple):
    """The values of a product: its own and x's, by number; the parameters by name, and whether that is `[in, out]`."""

    y: int
    x: int
    weight: str
    turned: bool
    bias: str


def product_of(network: Network, key: tuple[str, int], headroom: float) -> Product | None:
    """The product of one parameter that makes a tap; None for another op, and for a weight that is too large."""
    parts = _parts(network, network.graph.taps[key])
    if parts is None or (weight := network.slices.leaves[network.graph.leaves[parts.weight]]).size > LARGEST:
        return None
    weight = np.asarray(weight.T if parts.turned else weight, np.float64)
    hidden = parts.x not in network.slices.recorded and bool(network.slices.computing(parts.x))
    rows = list(_rows(network, key[0], parts, len(weight), noisy=hidden or network.narrow))
    if not rows:
        return None
    x, y, noise, ends = (np.concatenate(part) for part in zip(*rows, strict=True))
    sample, leaves = spread(len(x)), network.graph.leaves
    bias = network.slices.leaves[leaves[parts.bias]] if parts.bias else np.zeros(len(weight))
    dtype = network.slices.dtypes.get(network.graph.taps[key], "float32")
    product = Product(
        name=parts.weight,
        x=x[sample],
        weight=weight,
        bias=np.asarray(bias, np.float64),
        y=y[sample],
        noise=noise[sample],
        headroom=headroom,
        roundoff=ROUNDOFF[dtype] if dtype != "float32" else 0.0,
        loaded=loaded(parts.weight, network.golden, network.candidate),
        tensors={name: network.slices.leaves[leaves[name]] for name in network.graph.parameters},
        hidden=hidden,
        ends=ends[sample],
    )
    held = held_rows(parts.weight, network.candidate)
    return by_held(product, held.T if held is not None and parts.turned else held)


def _parts(network: Network, value: int) -> _Parts | None:
    """The product behind a value, seen through ops that leave its numbers as they stand."""
    graph, start = network.graph, value
    while (node := graph.node(value)) is not None and node.op.partition(".")[0] in SAME:
        value = node.reads[0]
        if value in network.slices.recorded:
            return None
    if node is None or (at := OPERANDS.get(node.op.partition(".")[0])) is None:
        return None
    x, weight, bias = (node.operands[i] if i is not None and i < len(node.operands) else None for i in at)
    if not isinstance(x, Ref) or not isinstance(weight, Ref):
        return None
    names = {number: name for name, number in graph.leaves.items() if name in graph.parameters}
    number, turned = weight.value, not node.op.startswith("linear")
    if (turn := graph.node(number)) is not None and turn.op.partition(".")[0] in TURNED:
        number, turned = turn.reads[0], not turned
    added = names.get(bias.value) if isinstance(bias, Ref) else "" if bias is None else None
    if added is None or number not in names or network.slices.leaves[number].ndim != 2:
        return None
    return _Parts(start, x.value, names[number], turned, added)


def _rows(
    network: Network, name: str, parts: _Parts, outputs: int, *, noisy: bool
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Input, output, further noise and the ends of the whole input at real tokens, step by step."""
    slices, every = network.slices, network.graph.taps.items()
    steps = sorted((key[1], value) for key, value in every if key[0] == name and value in slices.recorded)
    for step, value in steps[:_STEPS] if noisy else steps:
        here = _parts(network, value)
        if here is None or here.weight != parts.weight:
            continue
        item = network.golden[name, step]
        actual, counts = network.candidate[name, step].values(), counted(item, network.golden)
        x = slices.recorded[here.x] if here.x in slices.recorded else slices.value(here.x)
        noise = np.zeros(actual.shape)
        if noisy:
            dtype = network.dtype(item)
            noise = slices.unit(value, slices.value(value), counts, dtype)
        y = np.asarray(actual, np.float64).reshape(-1, outputs)
        x = np.asarray(x, np.float64).reshape(len(y), -1)
        good = counts.reshape(-1, outputs).all(1) & np.isfinite(y).all(1) & np.isfinite(x).all(1)
        yield x[good], y[good], noise.reshape(-1, outputs)[good], ends_of(x)[good]
