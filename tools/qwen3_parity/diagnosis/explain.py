"""Which known mistake reproduces the candidate's wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence, worst_share
from qwen3_parity.blame.replay import expected
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.suspects import Suspect, suspects
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.site import Result

_TELLING = 3
"""Different numbers that a part of a tap must have to be explained by itself."""
_LARGE = 1 << 15
"""Elements from which on a tap is large: looking for every look-alike takes seconds."""
_EQUAL = 3
"""How much of `Explanation.order` makes two explain equally well."""
_ROUNDS = 3
"""Different mistakes looked for in one place."""


@dataclass(frozen=True)
class Explanation:
    """A mistake that reproduces wrong taps. `place` is where it is, `share` the worst share of the budget it leaves.

    `whole` taps are reproduced in every cell, `partly` in every wrong cell (the mistake is made for some of the tap);
    `of` were tried. `kinds` of places are wrong together. `contradicted` counts passing taps of the same place that the
    mistake would have made wrong.
    """

    name: str
    says: str
    fix: str
    place: str
    share: float
    whole: int
    partly: int
    of: int
    contradicted: int
    rank: int = 0
    kinds: int = 1

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: explains more, contradicts less, is the plainer mistake, is closer."""
        return -self.whole, -self.partly, self.contradicted, self.rank, self.kinds, self.share


@dataclass(frozen=True)
class Judged:
    """A tap with what it should have been, and which of its cells are wrong by themselves.

    Cells whose inputs are not finite are not judged.
    """

    evidence: Evidence
    truth: Result
    cells: Array = field(repr=False)

    @cached_property
    def room(self) -> float:
        """The rounding units that one cell may be off: of a group those of its most generous op."""
        return max(headroom("op", op).max for op in self.evidence.ops)

    @cached_property
    def replayed(self) -> Values:
        """The run up to the tap, computed once: what a mistake does not touch is read from it."""
        site = self.evidence.site
        values = site.values.another()
        assert isinstance(values, Values)
        values.site(site.place.name, site.step)
        return values


def judged(evidence: Evidence) -> Judged:
    """What a tap should have been, cell by cell."""
    truth = expected(evidence)
    if truth[0].dtype.kind == "f" and truth[0].shape == evidence.actual.shape:
        evidence = replace(evidence, judged=evidence.judged & np.isfinite(truth[0]))
    errors = evidence.errors(truth)
    if errors is None:
        return Judged(evidence, truth, np.zeros(evidence.actual.shape, bool))
    one = Judged(evidence, truth, np.zeros(evidence.actual.shape, bool))
    return replace(one, cells=errors > one.room)


def explain(
    blamed: Sequence[Judged], passing: Sequence[Judged], failures: list[str], known: Collection[str] = ()
) -> list[Explanation]:
    """The mistakes that reproduce the blamed taps of one place, best first; equally good ones all stand there.

    When the best leaves taps unexplained, the next best for those follows. A hypothesis that fails is our own fault: it
    is left out and told in `failures`. Names that are `known` from another case are tried first: nothing else is, where
    one of them explains everything and contradicts nothing.
    """
    # A tap that fails where nothing is judged (a NaN in padding) is explained by anything, the truth among it.
    blamed = [one for one in blamed if not one.evidence.share(one.truth) <= 1]
    open_ = sorted(blamed, key=_first)
    if open_ and known:
        again = sorted(_for(open_[0], open_, passing, failures, known), key=lambda pair: pair[0].order)
        if again and again[0][0].whole == again[0][0].of and not again[0][0].contradicted:
            return [one for one, _ in _once(again)]
    found: list[Explanation] = []
    for _ in range(_ROUNDS):
        if not open_:
            break
        best: list[tuple[Explanation, list[Judged]]] = []
        for one in (open_[0], open_[-1]):  # the largest may have a mistake of its own
            best = sorted(_for(one, open_, passing, failures), key=lambda pair: pair[0].order)
            if best:
                break
        if not best:
            break
        seen = {one.name for one in found}
        found += [one for one, _ in _once(best) if one.name not in seen]
        open_ = best[0][1]
    return found


def _first(one: Judged) -> tuple[int, int]:
    """What has most numbers tells most; of a group the steps before are computed too, so the first one comes first."""
    return one.evidence.site.step if one.evidence.others else 0, -int(one.evidence.judged.sum())


def _once(best: Sequence[tuple[Explanation, list[Judged]]]) -> list[tuple[Explanation, list[Judged]]]:
    """The first of each name among those that explain as much as the best and contradict no more."""
    kept: dict[str, tuple[Explanation, list[Judged]]] = {}
    for one, rest in best:
        if one.order[:_EQUAL] == best[0][0].order[:_EQUAL]:
            kept.setdefault(one.name, (one, rest))
    return list(kept.values())


def _for(
    first: Judged,
    blamed: Sequence[Judged],
    passing: Sequence[Judged],
    failures: list[str],
    names: Collection[str] = (),
) -> Iterator[tuple[Explanation, list[Judged]]]:
    """Every suspect (of these `names`, if any) that explains `first`, tried on the others; with the taps that it leaves
    unexplained.

    A mistake that explains everything and contradicts nothing ends the search in a group, where the plainest come
    first: no rarer one is better. So does a plain one in a large tap.
    """
    group, enough = bool(first.evidence.others), math.inf
    large = first.evidence.actual.size > _LARGE
    for suspect in suspects(first.evidence, failures):
        if suspect.hypothesis.rank > enough or (names and suspect.hypothesis.name not in names):
            continue
        shares = [_share(suspect, first)]
        if shares[0][0] > 1:
            continue
        shares += [_share(suspect, one) for one in blamed if one is not first]
        ordered = [first, *(one for one in blamed if one is not first)]
        left = [one for one, (share, _) in zip(ordered, shares, strict=True) if not share <= 1]
        hypothesis = suspect.hypothesis
        found = Explanation(
            name=hypothesis.name,
            says=hypothesis.says,
            fix=hypothesis.fix,
            place=suspect.where,
            share=max(share for share, _ in shares if share <= 1),
            whole=sum(share <= 1 and whole for share, whole in shares),
            partly=sum(share <= 1 and not whole for share, whole in shares),
            of=len(shares),
            contradicted=sum(_contradicts(suspect, one) for one in passing),
            rank=hypothesis.rank,
            kinds=len({pattern.rpartition(".")[2].removeprefix("encoder_") for pattern in suspect.at}),
        )
        yield found, left
        if large and found.whole == found.of and found.rank <= 2:
            return
        if group and found.whole == found.of and not found.contradicted:
            enough = min(enough, found.rank)


def predicted(suspect: Suspect, one: Judged) -> Result | None:
    """What the tap would be with this mistake, and the noise of the group where it has one."""
    site, unit = one.evidence.site, one.truth[1]
    try:
        with np.errstate(all="ignore"):
            own = suspect.at.get(site.place.pattern)
            if own is not None and len(suspect.at) == 1:
                found = own.compute(site)
                return found if found is None or not one.evidence.others else (found[0], unit)
            values = one.replayed.overridden(suspect.overrides())
            again = values.site(site.place.name, site.step)
            return None if again is None else (values.compute(again)[0], unit)
    except (ValueError, IndexError, KeyError):  # shapes that do not fit, a place that this network does not have
        return None


def _share(suspect: Suspect, one: Judged) -> tuple[float, bool]:
    """The share of the budget that a suspect leaves, and whether of the whole tap or of the wrong cells alone."""
    result = predicted(suspect, one)
    if result is None or result[0].shape != one.evidence.actual.shape:
        return math.inf, False
    errors = one.evidence.errors(result)
    assert errors is not None
    wrong = float(errors[one.cells].max(initial=0)) / one.room
    if wrong > 1:
        return math.inf, False
    share = worst_share(one.evidence.measure(errors), one.evidence.ops)
    if share <= 1:
        return share, True
    if one.evidence.actual.dtype.kind != "f" or len(np.unique(one.evidence.actual[one.cells])) < _TELLING:
        return math.inf, False  # a few bools, integers or zeros are right by chance
    return wrong, False


def _contradicts(suspect: Suspect, one: Judged) -> bool:
    result = predicted(suspect, one)
    return result is not None and not one.evidence.share(result) <= 1
