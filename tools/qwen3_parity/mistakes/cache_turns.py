"""Cached keys that were turned by some positions more, as a shift of the cache turns them, or by another width."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import observe
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_FIX = "what a cache holds stays as it is; where its slots move, turn keys by the whole way that they moved"
_SHIFTS = np.array([shift for shift in range(-64, 65) if shift])
_NEAR = 1e-3
"""The part of a key's largest number by which the right shift may miss it."""


def turns(site: Site) -> Iterator[Hypothesis]:
    """The number of positions by which the first wrong slot of older keys was turned."""
    observed, before = observe(site), site.before
    frequencies = site.values.value("decoder.inv_freq", 0)
    if observed is None or before is None or frequencies is None or not site.place.name.endswith("keys"):
        return
    slots = np.argwhere(observed.wrong[:, :, : before.shape[2]].any(axis=(1, 3)))
    if not len(slots):
        return
    (row, slot), dim = slots[0], before.shape[-1]
    for width in (dim, dim // 4 * 2):  # pairs make it even
        by_pair = frequencies if width == dim else site.config.rope_theta ** (-np.arange(0, width, 2) / width)
        key = np.broadcast_to(before[row, :, slot, :width], (len(_SHIFTS), *before[row, :, slot, :width].shape))
        missed = np.abs(_turn(key[:, :, None], _SHIFTS, by_pair)[0][:, :, 0] - observed.actual[row, :, slot, :width])
        best = int(missed.max(axis=(1, 2)).argmin())
        if missed[best].max() > _NEAR * np.abs(key[0]).max():
            continue
        pairs = "" if width == dim else f", in pairs of its first {width} channels alone"
        says = f"turns what it held by {_SHIFTS[best]:+d} positions{pairs}"
        yield Hypothesis("cache.rerotated", says, _FIX, partial(_turned, int(_SHIFTS[best]), by_pair), PLAIN + 1)


def _turn(x: Array, positions: Array, frequencies: Array) -> Result:
    """`x[batch, heads, seq, width]` turned by `positions[batch]`, and its unit."""
    cos, sin = ops.rope_table.forward(np.broadcast_to(positions[:, None], (len(x), x.shape[2])), frequencies)
    return ops.rope.forward(x, cos, sin), ops.rope.unit(x, cos, sin)


def _turned(shift: int, frequencies: Array, site: Site) -> Result | None:
    if site.before is None or not site.before.shape[2]:
        return None
    older, width = site.before.shape[2], 2 * len(frequencies)
    y = np.array(OPS[site.place.op].truth(site)[0], np.float64)
    unit = np.zeros_like(y)
    x = site.before[..., :width]
    y[:, :, :older, :width], unit[:, :, :older, :width] = _turn(x, np.full(len(x), shift), frequencies)
    return y, unit
