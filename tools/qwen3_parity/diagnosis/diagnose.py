"""From two recordings to a diagnosis: what is wrong, what the mistake is, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial as with_first
from time import monotonic

import numpy as np
from threadpoolctl import threadpool_limits

from qwen3_golden import Array, Recording, Tensor, pb, place
from qwen3_golden.contract import contract_of
from qwen3_golden.origins import origin_of
from qwen3_parity.blame.held import held, on_held
from qwen3_parity.blame.op_case import OpNetwork, network_of
from qwen3_parity.blame.ops_alone import with_ops
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.check import check, check_run
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.by_graph import diagnose_by_graph
from qwen3_parity.diagnosis.casts import casts_elsewhere
from qwen3_parity.diagnosis.elsewhere import Elsewhere
from qwen3_parity.diagnosis.explain_fault import explain_fault
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.faults import Blame, Progress, blame, blame_outputs
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.diagnosis.near_ties import flips
from qwen3_parity.diagnosis.next_tap import next_tap
from qwen3_parity.diagnosis.other_names import Judgement, under_right_names
from qwen3_parity.diagnosis.other_order import in_right_order
from qwen3_parity.diagnosis.own_angles import angles_differ
from qwen3_parity.diagnosis.parameters import parameter_faults
from qwen3_parity.diagnosis.precision import without_fix
from qwen3_parity.diagnosis.reference_lines import reference_lines
from qwen3_parity.diagnosis.right_alone import meaning
from qwen3_parity.diagnosis.search import ENOUGH, Search
from qwen3_parity.diagnosis.together import together
from qwen3_parity.judge.by_reference import by_reference
from qwen3_parity.judge.conventions import conventional, judged_kinds
from qwen3_parity.judge.match import parameters_differ
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.same_value import with_results
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.verdict import Verdicts


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
        candidate = with_results(candidate, golden)
        search = Search(deadline=deadline, clock=clock, progress=progress)
        diagnosis = diagnose_by_graph(golden, candidate, weights, search, partial=partial, effort=work / ENOUGH)
        remarks = (*diagnosis.verdicts.notes, *by_reference(candidate, golden))
        return without_fix(replace(diagnosis, verdicts=replace(diagnosis.verdicts, notes=remarks)))
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
    mine = held(candidate, weights, golden)
    blamed = blame(TapJudge.of(candidate, mine, golden), progress)
    verdicts = with_ops(run if mine is weights else on_held(run, blamed.alone, candidate, golden, mine), blamed.alone)
    search = Search(known, blamed.values.work, deadline=deadline, clock=clock, progress=progress)
    candidate, verdicts, blamed, elsewhere = search.or_else(
        lambda: _by_right_names(golden, candidate, mine, verdicts, blamed),
        (candidate, verdicts, blamed, list[Elsewhere]()),
        "tap names",
    )
    search.work = blamed.values.work
    begin = search.work.done
    with threadpool_limits(1, user_api="blas"):  # the products are small
        faults = together(blamed.faults, with_first(explain_fault, blamed), search, work)
    faults = [
        replace(
            explained,
            record=_next(blamed, explained),
            origin=origin_of(candidate.run, explained.fault.wrong[0].name),
            findings=[*explained.findings, *reference_lines(explained, blamed.values, golden)],
        )
        for explained in faults
    ]
    parameters = parameter_faults(candidate, golden, weights)
    ties, casts = flips(golden, candidate), casts_elsewhere(blamed.judge, blamed.alone)
    angles = angles_differ(blamed.values, golden) if verdicts.exit_code and not faults else None
    means = [*_after(golden, faults), *([] if parameters or elsewhere else meaning(verdicts, blamed, angles))]
    diagnosis = Diagnosis(
        verdicts,
        blamed.alone,
        faults,
        [*elsewhere, *(Elsewhere(fault.place, others=fault.others) for fault in blamed.misplaced)],
        parameters,
        ties,
        search.failures,
        casts,
        angles,
        means,
        search.work.done - begin,
    )
    return without_fix(diagnosis)


def _by_right_names(
    golden: Recording, candidate: Recording, weights: Mapping[str, Array], verdicts: Verdicts, blamed: Blame
) -> tuple[Recording, Verdicts, Blame, list[Elsewhere]]:
    """The candidate with each tap under the name whose numbers it holds, judged, and the places that were moved."""
    again, scope = (candidate, blamed), Scope(golden)
    loaded = parameters_differ(candidate, golden)
    rest = [problem for problem in verdicts.structural if problem not in loaded]

    def judge(renamed: Recording) -> Judgement:
        nonlocal again
        again = renamed, blame(TapJudge.of(renamed, weights, golden))
        run = check_run(golden, renamed, partial=verdicts.partial)
        run = replace(run, structural=[*parameters_differ(renamed, golden), *rest], notes=verdicts.notes)
        return _judgement(with_ops(run, again[1].alone), again[1])

    def counts(item: Tensor) -> Array:
        judged = scope.judged(item, place(item.info.name, golden.case.config.num_hidden_layers))
        return np.broadcast_to(True if judged is None else judged, item.array.shape)

    if not blamed.faults:
        return candidate, verdicts, blamed, []
    for look in (under_right_names, in_right_order):
        if (moved := look(golden, candidate, counts, _judgement(verdicts, blamed), judge)) is not None:
            return again[0], moved[0], again[1], moved[1]
    return candidate, verdicts, blamed, []


def _judgement(verdicts: Verdicts, blamed: Blame) -> Judgement:
    def reads(names: set[str]) -> set[Key]:
        """All that is computed behind them: what lies between few taps may read any of those."""
        keys = [(verdict.name, verdict.step) for verdict in blamed.alone if not verdict.reason]
        first = next((number for number, (name, _) in enumerate(keys) if name in names), len(keys))
        return {*keys[first + 1 :]}

    return Judgement(verdicts, blamed.alone, reads)


def _one_op(verdicts: Verdicts, network: OpNetwork, search: Search) -> Diagnosis:
    """The diagnosis of one op's case, in the names of its own tensors."""
    judge = TapJudge.of(network.recording, network.weights, network.recording)
    blamed = blame_outputs(judge, network.outputs)
    faults = [explain_fault(blamed, fault, search) for fault in blamed.faults]
    alone = [_in_the_case(verdict, network) for verdict in blamed.alone]
    failures = [network.named(failure) for failure in search.failures]
    faults = [_renamed(explained, network) for explained in faults]
    return without_fix(Diagnosis(verdicts, alone, faults, [], [], failures=failures))


def _in_the_case(verdict: OpVerdict, network: OpNetwork) -> OpVerdict:
    return replace(verdict, name=network.named(verdict.name), step=0)


def _renamed(explained: Explained, network: OpNetwork) -> Explained:
    fault = replace(
        explained.fault,
        place=network.named(explained.fault.place),
        wrong=tuple(_in_the_case(verdict, network) for verdict in explained.fault.wrong),
        passing=tuple(_in_the_case(verdict, network) for verdict in explained.fault.passing),
    )
    return replace(
        explained,
        fault=fault,
        explanations=[
            replace(
                explanation,
                says=network.named(explanation.says),
                fix=network.named(explanation.fix),
                place=network.named(explanation.place),
                taps=_keys(explanation.taps, network),
            )
            for explanation in explained.explanations
        ],
        tried=_keys(explained.tried, network),
        findings=[replace(finding, says=network.named(finding.says)) for finding in explained.findings],
    )


def _keys(taps: Sequence[Key], network: OpNetwork) -> tuple[Key, ...]:
    return tuple((network.named(name), 0) for name, _ in taps)


def _after(golden: Recording, faults: Sequence[Explained]) -> list[str]:
    """Where a case that runs behind another one is wrong: that one may have left what is wrong."""
    after = golden.case.after
    if not after or not faults:
        return []
    return [
        f"this case runs after {after} on the same object: if that one is right, look at what one request keeps for "
        "the next, a mask, positions, frequencies or a cache, before anything else"
    ]


def _next(blamed: Blame, explained: Explained) -> str:
    """Which hidden tap would tell more than what is known of a fault."""
    return next_tap(explained.fault, explained.explanations if explained.is_known else (), blamed.values)
