"""From two recordings to a diagnosis: what is wrong, what the mistake is, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial as with_first
from time import monotonic

import numpy as np
from threadpoolctl import threadpool_limits

from qwen3_golden import Array, Recording, pb
from qwen3_golden.contract import contract_of
from qwen3_parity.blame.op_case import OpNetwork, network_of
from qwen3_parity.blame.ops_alone import with_ops
from qwen3_parity.blame.replay import OpVerdict
from qwen3_parity.blame.values import Values
from qwen3_parity.check import check, check_run
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.by_graph import diagnose_by_graph
from qwen3_parity.diagnosis.casts import casts_elsewhere
from qwen3_parity.diagnosis.every_tap import affordable
from qwen3_parity.diagnosis.explain import Tried, explain
from qwen3_parity.diagnosis.explained import Explained, certain, outranked
from qwen3_parity.diagnosis.faults import Blame, Fault, Progress, blame, blame_outputs
from qwen3_parity.diagnosis.findings import Finding, Key
from qwen3_parity.diagnosis.judged import Judged, judged
from qwen3_parity.diagnosis.near_ties import flips
from qwen3_parity.diagnosis.next_tap import next_tap
from qwen3_parity.diagnosis.numbers import numbers, of_the_rest
from qwen3_parity.diagnosis.own_angles import angles_differ
from qwen3_parity.diagnosis.parameters import parameter_faults
from qwen3_parity.diagnosis.positions import Cells
from qwen3_parity.diagnosis.reference_lines import reference_lines
from qwen3_parity.diagnosis.right_alone import meaning
from qwen3_parity.diagnosis.search import ENOUGH, Search
from qwen3_parity.diagnosis.together import together
from qwen3_parity.diagnosis.whereabouts import whereabouts
from qwen3_parity.judge.conventions import conventional, judged_kinds
from qwen3_parity.judge.verdict import Verdicts

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


def diagnose(
    golden: Recording,
    candidate: Recording,
    weights: Mapping[str, Array],
    progress: Progress = lambda _: None,
    *,
    partial: bool = False,
    known: Collection[str] = (),
    work: float = ENOUGH,
    deadline: float = math.inf,
    clock: Callable[[], float] = monotonic,
) -> Diagnosis:
    """Judge a candidate as a whole and op by op, and explain each op that is wrong.

    `weights` has the case's parameters by canonical name. `progress` is told what is being looked at. `partial`: the
    case's results need not be there. `known` are mistakes of the same candidate in other cases, tried first. `work`:
    evaluated elements after which no more mistakes are looked for among places without a tap, the same on every
    machine; at `deadline`, a moment of the `clock` in seconds, the search ends as well, and the answer says so. Raises
    `ParityError` when the two recordings do not belong together.
    """
    progress("the whole run")
    if golden.case.mode == pb.GRAPH:
        return diagnose_by_graph(golden, candidate, weights, partial=partial)
    if golden.case.mode in (pb.OP, pb.PLUMBING, pb.TOKENIZATION):  # no network to look for somebody else in
        verdicts = check(golden, candidate, partial=partial)
        network = network_of(golden, candidate) if golden.case.mode == pb.OP else None
        return (
            Diagnosis(verdicts, [], [], [], [])
            if network is None
            else _one_op(verdicts, network, Search(known, progress=progress))
        )
    candidate, unconventional, notes = conventional(candidate, golden, weights)
    run = replace(check_run(golden, candidate, partial=partial), contract=contract_of(golden))
    run = replace(run, structural=[*unconventional, *run.structural], notes=(*run.notes, *notes))
    candidate = judged_kinds(candidate, golden)
    found = blame(Values(candidate, weights, golden), golden, progress)
    verdicts = with_ops(run, found.own)
    search = Search(known, found.values.work, deadline=deadline, clock=clock, progress=progress)
    begin = search.work.done
    with threadpool_limits(1, user_api="blas"):  # the products are small
        faults = together(found.faults, with_first(_explained, found), search, work)
    faults = [
        replace(one, record=_next(found, one), findings=[*one.findings, *reference_lines(one, found.values, golden)])
        for one in faults
    ]
    parameters = parameter_faults(candidate, golden, weights)
    ties, casts = flips(golden, candidate), casts_elsewhere(found.values, golden, found.own)
    angles = angles_differ(found.values, golden) if verdicts.exit_code and not faults else None
    means = [*_after(golden, faults), *([] if parameters else meaning(verdicts, found, angles))]
    return Diagnosis(
        verdicts,
        found.own,
        faults,
        found.misplaced,
        parameters,
        ties,
        search.failures,
        casts,
        angles,
        means,
        search.work.done - begin,
    )


def _one_op(verdicts: Verdicts, network: OpNetwork, search: Search) -> Diagnosis:
    """The diagnosis of one op's case, in the names of its own tensors."""
    values = Values(network.recording, network.weights, network.recording)
    found = blame_outputs(values, network.recording, network.outputs)
    faults = [_explained(found, fault, search) for fault in found.faults]
    own = [_in_the_case(one, network) for one in found.own]
    failures = [network.named(one) for one in search.failures]
    return Diagnosis(verdicts, own, [_renamed(one, network) for one in faults], [], [], failures=failures)


def _in_the_case(verdict: OpVerdict, network: OpNetwork) -> OpVerdict:
    return replace(verdict, name=network.named(verdict.name), step=0)


def _renamed(explained: Explained, network: OpNetwork) -> Explained:
    fault = replace(
        explained.fault,
        place=network.named(explained.fault.place),
        wrong=tuple(_in_the_case(one, network) for one in explained.fault.wrong),
        right=tuple(_in_the_case(one, network) for one in explained.fault.right),
    )
    return replace(
        explained,
        fault=fault,
        explanations=[
            replace(
                one,
                says=network.named(one.says),
                fix=network.named(one.fix),
                place=network.named(one.place),
                taps=_keys(one.taps, network),
            )
            for one in explained.explanations
        ],
        tried=_keys(explained.tried, network),
        findings=[replace(one, says=network.named(one.says)) for one in explained.findings],
    )


def _keys(taps: Sequence[Key], network: OpNetwork) -> tuple[Key, ...]:
    return tuple((network.named(name), 0) for name, _ in taps)


def _explained(found: Blame, fault: Fault, search: Search) -> Explained:
    search.progress(f"what explains {fault.place}")
    few = 3 if fault.others else 1  # a group costs many times more to compute than an op
    wrong, right = spread(fault.wrong, _WRONG // few), spread(fault.right, _RIGHT // few)
    before = search.work.done
    blamed = _judged(found, wrong)
    others = [one for one in fault.wrong if one not in wrong]
    further = spread(others, affordable(search.work.done - before, len(wrong)))
    worst = next(iter(_judged(found, [fault.worst])), None)
    if not blamed or worst is None:
        return Explained(fault, "")
    where = whereabouts(fault, list(map(_cells, (worst, *blamed))), found.values.given or found.values.recording)
    past = _wrong_with_a_past(fault)
    search = replace(search, later=past)
    passing = _judged(found, right)
    own = blamed, passing, with_first(_judged, found, further)
    if worst.evidence.ops == {"rope"}:
        by = with_first(_judged, given_tables=True)
        tried = _explain_rotation(own, (by(found, wrong), by(found, right), with_first(by, found, further)), search)
    elif worst.evidence.ops == {"linear"}:
        tried = explain(*own[:2], replace(search, pairs=False), own[2])
        if not certain(tried.explanations)[0] and not _told_by_structure(worst):  # two at once take much longer
            tried = explain(*own[:2], search, own[2])
    else:
        tried = explain(*own[:2], search, own[2])
    names, no_names = certain(tried.explanations)
    said = [] if names and names[0].certain else numbers(worst, blamed)
    names, no_names = outranked(names, no_names, said)
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
        left = [one for one in fault.wrong if (one.name, one.step) in explained.left]
        rest = _judged(found, sorted(left, key=lambda one: -one.share)[:1])
        return replace(explained, findings=[*(finding for one in rest for finding in of_the_rest(one)), *no_names])
    findings = [*said, *no_names]
    if past and "cache" in worst.evidence.ops:
        findings.append(_WITH_A_PAST)
    return replace(explained, findings=sorted(findings, key=lambda one: -one.weight))


def _told_by_structure(worst: Judged) -> bool:
    """Whether the numbers of a tap follow from its weight, a few numbers of it changed."""
    told = [one for one in numbers(worst) if one.name.startswith(("structure.", "weight."))]
    return any(one.weight >= _REPRODUCED for one in told)


_Taps = tuple[Sequence[Judged], Sequence[Judged], Callable[[], Sequence[Judged]]]
"""Wrong ones to look at, right ones, and all other wrong ones."""


def _explain_rotation(own: _Taps, golden_angles: _Taps, search: Search) -> Tried:
    """One mistake by the candidate's angles or, where those are others, by the golden's; then two mistakes at once."""
    alone = replace(search, pairs=False)
    best = Tried([], ())
    for (blamed, passing, further), how in ((own, alone), (golden_angles, replace(alone, known=())), (own, search)):
        tried = explain(blamed, passing, how, further)
        best = max(best, tried, key=lambda one: sum(each.whole for each in one.explanations[:1]))
        if best.explanations and best.explanations[0].whole >= len(best.taps):
            break
    return best


def _after(golden: Recording, faults: Sequence[Explained]) -> list[str]:
    """Where a case that runs behind another one is wrong: that one may have left what is wrong."""
    after = golden.case.after
    if not after or not faults:
        return []
    return [
        f"this case runs after {after} on the same object: if that one is right, look at what one request keeps for "
        "the next, a mask, positions, frequencies or a cache, before anything else"
    ]


def _cells(judged: Judged) -> Cells:
    place, evidence = judged.evidence.site.place, judged.evidence
    return Cells(place.name, evidence.site.step, place.axes, judged.cells, evidence.judged)


def _next(found: Blame, one: Explained) -> str:
    """Which hidden tap would tell more than what is known of a fault."""
    return next_tap(one.fault, one.explanations if one.is_known else (), found.values)


def _wrong_with_a_past(fault: Fault) -> bool:
    """Whether a group is right in the first step, and wrong in every step behind."""
    right, wrong = {one.step for one in fault.right}, {one.step for one in fault.wrong}
    return bool(fault.others) and 0 in right and right.isdisjoint(wrong)


def spread(verdicts: Sequence[OpVerdict], count: int) -> list[OpVerdict]:
    """At most `count` of them, in order, shuffled over layers and steps: a stride could miss a layer altogether."""
    chosen = np.random.Generator(np.random.PCG64(0)).permutation(len(verdicts))[:count]
    return [verdicts[int(i)] for i in sorted(chosen)]


def _judged(found: Blame, verdicts: Sequence[OpVerdict], *, given_tables: bool = False) -> list[Judged]:
    """Verdicts with their evidence; with `given_tables` as if the candidate turned by the golden's cos and sin."""
    evidences = [one for one in map(found.evidence, verdicts) if not isinstance(one, str)]
    if given_tables:
        values = found.values.another(given_tables=True)
        sites = [values.site(one.site.place.name, one.site.step) for one in evidences]
        evidences = [replace(one, site=site) for one, site in zip(evidences, sites, strict=True) if site is not None]
    return [judged(one) for one in evidences]
