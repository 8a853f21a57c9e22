"""Which known mistake reproduces the candidate's wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from qwen3_parity.diagnosis.hidden_factors import factors
from qwen3_parity.diagnosis.judged import Judged, contradicts, fit, fit_of, predictions
from qwen3_parity.diagnosis.pairs import pairs
from qwen3_parity.diagnosis.pairs_in_op import pairs_in_op
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.suspects import Suspect, own_suspects, plainest_first
from qwen3_parity.mistakes.rounding import as_tf32, in_either

_PLAIN = 1
"""The rank up to which a mistake is plain."""
_TOLD = 100
"""So many mistakes between two words of progress."""
_TOLD_BY_NAME = 6
"""The rank beyond which an explanation says no more than that the numbers are others: two known mistakes say more."""
FITTED = 8
"""The rank from which on an explanation was fitted to each tap by itself, so that nothing can contradict it: what the
numbers say is told beside it."""
_ROUNDS = 3
"""Different mistakes looked for in one place."""


@dataclass(frozen=True)
class Explanation:
    """A mistake that reproduces wrong taps. `place` is where it is, `share` the worst share of the budget it leaves.

    `whole` taps are reproduced in every cell, `partly` in every wrong cell (the mistake is made for some of the tap);
    `of` were tried. `kinds` of places are wrong together. `contradicted` counts passing taps of the same place that the
    mistake would have made wrong, `spoiled` is the part of the right cells of a tap explained partly.
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
    spoiled: float = 0.0
    rank: float = 0
    kinds: int = 1

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: is no fit of each tap, explains more, contradicts less, is plainer, is closer.

        Shares that differ by rounding alone are equal: the library's order, the plainer first, stays.
        """
        fitted, spoiled, share = self.rank >= FITTED, round(self.spoiled, 1), float(f"{self.share:.3g}")
        return fitted, -self.whole, -self.partly, self.contradicted, spoiled, self.rank, self.kinds, share

    def as_good_as(self, other: Explanation) -> bool:
        """Whether it explains as much as another one and contradicts no more: the plainer of the two is no surer."""
        return self.order[:4] == other.order[:4]


def explain(blamed: Sequence[Judged], passing: Sequence[Judged], search: Search) -> list[Explanation]:
    """The mistakes that reproduce the blamed taps of one place, best first; equally good ones all stand there.

    When the best leaves taps unexplained, the next best for those follows. A hypothesis that fails is our own fault: it
    is left out and told in the search's `failures`. Names that are `known` from another case are tried first: nothing
    else is, where one of them explains everything and contradicts nothing. Of a group the best so far when time is up.
    """
    # A tap that fails where nothing is judged (a NaN in padding) is explained by anything, the truth among it.
    blamed = [one for one in blamed if not one.evidence.share(one.truth) <= 1]
    open_ = sorted(blamed, key=_first)
    if open_ and open_[0].evidence.others and search.over():
        return []
    if open_ and search.known:
        here = (one for one in _suspects(open_[0], search) if one.hypothesis.name in search.known)
        again = sorted(_for(open_[0], here, open_, passing), key=lambda pair: pair[0].order)
        if again and again[0][0].whole == again[0][0].of and not again[0][0].contradicted:
            return [one for one, _ in _once(again)]
    found: list[Explanation] = []
    for _ in range(_ROUNDS):
        if not open_:
            break
        best: list[tuple[Explanation, list[Judged]]] = []
        for first, tried in _tries(open_, search):
            explained = [one for one in blamed if not any(one is other for other in open_)]
            some = _for(first, _in_time(first, tried, search), open_, passing, explained)
            best = sorted([*best, *some], key=lambda pair: pair[0].order)
            if best and best[0][0].rank <= _TOLD_BY_NAME:
                break
        if not best:
            break
        if best[0][0].whole == len(blamed):
            found = []  # each of them explains a part of it
        seen = {one.name for one in found}
        found += [one for one, _ in _once(best) if one.name not in seen]
        open_ = best[0][1]
    return found


def _tries(open_: Sequence[Judged], search: Search) -> Iterator[tuple[Judged, Iterable[Suspect]]]:
    """What is tried in turn, until something explains a tap: the library; on the last tap, which may have a mistake of
    its own; numbers that places of a group may be multiplied with; two mistakes at once.
    """
    first, last = open_[0], open_[-1]
    yield first, _suspects(first, search)
    if first.evidence.others and search.over():
        return
    if last is not first:
        plain = _suspects(last, search)
        yield last, (one for one in plain if not last.evidence.others or one.hypothesis.rank <= _PLAIN)
    if first.evidence.others:
        yield first, factors(first)
        yield first, pairs(first, search)
    elif search.pairs:
        for two in pairs_in_op(first, search):
            yield first, two


def _suspects(one: Judged, search: Search) -> Iterable[Suspect]:
    """What may be wrong with a tap, in the order in which it is tried."""
    if not one.evidence.others:
        return own_suspects(one.evidence, search.failures)
    every = one.every_suspect(search.failures)
    return plainest_first(every, one.evidence.site.place.pattern, later=search.later)


def _in_time(first: Judged, tried: Iterable[Suspect], search: Search) -> Iterator[Suspect]:
    """The suspects of a tap; of a group no more of them when time is over."""
    for number, suspect in enumerate(tried):
        if first.evidence.others and search.over():
            return
        if number % _TOLD == 0:
            search.progress(f"{number} mistakes tried")
        yield suspect


def _first(one: Judged) -> tuple[int, int]:
    """What has most numbers tells most; of a group the steps before are computed too, so the first one comes first."""
    return one.evidence.site.step if one.evidence.others else 0, -int(one.evidence.judged.sum())


def _once(best: Sequence[tuple[Explanation, list[Judged]]]) -> list[tuple[Explanation, list[Judged]]]:
    """The first of each name among those that explain as much as the best and contradict no more.

    The bits of float16 are TF32's: where no number leaves its range, what fits is said of both.
    """
    kept: dict[str, tuple[Explanation, list[Judged]]] = {}
    equal = [(one, rest) for one, rest in best if one.as_good_as(best[0][0])]
    said = {one.says for one, _ in equal}
    for one, rest in equal:
        if (other := as_tf32(one.says)) != one.says and other in said:
            one = replace(one, says=in_either(one.says))
        kept.setdefault(one.name, (one, rest))
    return list(kept.values())


def _for(
    first: Judged,
    tried: Iterable[Suspect],
    blamed: Sequence[Judged],
    passing: Sequence[Judged],
    explained: Sequence[Judged] = (),
) -> Iterator[tuple[Explanation, list[Judged]]]:
    """Every suspect that explains `first`, tried on the others; with the taps that it leaves unexplained.

    One that leaves none is also tried on those that were `explained` before: it may explain all of them.
    A mistake that explains everything and contradicts nothing ends the search in a group, where the plainest come
    first: no rarer one is better. So does a plain one in a large tap.
    """
    group = bool(first.evidence.others)
    enough: tuple[float, float] = (math.inf, math.inf)
    last = ""
    for suspect, result in predictions((one for one in tried if not one.plainness > enough), first):
        if last and suspect.hypothesis.says != as_tf32(last):
            return
        if suspect.plainness > enough:  # run beside the one that is enough
            continue
        fits = [fit_of(result, suspect, first)]
        if fits[0].share > 1:
            continue
        fits += [fit(suspect, one) for one in blamed if one is not first]
        ordered = [first, *(one for one in blamed if one is not first)]
        left = [one for one, fitted in zip(ordered, fits, strict=True) if not fitted.share <= 1]
        again = [] if left else [fit(suspect, one) for one in explained]
        if all(one.share <= 1 for one in again):
            fits += again
        good = [one for one in fits if one.share <= 1]
        hypothesis = suspect.hypothesis
        found = Explanation(
            name=hypothesis.name,
            says=hypothesis.says,
            fix=hypothesis.fix,
            place=suspect.where,
            share=max(one.share for one in good),
            whole=sum(one.whole for one in good),
            partly=sum(not one.whole for one in good),
            of=len(fits),
            contradicted=sum(contradicts(suspect, one) for one in passing),
            spoiled=max(one.spoiled for one in good),
            rank=hypothesis.rank,
            kinds=len({pattern.rpartition(".")[2].removeprefix("encoder_") for pattern in suspect.at}),
        )
        yield found, left
        if last:
            return
        if first.large and found.whole == found.of and found.rank <= 2:
            last = hypothesis.says
            if as_tf32(last) == last:
                return
        if group and found.whole == found.of and not found.contradicted:
            enough = min(enough, suspect.plainness)
