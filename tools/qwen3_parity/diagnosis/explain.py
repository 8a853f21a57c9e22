"""Which known mistake reproduces the candidate's wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.replay import expected
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.library import LIBRARY
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_TELLING = 3
"""Different numbers that a part of a tap must have to be explained by itself."""
_LARGE = 1 << 15
"""Elements from which on a tap is large: looking for every look-alike takes seconds."""
_EQUAL = 3
"""How much of `Explanation.order` makes two explain equally well."""
_GRADIENT = "gradient."
_ROUNDS = 3
"""Different mistakes looked for in one place."""


@dataclass(frozen=True)
class Explanation:
    """A mistake that reproduces wrong taps. `place` is where it is, `share` the worst share of the budget it leaves.

    `whole` taps are reproduced in every cell, `partly` in every wrong cell (the mistake is made for some of the tap);
    `of` were tried. `contradicted` counts passing taps of the same place that the mistake would have made wrong.
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

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: explains more, contradicts less, is the plainer mistake, is closer."""
        return -self.whole, -self.partly, self.contradicted, self.rank, self.share


@dataclass(frozen=True)
class Judged:
    """A tap with what it should have been, and which of its cells are wrong by themselves.

    Cells whose inputs are not finite are not judged.
    """

    evidence: Evidence
    truth: Result
    cells: Array = field(repr=False)


def judged(evidence: Evidence) -> Judged:
    """What a tap should have been, cell by cell."""
    truth = expected(evidence)
    if truth[0].dtype.kind == "f" and truth[0].shape == evidence.actual.shape:
        evidence = replace(evidence, judged=evidence.judged & np.isfinite(truth[0]))
    errors = evidence.errors(truth)
    if errors is None:
        return Judged(evidence, truth, np.zeros(evidence.actual.shape, bool))
    return Judged(evidence, truth, errors > max(headroom("op", op).max for op in evidence.ops))


def explain(blamed: Sequence[Judged], passing: Sequence[Judged], failures: list[str]) -> list[Explanation]:
    """The mistakes that reproduce the blamed taps of one place, best first; equally good ones all stand there.

    When the best leaves taps unexplained, the next best for those follows. A hypothesis that fails is our own fault: it
    is left out and told in `failures`.
    """
    # A tap that fails where nothing is judged (a NaN in padding) is explained by anything, the truth among it.
    blamed = [one for one in blamed if not one.evidence.share(one.truth) <= 1]
    open_ = sorted(blamed, key=lambda one: -int(one.evidence.judged.sum()))  # what has most numbers tells most
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


def _once(best: Sequence[tuple[Explanation, list[Judged]]]) -> list[tuple[Explanation, list[Judged]]]:
    """The first of each name among those that explain as much as the best and contradict no more."""
    kept: dict[str, tuple[Explanation, list[Judged]]] = {}
    for one, rest in best:
        if one.order[:_EQUAL] == best[0][0].order[:_EQUAL]:
            kept.setdefault(one.name, (one, rest))
    return list(kept.values())


def _for(
    first: Judged, blamed: Sequence[Judged], passing: Sequence[Judged], failures: list[str]
) -> Iterator[tuple[Explanation, list[Judged]]]:
    """Every hypothesis that explains `first`, tried on the others; with the taps that it leaves unexplained.

    In a large tap, and in a group of gradients, a plain mistake that explains everything ends the search: the rarer
    ones follow it in the library.
    """
    large = first.evidence.actual.size > _LARGE
    back = bool(first.evidence.others) and first.evidence.site.place.name.startswith(_GRADIENT)  # half a layer, or more
    everywhere: set[tuple[str, str]] = set()  # each of them once, whichever place thought of it
    for place, site in _members(first.evidence):
        for hypothesis in _library(site, failures):
            if hypothesis.everywhere:
                if (hypothesis.name, hypothesis.says) in everywhere:
                    continue
                everywhere.add((hypothesis.name, hypothesis.says))
            shares = [_share(hypothesis, place, first)]
            if shares[0][0] > 1:
                continue
            shares += [_share(hypothesis, place, one) for one in blamed if one is not first]
            ordered = [first, *(one for one in blamed if one is not first)]
            left = [one for one, (share, _) in zip(ordered, shares, strict=True) if not share <= 1]
            found = Explanation(
                name=hypothesis.name,
                says=hypothesis.says,
                fix=hypothesis.fix,
                place=place,
                share=max(share for share, _ in shares if share <= 1),
                whole=sum(share <= 1 and whole for share, whole in shares),
                partly=sum(share <= 1 and not whole for share, whole in shares),
                of=len(shares),
                contradicted=sum(_contradicts(hypothesis, place, one) for one in passing),
                rank=hypothesis.rank,
            )
            yield found, left
            if large and found.whole == found.of and found.rank <= 2:
                return
            if back and found.whole == found.of and not (found.rank or found.contradicted):
                return


def _library(site: Site, failures: list[str]) -> Iterator[Hypothesis]:
    for library in LIBRARY.get(site.place.op, ()):
        try:
            with np.errstate(all="ignore"):
                yield from library(site)
        except (ArithmeticError, AttributeError, IndexError, KeyError, NameError, TypeError, ValueError) as error:
            failures.append(f"harness bug: hypotheses about {site.place.name}: {type(error).__name__}: {error}")


def _members(evidence: Evidence) -> Iterator[tuple[str, Site]]:
    """The places in which the mistake may be, with their sites: the tap's own first, then those of its group.

    What a wrong gradient goes back through is right forward, or the gradient would not be judged.
    """
    yield evidence.site.place.pattern, evidence.site
    back = evidence.site.place.name.startswith(_GRADIENT)
    for name in evidence.others:
        if back and not name.startswith(_GRADIENT):
            continue
        values = evidence.site.values
        spot = values.place(name)
        site = values.site(name, evidence.site.step)
        if spot is not None and site is not None:
            yield spot.pattern, site


def predicted(hypothesis: Hypothesis, place: str, evidence: Evidence, unit: Array | None) -> Result | None:
    """What the tap would be with this mistake at `place`, and the noise of the group where it has one."""
    site = evidence.site
    try:
        with np.errstate(all="ignore"):
            if place == site.place.pattern and not hypothesis.everywhere:
                found = hypothesis.compute(site)
                return found if found is None or not evidence.others else (found[0], unit)
            places = dict(_members(evidence)) if hypothesis.everywhere else {place: site}
            values = site.values.another(overrides=dict.fromkeys(places, _or_truth(hypothesis)))
            again = values.site(site.place.name, site.step)
            return None if again is None else (values.compute(again)[0], unit)
    except (ValueError, IndexError):  # shapes that do not fit: not this mistake
        return None


def _or_truth(hypothesis: Hypothesis) -> Callable[[Site], Result]:
    """The mistake where it can be made, the right op elsewhere."""
    return lambda site: hypothesis.compute(site) or OPS[site.place.op].truth(site)


def _share(hypothesis: Hypothesis, place: str, one: Judged) -> tuple[float, bool]:
    """The share of the budget that the hypothesis leaves, and whether of the whole tap or of the wrong cells alone."""
    result = predicted(hypothesis, place, one.evidence, one.truth[1])
    if result is None or result[0].shape != one.evidence.actual.shape:
        return math.inf, False
    errors = one.evidence.errors(result)
    assert errors is not None
    share = one.evidence.share(result)
    if share <= 1:
        return share, True
    if one.evidence.actual.dtype.kind != "f" or len(np.unique(one.evidence.actual[one.cells])) < _TELLING:
        return math.inf, False  # a few bools, integers or zeros are right by chance
    room = max(headroom("op", op).max for op in one.evidence.ops)
    return float(errors[one.cells].max()) / room, False


def _contradicts(hypothesis: Hypothesis, place: str, one: Judged) -> bool:
    result = predicted(hypothesis, place, one.evidence, one.truth[1])
    return result is not None and not one.evidence.share(result) <= 1
