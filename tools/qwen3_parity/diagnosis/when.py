"""When something is wrong: a fact that what is wrong shares and what is right lacks, where that is hardly chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array

_MARGIN = 2.0
"""Bits by which a rule must be shorter than a list of what is wrong."""
_FEWEST = 4
"""Indices of an axis below which nothing is a rule."""
_PLAIN, _COMMON, _TELLING = 1.0, 2.0, 4.0
"""Bits of a fact that is worth a word beside a list, that a single index tells, that sets it apart from all others."""
_BOTH, _EITHER = 0.5, 2.0
"""Bits that two facts cost beside their own: a mistake that needs both, and one that either makes."""


class Fact(NamedTuple):
    """What is known of every index of an axis: `holds`, bool over its indices.

    `says` and `otherwise` complete "steps …" and "the only one …" where it holds and where it does not. `bits` is how
    far-fetched it is as the cause of a mistake: the binary logarithm of one in how many.
    """

    says: str
    otherwise: str
    bits: float
    holds: Array


class When(NamedTuple):
    """What separates wrong indices from right ones. `rule`: by more than chance would."""

    says: str
    rule: bool


def when(wrong: Array, facts: Sequence[Fact], bits: float = math.inf) -> When | None:
    """One fact or two that hold for exactly the wrong indices (bool), in words; None where none or too much does.

    A rule must be shorter than a list of the indices, both counted in bits; `bits` is the length of another such list.
    One index alone on either side makes a rule of common facts only. What is no rule is told as long as it is plain
    ("those with a past"), or sets one index against at least three ("the only one …").
    """
    size, bad = len(wrong), int(wrong.sum())
    if size < _FEWEST - 1 or not 0 < bad < size:
        return None
    signed = list(_signed(facts))
    single = sorted((cost, says) for says, cost, holds in signed if np.array_equal(holds, wrong))
    if size >= _FEWEST and (rule := _rule(wrong, signed, single, bits)):
        return When(rule, True)
    if not single:
        return None
    cost, says = single[0]
    if cost <= _PLAIN:
        return When(f"{'the one' if bad == 1 else 'those'} {says}", False)
    if size >= _FEWEST and cost <= _TELLING and bad in (1, size - 1):
        but = next(otherwise for otherwise, _, holds in signed if np.array_equal(holds, ~wrong))
        return When(f"the only one {says}" if bad == 1 else f"all but the one {but}", False)
    return None


Signed = Sequence[tuple[str, float, Array]]
"""Facts and their opposites: words, bits, and where they hold."""


def _rule(wrong: Array, signed: Signed, single: Sequence[tuple[float, str]], bits: float) -> str:
    """The shortest rule in words, of `single` facts or of two; empty where none is shorter than a list."""
    every = sorted([*single, *_pairs(wrong, signed)])
    least, says = every[0] if every else (math.inf, "")
    alone = int(wrong.sum()) in (1, len(wrong) - 1)
    if least + _MARGIN >= min(bits, listed(wrong)) or (alone and least > _COMMON):
        return ""
    alike = [alternative for cost, alternative in single if alternative != says and cost <= least + 1]
    return f"{says} (or {alike[0]}: here the same)" if alike else says


def _signed(facts: Sequence[Fact]) -> Iterator[tuple[str, float, Array]]:
    """Each fact and its opposite, but for what is the same everywhere."""
    for fact in facts:
        if fact.holds.any() and not fact.holds.all():
            yield fact.says, fact.bits, fact.holds
            yield fact.otherwise, fact.bits, ~fact.holds


def _pairs(wrong: Array, signed: Signed) -> Iterator[tuple[float, str]]:
    """Two facts that together, or of which either, hold for exactly the wrong indices."""
    wide = [fact for fact in signed if fact[2][wrong].all()]
    for (says, bits, first), (also, more, second) in combinations(wide, 2):
        if np.array_equal(first & second, wrong):
            yield bits + more + _BOTH, f"{says}, {also}"
    narrow = [fact for fact in signed if not fact[2][~wrong].any()]
    for (says, bits, first), (also, more, second) in combinations(narrow, 2):
        if np.array_equal(first | second, wrong):
            yield bits + more + _EITHER, f"{says} or {also}"


def listed(wrong: Array) -> float:
    """Bits of the shorter list of the wrong indices (bool): which of all they are, or where runs begin and end."""
    size, bad = len(wrong), int(wrong.sum())
    if bad in (0, size):
        return 0.0
    runs = int(np.diff(wrong.astype(int), prepend=0).clip(0).sum())
    return min(math.log2(math.comb(size, bad)) + math.log2(size), 2 * runs * math.log2(size))
