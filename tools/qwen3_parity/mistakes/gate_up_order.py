"""Gates and ups that meet in another order: a fused tensor that is read by another layout, an operand out of order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.activation import Function
from qwen3_parity.mistakes.formulas import Formula, inputs
from qwen3_parity.mistakes.hypothesis import Hypothesis, OfSite
from qwen3_parity.mistakes.observed import Observed
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.site import Site

_FIX = "channel i of act is act(gate[i]) * up[i]; a fused gate_up has the layout that its reader takes it to have"
_MOST = 1 << 22
"""Numbers that are compared to find an order, 8 bytes each: larger taps are not looked through."""
_NEAR = 1e-4
"""The part of a channel's size by which the right partner may miss it."""
_SHOWN = 4


def layouts(act: Function, width: int) -> Iterator[Hypothesis]:
    """A fused gate_up `[…, 2 width]` that was written by one layout and is read by another."""
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128, width) if width % size == 0]
    for written, read in permutations(dict.fromkeys(sizes), 2):
        if width not in (written, read) and 1 not in (written, read):
            continue
        says = f"reads a fused gate_up {_words(read, width)} that has {_words(written, width)}"
        yield Hypothesis("mlp.gate_up_layout", says, _FIX, Formula(partial(_relaid, act, written, read)), PLAIN + 1)


def _words(size: int, width: int) -> str:
    return "gates before ups" if size == width else "a gate and an up by turns" if size == 1 else f"by turns of {size}"


def _relaid(act: Function, written: int, read: int, site: Site) -> Array:
    gate, up = inputs(site)
    lead, width = gate.shape[:-1], gate.shape[-1]
    pairs = np.stack([x.reshape(*lead, width // written, written) for x in (gate, up)], axis=-2)
    gate, up = np.moveaxis(pairs.reshape(*lead, width // read, 2, read), -2, 0)
    return np.asanyarray((act(gate) * up).reshape(*lead, width))


def order(act: Function, site: Site, observed: Observed) -> Iterator[Hypothesis]:
    """The order of gates, or of ups, by which every wrong channel is another channel's product."""
    gate, up = (x.reshape(-1, x.shape[-1]) for x in inputs(site))
    actual = observed.actual.astype(np.float64).reshape(gate.shape)
    wrong = np.flatnonzero(observed.wrong.reshape(gate.shape).any(axis=0))
    if not len(wrong) or gate.size * len(wrong) > _MOST or len(gate) < 2:
        return
    for slot, name, moved, still in ((0, "mlp.gate_order", act(gate), up), (1, "mlp.up_order", up, act(gate))):
        matches = _partners(actual[:, wrong], moved, still[:, wrong])
        if matches is None:
            continue
        partners = np.arange(gate.shape[-1])
        partners[wrong] = matches
        listed = ", ".join(f"{i} ← {partners[i]}" for i in wrong[:_SHOWN]) + (" …" if len(wrong) > _SHOWN else "")
        says = f"takes {('gate', 'up')[slot]}'s channels in another order: {listed}"
        yield Hypothesis(name, says, _FIX, OfSite(partial(_reordered, slot, partners)), RARE)


def _partners(actual: Array, moved: Array, still: Array) -> Array | None:
    """`[wrong]`: which channel of `moved` each product with `still` has; None where a product has none."""
    misses = np.abs(actual[:, :, None] - moved[:, None, :] * still[:, :, None]).max(axis=0)
    near = misses.min(axis=1) <= _NEAR * np.abs(actual).max(axis=0)
    return misses.argmin(axis=1) if near.all() else None


def _reordered(slot: int, partners: Array, site: Site) -> Site | None:
    if site.inputs[slot].shape[-1] != len(partners):
        return None
    reordered = tuple(x[..., partners] if index == slot else x for index, x in enumerate(site.inputs))
    return replace(site, inputs=reordered)
