"""Several faults of one candidate: one mistake among places without a tap makes many taps wrong, and is one mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from qwen3_parity.diagnosis.explain import FITTED
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.search import Search

_Explain = Callable[[Fault, Search], Explained]


def together(faults: Sequence[Fault], explain: _Explain, search: Search, budget: float) -> list[Explained]:
    """Every fault explained, each in its share of the time and in what those before it left.

    In groups, what explains one is tried first on the next; who ran out of time is asked again when all are done.
    """
    start, share = search.clock(), budget / max(1, len(faults))
    done = list[Explained]()
    for number, fault in enumerate(faults):
        known = {*search.known, *(_names(done) if fault.others else ())}
        done.append(explain(fault, replace(search, known=known, until=start + share * (number + 1))))
    for number, one in enumerate(done):
        if one.stopped and not one.is_known and search.clock() < start + budget:
            again = explain(one.fault, replace(search, known={*search.known, *_names(done)}, until=start + budget))
            done[number] = again if again.is_known else one
    return agreed(done)


def agreed(done: Sequence[Explained]) -> list[Explained]:
    """Of what explains a group equally well, what explains most of the other groups first."""
    counts = Counter(name for one in done if one.fault.others for name in {x.name for x in one.explanations})
    return [_with_most(one, counts) if one.fault.others else one for one in done]


def _with_most(one: Explained, counts: Counter[str]) -> Explained:
    equal = [x for x in one.explanations if x.as_good_as(one.explanations[0])]
    rest = [x for x in one.explanations if x not in equal]
    return replace(one, explanations=[*sorted(equal, key=lambda x: -counts[x.name]), *rest])


def _names(done: Sequence[Explained]) -> set[str]:
    """The names of mistakes that explain groups."""
    return {x.name for one in done if one.fault.others for x in one.explanations if x.rank < FITTED}
