"""Which known mistake reproduces the candidate's wrong numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from qwen3_parity.diagnosis.every_tap import Way, on_every_tap, once
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.hidden_factors import factors
from qwen3_parity.diagnosis.judged import Fit, Judged, contradicts, fit, fit_of, predictions
from qwen3_parity.diagnosis.pairs import pairs
from qwen3_parity.diagnosis.pairs_in_op import pairs_in_op
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.suspects import Suspect, own_suspects, plainest_first
from qwen3_parity.mistakes.as_loaded import AS_LOADED
from qwen3_parity.mistakes.ranks import RARE, SOLVED, Rank
from qwen3_parity.mistakes.rounding import as_tf32

_TOLD = 100
"""So many mistakes between two words of progress."""
_ROUNDS = 3
"""Different mistakes looked for in one place."""


class Tried(NamedTuple):
    """What explains the wrong taps of a place, best first, and the name and step of those that it was tried on."""

    explanations: list[Explanation]
    taps: tuple[tuple[str, int], ...]


def explain(
    blamed: Sequence[Judged],
    passing: Sequence[Judged],
    search: Search,
    further: Callable[[], Sequence[Judged]] = tuple,
) -> Tried:
    """The mistakes that reproduce the wrong taps of one place, best first; equally good ones all stand there.

    They are looked for on the `blamed` taps; what explains those is run on all `further` ones. When the best leaves
    taps unexplained, the next best for those follows. A hypothesis that fails is our own fault: it is left out and told
    in the search's `failures`. Names that are `known` from another case are tried first: nothing else is, where one of
    them explains everything and contradicts nothing. Of a group the best so far when time is up.
    """
    blamed = sorted(_shown(blamed), key=_first)
    if not blamed or (blamed[0].evidence.others and search.over()):
        return Tried([], tuple(tap.key for tap in blamed))
    every = list[Judged]()  # the others cost as much again: they are computed where there is something to run on them
    explanations = list[Explanation]()
    open_ = list(blamed)
    for _ in range(_ROUNDS):
        sample = open_[: len(blamed)]
        explained = _without(blamed, open_)
        ways = (not explanations and _known(sample, passing, search)) or _best(sample, explained, passing, search)
        if not ways:
            break
        every = every or [*blamed, *_shown(further())]
        of_all = ways[0].said.of > len(sample)
        tried = [*sample, *explained] if of_all else sample
        ways = on_every_tap(ways, _without(every if of_all or not explanations else open_, tried))
        if ways[0].said.whole == len(every):
            explanations = []  # each of them explains a part of it
        said = {(explanation.name, explanation.says) for explanation in explanations}
        explanations += [way.said for way in ways if (way.said.name, way.said.says) not in said]
        open_ = sorted(ways[0].left, key=_first)
        if not open_:
            break
    return Tried(explanations, tuple(tap.key for tap in every or blamed))


def _shown(taps: Sequence[Judged]) -> list[Judged]:
    """Without taps that fail where nothing is judged (a NaN in padding): anything explains them, the truth among it."""
    return [tap for tap in taps if not tap.evidence.share(tap.truth) <= 1]


def _without(taps: Sequence[Judged], others: Sequence[Judged]) -> list[Judged]:
    return [tap for tap in taps if not any(tap is explained for explained in others)]


def _known(open_: Sequence[Judged], passing: Sequence[Judged], search: Search) -> list[Way]:
    """What is known from elsewhere, where it explains everything and contradicts nothing."""
    if not search.known:
        return []
    here = (suspect for suspect in _suspects(open_[0], search) if suspect.hypothesis.name in search.known)
    again = sorted(_ways(open_[0], here, open_, passing), key=lambda way: way.said.order)
    return once(again) if again and again[0].said.whole == again[0].said.of and not again[0].said.contradicted else []


def _best(open_: Sequence[Judged], explained: Sequence[Judged], passing: Sequence[Judged], search: Search) -> list[Way]:
    best = list[Way]()
    for first, tried in _tries(open_, search):
        ways = _ways(first, _in_time(first, tried, search), open_, passing, explained)
        best = sorted([*best, *ways], key=lambda way: way.said.order)
        if best and best[0].said.rank <= SOLVED:
            break
    return once(best) if best else []


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
        yield last, (x for x in plain if not last.evidence.others or x.hypothesis.rank.plain)
    if first.evidence.others:
        yield first, factors(first)
        yield first, pairs(first, search)
    elif search.pairs:
        for two in pairs_in_op(first, search):
            yield first, two


def _suspects(tap: Judged, search: Search) -> Iterable[Suspect]:
    """What may be wrong with a tap, in the order in which it is tried."""
    if not tap.evidence.others:
        return own_suspects(tap.evidence, search.failures)
    every = tap.every_suspect(search.failures)
    return plainest_first(every, tap.evidence.site.place.pattern, search.moments)


def _in_time(first: Judged, tried: Iterable[Suspect], search: Search) -> Iterator[Suspect]:
    """The suspects of a tap; of a group no more of them when time is over."""
    for number, suspect in enumerate(tried):
        if first.evidence.others and search.over():
            return
        if number % _TOLD == 0:
            search.progress(f"{number} mistakes tried")
        yield suspect


def _first(tap: Judged) -> tuple[int, int]:
    """What has most numbers tells most; of a group the steps before are computed too, so the first one comes first."""
    return tap.evidence.site.step if tap.evidence.others else 0, -int(tap.evidence.judged.sum())


def _ways(
    first: Judged,
    suspects: Iterable[Suspect],
    blamed: Sequence[Judged],
    passing: Sequence[Judged],
    explained: Sequence[Judged] = (),
) -> Iterator[Way]:
    """Every suspect that explains `first`, tried on the others.

    A mistake that explains everything and contradicts nothing ends the search in a group, where the plainest come
    first: no rarer one is better. So does a plain one in a large tap. Where it is weights that were loaded otherwise,
    a plainer one may still say how, and is at their places.
    """
    group = bool(first.evidence.others)
    enough: tuple[Rank, int] | None = None
    last, loaded = "", frozenset[str]()

    def may_be_better(tried: Suspect) -> bool:
        return not (enough and tried.plainness > enough) and (not loaded or loaded.issuperset(tried.at))

    for suspect, result in predictions(filter(may_be_better, suspects), first):
        if last and suspect.hypothesis.says != as_tf32(last):
            return
        if enough and suspect.plainness > enough:  # run beside the one that is enough
            continue
        way = _way(suspect, fit_of(result, suspect, first), first, blamed, passing, explained)
        if way is None:
            continue
        yield way
        if last:
            return
        whole = way.said.whole == way.said.of
        if first.large and whole and way.said.rank <= RARE:
            last = way.said.says
            if as_tf32(last) == last:
                return
        if group and whole and not way.said.contradicted:
            enough = suspect.plainness
            loaded = frozenset(suspect.at) if suspect.hypothesis.name == AS_LOADED else loaded


def _way(
    suspect: Suspect,
    of_first: Fit,
    first: Judged,
    blamed: Sequence[Judged],
    passing: Sequence[Judged],
    explained: Sequence[Judged],
) -> Way | None:
    """What a suspect explains, with the taps that it leaves unexplained; None where it does not explain `first`.

    One that leaves none is also tried on those that were `explained` before: it may explain all of them.
    """
    if not of_first.share <= 1:
        return None
    fits = [(first, of_first), *((tap, fit(suspect, tap)) for tap in blamed if tap is not first)]
    left = [tap for tap, fitted in fits if not fitted.share <= 1]
    again = [] if left else [(tap, fit(suspect, tap)) for tap in explained]
    if all(fitted.share <= 1 for _, fitted in again):
        fits += again
    good = [(tap, fitted) for tap, fitted in fits if fitted.share <= 1]
    hypothesis, contradicting = suspect.hypothesis, tuple(tap.key for tap in passing if contradicts(suspect, tap))
    explanation = Explanation(
        name=hypothesis.name,
        says=hypothesis.says,
        fix=hypothesis.fix,
        place=suspect.where,
        share=max(fitted.share for _, fitted in good),
        whole=sum(fitted.whole for _, fitted in good),
        partly=sum(not fitted.whole for _, fitted in good),
        of=len(fits),
        contradicted=len(contradicting),
        passing=len(passing),
        spoiled=max(fitted.spoiled for _, fitted in good),
        rank=hypothesis.rank,
        kinds=len({pattern.rpartition(".")[2].removeprefix("encoder_") for pattern in suspect.at}),
        taps=tuple(tap.key for tap, _ in good),
        contradicting=contradicting,
    )
    return Way(explanation, suspect, left)
