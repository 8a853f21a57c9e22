"""Several faults of one candidate: one mistake among places without a tap makes many taps wrong, and is one mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.search import Search

_Explain = Callable[[Fault, Search], Explained]


def together(faults: Sequence[Fault], explain: _Explain, search: Search, work: float) -> list[Explained]:
    """Every fault explained, in their order: each with its share of the `work`, and with what those before it left.

    Those with the largest errors come first. In groups, what explains one is tried first on the next; who had not
    enough is asked again when all are done.
    """
    begin, share = search.work.done, work / max(1, len(faults))
    largest = sorted(range(len(faults)), key=lambda number: (-_size(faults[number]), number))
    done: dict[int, Explained] = {}
    for turn, number in enumerate(largest, 1):
        known = {*search.known, *(_names(done.values()) if faults[number].others else ())}
        done[number] = explain(faults[number], replace(search, known=known, until=begin + share * turn))
    for number in largest:
        first = done[number]
        if first.stopped and not first.is_known and search.work.done < begin + work and not first.cut:
            known = {*search.known, *_names(done.values())}
            again = explain(first.fault, replace(search, known=known, until=begin + work))
            done[number] = again if again.is_known else first
    return agreed([done[number] for number in range(len(faults))])


def _size(fault: Fault) -> float:
    return fault.worst.share if fault.wrong else 0.0


def agreed(done: Sequence[Explained]) -> list[Explained]:
    """Of what explains a group equally well, what explains most of the other groups first."""
    counts = Counter(
        name
        for explained in done
        if explained.fault.others
        for name in {explanation.name for explanation in explained.explanations}
    )
    return [_with_most(explained, counts) if explained.fault.others else explained for explained in done]


def _with_most(explained: Explained, counts: Counter[str]) -> Explained:
    equal = [explanation for explanation in explained.explanations if explanation.as_good_as(explained.explanations[0])]
    rest = [explanation for explanation in explained.explanations if explanation not in equal]
    return replace(explained, explanations=[*sorted(equal, key=lambda explanation: -counts[explanation.name]), *rest])


def _names(done: Iterable[Explained]) -> set[str]:
    """The names of mistakes that explain groups."""
    return {x.name for explained in done if explained.fault.others for x in explained.explanations if not x.fitted}
