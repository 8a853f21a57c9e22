"""What explains one fault: mistakes that reproduce the numbers of its wrong taps, or else what the numbers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from qwen3_parity.diagnosis.as_held import as_held
from qwen3_parity.diagnosis.every_tap import affordable
from qwen3_parity.diagnosis.explain import Tried, explain
from qwen3_parity.diagnosis.explained import Explained, certain, outranked
from qwen3_parity.diagnosis.explanation import where_made
from qwen3_parity.diagnosis.faults import Blame, Fault
from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.diagnosis.findings.numbers.factors import factor
from qwen3_parity.diagnosis.findings.numbers.shapes import other_shape
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.judged import Judged, judged
from qwen3_parity.diagnosis.moments import Moment, moments
from qwen3_parity.diagnosis.positions import Cells
from qwen3_parity.diagnosis.precision import held_by_all
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.whereabouts import whereabouts
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.spoken import spoken

_SIZE = 0.1
"""The weight of how large an error is."""
_WRONG, _RIGHT = 12, 6
"""Taps of one place that a mistake is tried on, wrong ones and right ones."""
_REPRODUCED = 0.9
"""The weight from which on a finding gives nearly all of a tap's numbers."""
_WITH_A_PAST = Finding(
    "fit.past",
    "right without a past and wrong in every step with one: what the cache holds, or what decode steps do in another "
    "way; cache_keys and cache_values tell which",
    0.9,
)


class _Taps(NamedTuple):
    """Wrong taps that mistakes are looked for on, right ones, and the further wrong ones, judged when asked for."""

    blamed: Sequence[Judged]
    passing: Sequence[Judged]
    further: Callable[[], Sequence[Judged]]


def explain_fault(blame: Blame, fault: Fault, search: Search) -> Explained:
    """A fault with where it is, the mistakes that reproduce its numbers, and what else the numbers say."""
    search.progress(f"what explains {spoken(fault.place, blame.values.recording.case)}")
    few = 3 if fault.others else 1  # a group costs many times more to compute than an op
    wrong, passing = spread(fault.wrong, _WRONG // few), spread(fault.passing, _RIGHT // few)
    before = search.work.done
    blamed = _judged(blame, wrong)
    others = [verdict for verdict in fault.wrong if verdict not in wrong]
    further = spread(others, affordable(search.work.done - before, len(wrong)))
    worst = next(iter(_judged(blame, [fault.worst])), None)
    if not blamed or worst is None:
        return Explained(fault, "")
    where = whereabouts(fault, list(map(_cells, (worst, *blamed))), blame.values.golden or blame.values.recording)
    past = _wrong_with_a_past(fault)
    search = replace(search, moments=_moments(fault, worst.evidence.site.case.steps))
    taps = _Taps(blamed, _judged(blame, passing), partial(_judged, blame, further))
    tried = _tried(taps, partial(_by_golden_angles, blame, wrong, passing, further), worst, search)
    keys = [(verdict.name, verdict.step) for verdict in fault.wrong]
    names, beside = certain(where_made(tried.explanations, keys))
    names = [as_held(explanation, blame.values) for explanation in names]
    said = [] if names and names[0].certain else numbers(worst, blamed)
    names, beside = outranked(names, beside, said)
    explained = Explained(
        fault,
        where,
        names,
        stopped=search.stopped,
        cut=search.cut,
        tried=tried.taps,
        untried=len(others) - len(further),
    )
    if explained.is_known:
        left = [verdict for verdict in fault.wrong if (verdict.name, verdict.step) in explained.left]
        rest = _judged(blame, sorted(left, key=lambda verdict: -verdict.share)[:1])
        return replace(explained, findings=[*(finding for tap in rest for finding in _of_the_rest(tap)), *beside])
    findings = [*said, *beside, *([_WITH_A_PAST] if past and "cache" in worst.evidence.ops else [])]
    return replace(explained, findings=sorted(findings, key=lambda finding: -finding.weight))


def _tried(taps: _Taps, by_golden_angles: Callable[[], _Taps], worst: Judged, search: Search) -> Tried:
    """The mistakes that reproduce the taps: two at once where no single one does, nor the structure of a weight."""
    if worst.evidence.ops == {"rope"}:
        return _rotation(taps, by_golden_angles(), search)
    if worst.evidence.ops <= _OF_WEIGHTS:  # two at once take much longer
        alone = explain(taps.blamed, taps.passing, replace(search, pairs=False), taps.further)
        if certain(alone.explanations)[0] or _has_structure(worst):
            return alone
    shared = wrong_tap(worst)
    by_one_number = None if shared is None else factor(shared)
    if by_one_number is not None and by_one_number.weight == 1:  # it says more than two mistakes at once
        search = replace(search, pairs=False)
    return explain(taps.blamed, taps.passing, search, taps.further)


_OF_WEIGHTS = frozenset({"linear", "weight_gradient", "norm_weight_gradient", "bias_gradient", "embedding_gradient"})
"""Ops whose numbers may follow from a weight in which a few are changed, or from some of the terms of a sum."""


def _has_structure(worst: Judged) -> bool:
    """Whether the numbers of a tap follow from its weight, or its terms, with a few numbers changed."""
    structure = [finding for finding in numbers(worst) if finding.name.startswith(("structure.", "weight."))]
    return any(finding.weight >= _REPRODUCED for finding in structure)


def _rotation(taps: _Taps, by_golden_angles: _Taps, search: Search) -> Tried:
    """One mistake by the candidate's angles or, where those are others, by the golden's; then two mistakes at once."""
    alone = replace(search, pairs=False)
    best = Tried([], ())
    for sample, bounds in ((taps, alone), (by_golden_angles, replace(alone, known=())), (taps, search)):
        tried = explain(sample.blamed, sample.passing, bounds, sample.further)
        best = max(best, tried, key=lambda attempt: sum(explanation.whole for explanation in attempt.explanations[:1]))
        if best.explanations and best.explanations[0].whole >= len(best.taps):
            break
    return best


def _by_golden_angles(
    blame: Blame, wrong: Sequence[OpVerdict], passing: Sequence[OpVerdict], further: Sequence[OpVerdict]
) -> _Taps:
    by = partial(_judged, blame, given_tables=True)
    return _Taps(by(wrong), by(passing), partial(by, further))


def _cells(judged: Judged) -> Cells:
    place, evidence = judged.evidence.site.place, judged.evidence
    return Cells(place.name, evidence.site.step, place.axes, judged.cells, evidence.judged)


def _moments(fault: Fault, steps: Sequence[int]) -> Sequence[Moment]:
    """In a group of places: the steps in which alone what is wrong may have been done."""
    return moments(steps, frozenset(verdict.step for verdict in fault.wrong)) if fault.others else ()


def _wrong_with_a_past(fault: Fault) -> bool:
    """Whether a group is right in the first step, and wrong in every step behind."""
    steps_right, steps_wrong = {verdict.step for verdict in fault.passing}, {verdict.step for verdict in fault.wrong}
    return bool(fault.others) and 0 in steps_right and steps_right.isdisjoint(steps_wrong)


def spread(verdicts: Sequence[OpVerdict], count: int) -> list[OpVerdict]:
    """At most `count` of them, in order, shuffled over layers and steps: a stride could miss a layer altogether."""
    chosen = np.random.Generator(np.random.PCG64(0)).permutation(len(verdicts))[:count]
    return [verdicts[int(i)] for i in sorted(chosen)]


def _judged(blame: Blame, verdicts: Sequence[OpVerdict], *, given_tables: bool = False) -> list[Judged]:
    """Verdicts with their evidence; with `given_tables` as if the candidate turned by the golden's cos and sin."""
    evidences = [evidence for evidence in map(blame.evidence, verdicts) if not isinstance(evidence, str)]
    if given_tables:
        values = blame.values.another(given_tables=True)
        sites = [values.site(evidence.site.place.name, evidence.site.step) for evidence in evidences]
        evidences = [
            replace(evidence, site=site) for evidence, site in zip(evidences, sites, strict=True) if site is not None
        ]
    return [judged(evidence) for evidence in evidences]


def numbers(tap: Judged, others: Sequence[Judged] = ()) -> list[Finding]:
    """Everything that the numbers of a wrong tap say, what tells most first, together with those of the `others`."""
    shared = wrong_tap(tap)
    if shared is None:
        return [other_shape(tap.evidence.site.place.axes, tap.truth[0].shape, tap.evidence.actual.shape)]
    alike = [further for judged in others if judged.key != tap.key and (further := wrong_tap(judged)) is not None]
    return held_by_all(findings(shared, alike), alike)


def _of_the_rest(tap: Judged) -> list[Finding]:
    """What says most of a tap that the explanations of its place leave, where it says more than how large it is."""
    first = [finding for finding in numbers(tap)[:1] if finding.weight > _SIZE]
    return [replace(finding, says=f"{tap.key[0]} (step {tap.key[1]}): {finding.says}") for finding in first]
