"""The judge: one recording against another, tap by tap, by the rules of what a failure is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import fspath
from pathlib import Path

from qwen3_golden import Array, ParityError, Recording, pb, read
from qwen3_golden.contract import contract_of
from qwen3_parity.blame.held import held, on_held
from qwen3_parity.blame.ops_alone import comparable, nothing_judged, op_alone, with_ops
from qwen3_parity.blame.replay import replay
from qwen3_parity.blame.tables import wrong_tables
from qwen3_parity.judge.by_reference import by_reference
from qwen3_parity.judge.conventions import conventional
from qwen3_parity.judge.exchanged import SPECIFICATION, refuse_no_golden
from qwen3_parity.judge.golden_path import golden_path
from qwen3_parity.judge.match import delivered, is_input, parameters_differ, refuse_weights, results, same_case
from qwen3_parity.judge.predictions import lossy_predictions
from qwen3_parity.judge.same_value import with_results
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.tap_verdict import far_table, is_exact, judge_tap, op_of
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.slices.check import judged_by_graph
from qwen3_parity.text.compare import check_tokenization


def check(
    golden: Recording | str | Path,
    candidate: Recording | str | Path,
    weights: Mapping[str, Array] | None = None,
    *,
    partial: bool = False,
) -> Verdicts:
    """Judge a candidate by a golden; files are read with their digests verified.

    With `weights`, the case's parameters by canonical name, every op is also judged alone, on the candidate's own
    inputs; a case of one op brings them. `partial`: the case's results need not be there. Raises `ParityError` when a
    file cannot be read, when the candidate ran another case (the field is named), when the golden is none or has no
    noise floors and there are no weights, or when it lacks some of its floors (harness bug). What else is wrong is in
    the verdicts.
    """
    expected = golden if isinstance(golden, Recording) else read(golden_path(fspath(golden)), digests=True)
    actual = candidate if isinstance(candidate, Recording) else read(candidate, digests=True)
    refuse_weights(actual, expected)
    refuse_no_golden(expected, actual)
    if expected.case.mode == pb.GRAPH:
        actual = with_results(actual, expected)
        verdicts = judged_by_graph(expected, actual, weights, partial=partial).verdicts
        if weights is None and not verdicts.floors:
            raise _needs_weights(expected)
        remarks = (*verdicts.notes, *by_reference(actual, expected))
        return replace(verdicts, contract=contract_of(expected), notes=remarks)
    actual, unconventional, notes = conventional(actual, expected, weights)
    verdicts = replace(check_run(expected, actual, partial=partial), contract=contract_of(expected))
    verdicts = replace(verdicts, structural=[*unconventional, *verdicts.structural], notes=(*verdicts.notes, *notes))
    if expected.case.mode == pb.OP and verdicts.floors:
        return with_ops(verdicts, op_alone(expected, actual))
    if weights is not None and expected.case.mode not in (pb.OP, pb.PLUMBING, pb.TOKENIZATION):
        judged = comparable(actual, expected, verdicts)
        mine = held(judged, weights, expected)
        alone = replay(judged, mine, expected)
        return with_ops(verdicts if mine is weights else on_held(verdicts, alone, judged, expected, mine), alone)
    if not verdicts.floors:
        raise _needs_weights(expected)
    return verdicts


def check_run(expected: Recording, actual: Recording, *, partial: bool = False) -> Verdicts:
    """As `check` without a look at the ops alone, nor at the contract: for those who change goldens and budgets.

    Of a golden without floors that is the copies and little else.
    """
    refuse_weights(actual, expected)
    if expected.case.mode == pb.TOKENIZATION:
        return replace(check_tokenization(expected, actual), partial=partial, notes=by_reference(actual, expected))
    same_case(actual, expected)
    structural = parameters_differ(actual, expected)
    match = delivered(actual, expected, partial=partial)
    structural += match.problems
    floors = _has_floors(expected)
    scope = Scope(expected)
    taps: list[Verdict] = []
    first = ""
    tables = wrong_tables(actual, expected)
    for item in match.both:
        verdict = judge_tap(actual[item.key], item, scope, actual, expected, floors=floors)
        if verdict.problem is None and item.key in tables:
            verdict = far_table(verdict, tables[item.key], actual, expected)
        if verdict.problem is not None:
            first = first or f"{verdict.op} at {verdict.where}"
            verdict = replace(verdict, problem=replace(verdict.problem, first_bad=first))
        taps.append(verdict)
    if floors and not any(tap.metrics is not None and tap.metrics.count for tap in taps):
        structural.append(nothing_judged(expected.case.name, actual.source, f"{len(actual.tensors)} tensors"))
    against = ("judged against the specification, not Hugging Face",) * (expected.provenance.producer == SPECIFICATION)
    return Verdicts(
        case=expected.case,
        golden=expected.source,
        candidate=actual.source,
        arithmetic=actual.run.arithmetic,
        backend=actual.run.backend,
        taps=taps,
        structural=structural,
        not_materialised=match.not_materialised,
        missing=match.missing,
        unreached=match.unreached,
        partial=partial,
        floors=floors,
        results=results(expected),
        notes=(*against, *by_reference(actual, expected)),
        predictions=lossy_predictions(expected, actual),
    )


def _has_floors(golden: Recording) -> bool:
    """Whether a golden was recorded with noise floors; one without a float tap that needs any counts as such."""
    mode = golden.case.mode
    judged = [item for item in golden if not is_input(item, mode)]
    inexact = [item for item in judged if not is_exact(item, op_of(item, golden), mode)]
    return not inexact or any(item.info.HasField("floor") for item in inexact)


def _needs_weights(golden: Recording) -> ParityError:
    return ParityError(
        golden.source,
        "the golden has no noise floors, so a run cannot be judged by it, only its ops one by one",
        expected="the checkpoint of its case, or noise floors",
        got="neither",
        next_step="give the checkpoint with --model, or capture again with --floors",
    )
