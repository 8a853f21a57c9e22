"""The noise of a group of ops without a tap between them: what rounding each of them does to what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.blame.repeated import Repeated, by_batch, copies_at_a_time
from qwen3_parity.blame.values import Values
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site
from qwen3_spec.sweep import Sweep

DRAWS = 4
"""Perturbed replays that measure the noise of a group; their RMS is within a factor of 2 of it."""
_SHARED = 1 << 24
"""Elements of all copies up to which they are kept for the taps that are judged next."""
_REMEMBERED = 1 << 20
"""Elements of a tap up to which its noise is kept for whoever asks again."""


@dataclass
class _Perturbed(Repeated):
    """Copies of a run in which every computed value is off by a random multiple of its rounding unit.

    How far it is off follows from the tap's name and the number of the `first` copy, in whatever order taps are asked.
    """

    first: int

    def compute(self, site: Site) -> Result:
        """The op of a site, by the specification or as an override has it."""
        with np.errstate(all="ignore"):
            return self.overrides.get(site.place.pattern, OPS[site.place.op].truth)(site)

    def handed_on(self, site: Site, result: Result) -> Array:
        """What was computed, with the noise that later places are to see."""
        y, unit = result
        if unit is None:
            return y
        seed = [crc32(f"{site.place.name}/{site.step}".encode()), self.first]
        normal = np.random.Generator(np.random.PCG64(seed)).standard_normal(y.shape)
        return np.asarray(y + as_stored(unit, y, site.place.op, self.dtype) * normal)


def group_noise(site: Site, truth: Array) -> Array:
    """The mean square of what perturbing every op of the group by its own unit does to the group's output `truth`."""
    values = site.values
    assert isinstance(values, Values)
    key = site.place.name, site.step
    known = values.noises.get(key)
    if known is not None and np.array_equal(known[0], truth, equal_nan=True):
        return known[1]
    if DRAWS * _elements(values) > _SHARED:
        noise = _group_noise(values, site, truth, {})
    else:
        with values.lock:  # other taps, in other threads, go on with the same copies, but for those that failed midway
            runs = dict(values.perturbed)
            values.perturbed.clear()
            noise = _group_noise(values, site, truth, runs)
            if sum(map(_elements, runs.values())) < _SHARED:
                values.perturbed.update(runs)
    if truth.size < _REMEMBERED:
        values.noises[key] = truth, noise
    return noise


def _elements(run: Sweep) -> int:
    return sum(value.size for value in run.computed.values() if value is not None)


def _group_noise(values: Values, site: Site, truth: Array, perturbed: dict[tuple[int, int], Sweep]) -> Array:
    copies = copies_at_a_time(values, DRAWS) if by_batch(site.place) and not values.overrides else 1
    total = np.zeros(truth.shape)
    for first in range(0, DRAWS, copies):
        count = min(copies, DRAWS - first)
        noisy = perturbed.setdefault((first, count), _Perturbed(values, count, first))
        again = noisy.site(site.place.name, site.step)
        if again is None:
            return total
        with np.errstate(all="ignore"):
            moved = noisy.compute(again)[0].reshape(-1, *truth.shape) - truth
        total += np.where(np.isfinite(moved), moved * moved, 0).sum(axis=0)
    total /= DRAWS
    # A few draws say little of a single cell: no cell counts as quieter than its row.
    return np.asarray(np.maximum(total, total.mean(axis=-1, keepdims=True))) if total.ndim else total
