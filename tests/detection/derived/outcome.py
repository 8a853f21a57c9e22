"""What the judge says of a mistake that seeded itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from detection.derived.derive import CASES, Seed, possible, seeds, shows
from detection.derived.seed import case_of, seeded
from qwen3_golden import ParityError
from qwen3_parity.diagnosis import diagnose

_EACH = 2
"""Seeds of one name at one op: with other words, so that they are not the same mistake twice."""
_LOOKED_AT = 60
"""Sentences, and places, of one kind that are looked at for one that shows."""
_TRIED = 4
"""Seeds of one kind that are missed before no more are tried."""


@dataclass(frozen=True)
class Outcome:
    """A seed, and the answer.

    `caught` is exit code 1, `blamed` the places of every fault, `names` every explanation, the first one first;
    `failures` are hypotheses that could not be tried. `exact`: every fault is in a place that was seeded, or in a group
    that has one. `shown`: the mistake changes more than rounding may. Where it does and is not caught, it is missed.
    """

    op: str
    name: str
    says: str
    case: str
    pattern: str
    shown: bool = False
    caught: bool = False
    blamed: tuple[str, ...] = ()
    exact: bool = False
    names: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def named(self) -> bool:
        """Whether its name is among the explanations."""
        return self.name in self.names

    @property
    def first(self) -> str:
        """The first explanation; empty without one."""
        return self.names[0] if self.names else ""


def nothing(seed: Seed) -> Outcome:
    """The outcome of a mistake that nobody can see."""
    return Outcome(seed.op, seed.name, seed.hypothesis.says, seed.case, seed.pattern)


def judged(seed: Seed) -> Outcome | None:
    """Run a case with the mistake, and ask the judge; None for a place that would read what comes behind it."""
    case = case_of(seed.case)
    try:
        candidate = seeded(case, seed.wrong)
    except ParityError:
        return None
    with np.errstate(all="ignore"):
        diagnosis = diagnose(case.golden, candidate, case.weights)
    if not diagnosis.verdicts.exit_code:
        return replace(nothing(seed), shown=True)
    names = [explanation.name for fault in diagnosis.faults for explanation in fault.explanations]
    names += [explanation.name for fault in diagnosis.faults for explanation in fault.numbers]
    return replace(
        nothing(seed),
        shown=True,
        caught=True,
        blamed=tuple(place for fault in diagnosis.faults for place in fault.places),
        exact=bool(diagnosis.faults) and all(set(fault.places) & set(seed.wrong) for fault in diagnosis.faults),
        names=tuple(dict.fromkeys(names)),
        failures=tuple(diagnosis.failures),
    )


Kind = tuple[str, str]
"""An op and a name."""


def kinds(cases: Iterable[str] = CASES) -> dict[Kind, list[Seed]]:
    """The seeds of every mistake by op and name, in the order of the cases."""
    seeds_of: dict[Kind, list[Seed]] = {}
    for name in cases:
        for seed in seeds(name):
            seeds_of.setdefault((seed.op, seed.name), []).append(seed)
    return seeds_of


def outcomes(seeds_of_kind: Sequence[Seed]) -> Iterator[Outcome]:
    """The outcomes of one kind: `_EACH` that are caught and all that are missed on the way to them.

    Where nothing shows, one that changes nothing; none of what cannot be made at the op.
    """
    said, caught, missed = set[str](), 0, 0
    for seed in _spread(seeds_of_kind):
        if caught == _EACH or missed == _TRIED:
            break
        if seed.hypothesis.says in said or not shows(seed):
            continue
        outcome = judged(seed)
        if outcome is None:
            continue
        yield outcome
        said.add(outcome.says)
        caught += outcome.caught
        missed += not outcome.caught
    if not (caught or missed):
        yield from (nothing(seed) for seed in islice(filter(possible, _spread(seeds_of_kind)), 1))


def _spread(seeds_of_kind: Sequence[Seed]) -> list[Seed]:
    """The first seed of each sentence, then the first of each place: at most some dozens of both."""
    sentences, places = dict[str, Seed](), dict[tuple[str, str], Seed]()
    for seed in seeds_of_kind:
        sentences.setdefault(seed.hypothesis.says, seed)
        places.setdefault((seed.case, seed.pattern), seed)
    chosen = [*list(sentences.values())[:_LOOKED_AT], *list(places.values())[:_LOOKED_AT]]
    return list({id(seed): seed for seed in chosen}.values())
