"""Two plain mistakes at once among places without a tap, for what none of them explains alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.judged import Judged, predictions
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.suspects import Suspect
from qwen3_parity.mistakes.hypothesis import Hypothesis, both
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN

_PLAIN = (PLAIN, 1)
"""How plain a mistake must be to be thought of as one of two: each costs a run of the group."""
_TRIED = 2000
"""Pairs that are computed: those whose effects come closest to the error when they are added."""
_CELLS = 4096
"""So many cells, spread over the tap, say what comes close."""
_LARGEST = 1e150
"""A change of the tap, in rounding units, whose square is a number."""
_EQUAL = 1e-6
"""A part of an effect by which an equal one may differ."""
_SAME = 1e-9
"""A change of the tap, of its size, that is none."""


def pairs(first: Judged, search: Search) -> Iterator[Suspect]:
    """Two mistakes in a tap's group at a time, those first whose effects on the tap add up to its error."""
    if not first.in_shape or first.large:
        return
    plain = [suspect for suspect in first.every_suspect(search.failures) if suspect.plainness <= _PLAIN]
    plain.sort(key=lambda suspect: (suspect.plainness, len(suspect.at)))
    shown = list(_effects(first, plain, search))
    if len(shown) < 2:
        return
    error = _sampled(first.in_units(first.evidence.actual) - first.in_units(first.truth[0]))
    effects = np.stack([effect for _, effect in shown])
    left = float(error @ error) - 2 * effects @ error + np.square(effects).sum(axis=1)
    both_left = left[:, None] + left[None, :] - float(error @ error) + 2 * effects @ effects.T
    above = np.triu_indices(len(shown), 1)
    for place, number in enumerate(np.argsort(both_left[above], kind="stable")[:_TRIED]):
        pair = _pair(shown[above[0][number]][0], shown[above[1][number]][0])
        if pair is not None:
            yield replace(pair, partial=place)  # when one explains everything, those behind it are not tried


def _effects(first: Judged, suspects: Sequence[Suspect], search: Search) -> Iterator[tuple[Suspect, Array]]:
    """What each mistake alone changes, in rounding units; the first of those that change the same."""
    truth, distinct = first.in_units(first.truth[0]), _Distinct()
    in_time = takewhile(lambda _: not search.over(), suspects)
    for suspect, result in predictions(in_time, first):
        if result is None or result[0].shape != first.truth[0].shape:
            continue
        with np.errstate(all="ignore"):  # an effect beyond all numbers is none of two plain mistakes
            effect = _sampled(first.in_units(result[0]) - truth)
            size = float(np.linalg.norm(effect))
        if _SAME * float(np.linalg.norm(truth)) < size < _LARGEST and distinct.add(effect, size):
            yield suspect, effect


class _Distinct:
    """Effects that differ by more than rounding: sorted by one number each, so that few are compared."""

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.effects: list[Array] = []
        self.weights = np.zeros(0)

    def add(self, effect: Array, size: float) -> bool:
        """Keep an effect of this norm; whether it is another one than all before."""
        if not self.effects:
            self.weights = np.random.Generator(np.random.PCG64(0)).standard_normal(len(effect))
        number, near = float(self.weights @ effect), _EQUAL * size
        reach = near * float(np.linalg.norm(self.weights))
        low, high = bisect_left(self.sums, number - reach), bisect_right(self.sums, number + reach)
        if any(float(np.linalg.norm(effect - known)) <= near for known in self.effects[low:high]):
            return False
        place = bisect_left(self.sums, number)
        self.sums.insert(place, number)
        self.effects.insert(place, effect)
        return True


def _sampled(cells: Array) -> Array:
    """`[cell]`, at most so many of them."""
    return cells[:: max(1, -(-len(cells) // _CELLS))]


def _pair(first: Suspect, second: Suspect) -> Suspect | None:
    """Both, each at its places; None where they meet in an op that cannot be wrong in both ways."""
    name = name_of(first.hypothesis, second.hypothesis)
    says = f"{first.hypothesis.says} (in {_leaves(first)}), and {second.hypothesis.says} (in {_leaves(second)})"
    fix = f"{first.hypothesis.fix}; {second.hypothesis.fix}"
    at = {}
    for pattern in {**first.at, **second.at}:
        mistakes = [suspect.at[pattern].compute for suspect in (first, second) if pattern in suspect.at]
        compute = mistakes[0] if len(mistakes) == 1 else both(*mistakes)
        if compute is None:
            return None
        rarer = first.hypothesis.rank.order + second.hypothesis.rank.order
        at[pattern] = Hypothesis(name, says, fix, compute, COMBINED + rarer)
    return Suspect(next(iter(at.values())), at)


def name_of(first: Hypothesis, second: Hypothesis) -> str:
    """The name of two mistakes at once."""
    return "+".join(sorted({first.name, second.name}))


def _leaves(suspect: Suspect) -> str:
    return ", ".join(dict.fromkeys(pattern.rpartition(".")[2] for pattern in suspect.at))
