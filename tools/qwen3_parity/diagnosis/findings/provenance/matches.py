"""The same numbers elsewhere: vectors looked up among many others, the bits first, then within the limits of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array

_PATTERNS = 16
"""Sets of judged numbers that are looked up, the commonest first."""
_ALIKE = 32
"""Neighbours of a vector's signature that are compared with it."""
_PAIRS = 1 << 17
"""Comparisons of whole vectors in all; of many that are alike fewer neighbours are compared."""
CHANCE = -3.0
"""The logarithm of the chance, to the base 10, below which an equality is none."""
_NARROW = np.uint32(0xFFFF)


@dataclass(frozen=True)
class Vectors:
    """Wrong vectors `[vector, number]`, bool of what counts in them, and how far each number may be off."""

    values: Array
    judged: Array
    limits: Array
    spread: float


def matches(wrong: Vectors, rows: Array) -> Array:
    """`[pair, 2]` int64: which wrong vector is which of `rows` (`[row, number]`), in their order.

    A vector of equal numbers is anybody's, and so is one whose few numbers would be met by chance.
    """
    groups: dict[bytes, list[int]] = {}
    for number, judged in enumerate(np.packbits(wrong.judged, axis=1)):
        groups.setdefault(judged.tobytes(), []).append(number)
    largest = sorted(groups.values(), key=lambda group: (-len(group), group[0]))[:_PATTERNS]
    pairs = [_alike(wrong, np.array(group), rows) for group in largest if len(rows)]
    every = np.concatenate([np.zeros((0, 2), np.int64), *pairs])
    return np.asarray(every[np.lexsort((every[:, 1], every[:, 0]))])


def _alike(wrong: Vectors, numbers: Array, rows: Array) -> Array:
    """The pairs of vectors that have the same numbers judged."""
    columns = np.flatnonzero(wrong.judged[numbers[0]])
    values, limits, rows = (
        wrong.values[np.ix_(numbers, columns)],
        wrong.limits[np.ix_(numbers, columns)],
        rows[:, columns],
    )
    different = _different(values)
    usable = (different > 1) & np.isfinite(values).all(axis=1)
    along = np.random.Generator(np.random.PCG64(0)).standard_normal(len(columns))
    at = np.flatnonzero(np.isfinite(rows).all(axis=1))
    if not usable.any() or not len(at):
        return np.zeros((0, 2), np.int64)
    numbers, values, limits, different = numbers[usable], values[usable], limits[usable], different[usable]
    signs = rows[at] @ along
    order = np.argsort(signs, kind="stable")
    signs, at = signs[order], at[order]
    sign = values @ along
    width = limits @ np.abs(along) + 1e-12 * (np.abs(values) @ np.abs(along))
    first, last = np.searchsorted(signs, sign - width), np.searchsorted(signs, sign + width, "right")
    bits, pairs = _bits(values), list[Array]()
    for step in range(min(_ALIKE, 1 + _PAIRS // len(numbers))):
        live = np.flatnonzero(first + step < last)
        if not len(live):
            break
        there = at[first[live] + step]
        off = np.abs(values[live] - rows[there])
        same = (off == 0).all(axis=1)
        near = np.where(same[:, None], bits * np.abs(values[live]), limits[live])
        chance = _chance(near, values[live], different[live], wrong.spread) + np.log10(len(rows))
        good = (same | (off <= limits[live]).all(axis=1)) & (chance < CHANCE)
        pairs.append(np.stack([numbers[live[good]], there[good]], axis=1))
    return np.concatenate(pairs) if pairs else np.zeros((0, 2), np.int64)


def _different(values: Array) -> Array:
    """How many numbers of each vector are different ones, zeros aside."""
    ordered = np.sort(values, axis=1)
    new = np.concatenate([np.ones((len(values), 1), bool), np.diff(ordered, axis=1) != 0], axis=1)
    return np.asarray((new & (ordered != 0)).sum(axis=1))


def _bits(values: Array) -> float:
    """The spacing of the numbers' type: bfloat16's where all are of it, else float32's."""
    with np.errstate(all="ignore"):
        narrow = not (values.astype(np.float32).view(np.uint32) & _NARROW).any()
    return 2.0**-8 if narrow else 2.0**-23


def _chance(near: Array, values: Array, different: Array, spread: float) -> Array:
    """The logarithm of the chance that a number is so near to another one, for all different ones of each vector."""
    with np.errstate(all="ignore"):
        each = np.log10(np.clip(2 * near / spread, 1e-8, 1.0))
    counts = values != 0
    mean = np.where(counts, each, 0).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return np.asarray(mean * different)
