"""A mistake at padding alone that others read: a recurrence and a convolution are to find nothing there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qwen3_golden import Array, Recording, Tensor
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.slices.check import Judged
from qwen3_parity.slices.judge import Alone, in_units, judge
from qwen3_parity.slices.network import Network
from qwen3_reference.graph.scope import counted

_MASK = "input.attention_mask"
_FIRST = 6
"""Taps beyond their budget that are looked at: where states end, real tokens are not told from padding."""


def at_padding(judged: Judged) -> tuple[Judged, str] | None:
    """What one of the first taps beyond their budget reads and is wrong at padding, where that moves its real tokens.

    With verdicts of padding alone, and a sentence. None where something is wrong at real tokens, and where padding
    moves none.
    """
    network = judged.network
    if network is None or any(not part.verdict.passed for part in judged.alone):
        return None
    there = _at_padding(network)
    over = [tap for tap in judged.verdicts.taps if not tap.passed and tap.metrics is not None]
    for tap in over[:_FIRST] if there is not None else ():
        assert there is not None
        with np.errstate(all="ignore"):  # padding may hold anything
            guilty = _read_by((tap.name, tap.step), there)
        if guilty:
            names = ", ".join(dict.fromkeys(part.verdict.name for part in guilty))
            verb = "is" if len(guilty) == 1 else "are"
            sentence = f"every op is right at real tokens; at padding {names} {verb} not, and {tap.where} reads that"
            return replace(judged, network=there, alone=guilty), sentence
    return None


def _read_by(tap: tuple[str, int], there: Network) -> list[Alone]:
    """What a tap is computed from, where it is wrong at padding and moves the tap's real tokens."""
    names = {value: key for key, value in there.graph.taps.items() if key in there.golden}
    read = there.slices.reads(there.graph.taps[tap])
    alone = [_judged(names[value], there) for value in read if value in names]
    return [part for part in alone if not part.verdict.passed and _moves(part, tap, there)]


def _at_padding(network: Network) -> Network | None:
    """The network with padding for its real tokens; None where there is none."""
    mask = network.golden.get(_MASK)
    if mask is None or mask.array.ndim != 2 or mask.array.all():
        return None
    turned = replace(mask, array=np.asarray(1 - mask.array, mask.array.dtype))
    tensors = [turned if item.key == mask.key else item for item in network.golden]
    return replace(network, golden=replace(network.golden, tensors=tensors))


def _judged(key: tuple[str, int], network: Network) -> Alone:
    expected = network.golden[key]
    return judge(network.candidate[key], expected, counted(expected, network.golden), network)


def _moves(part: Alone, first: tuple[str, int], network: Network) -> bool:
    """Whether a tap would be another one at real tokens, were what it reads right at padding."""
    key, slices, golden = (part.verdict.name, part.verdict.step), network.slices, network.golden
    value, target = network.graph.taps[key], network.graph.taps[first]
    if network.candidate[key].array.shape != golden[key].array.shape or not network.candidate[key].is_float:
        return False
    mended = np.where(counted(golden[key], golden), slices.value(value), slices.recorded[value])
    before, after = slices.value(target), slices.value(target, instead={value: mended})
    counts = _real(golden[first], golden)
    dtype = network.dtype(network.candidate[first])
    unit = slices.unit(target, before, np.ones(before.shape, bool), dtype)
    return bool((in_units(after, before, unit, counts) > headroom("slice").max).any())


def _real(item: Tensor, golden: Recording) -> Array:
    """The cells of real tokens, where `golden` has padding for them; of rows `[batch · query · heads, …]`, too."""
    counts, mask = counted(item, golden), golden[_MASK, 0].array.astype(bool)
    steps, step = golden.case.steps, item.info.step
    here = mask[:, sum(steps[:step]) : sum(steps[: step + 1])].ravel()
    rows = item.array.shape[0] if item.array.ndim else 0
    if counts.all() and here.size and rows > here.size and rows % here.size == 0:
        counts = np.broadcast_to(
            np.repeat(here, rows // here.size)[(..., *[None] * (item.array.ndim - 1))], counts.shape
        )
    return ~counts
