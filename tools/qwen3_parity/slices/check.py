"""The judge of a case of mode GRAPH: the whole run by its floors, and each tap alone by its slice of the graph."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.judge.arithmetic import computed_in
from qwen3_parity.judge.budgets import headroom, shares
from qwen3_parity.judge.compare import compare, exact
from qwen3_parity.judge.match import is_input, parameters_differ, same_case, several
from qwen3_parity.judge.next_command import diagnose_command
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.predictions import lossy_predictions
from qwen3_parity.judge.recapture import recapture
from qwen3_parity.judge.tap_verdict import last_rows_of
from qwen3_parity.judge.verdict import FURTHER, WRONG_ALONE, Problem, Verdict, Verdicts
from qwen3_parity.slices.judge import Alone, judge
from qwen3_parity.slices.loaded import before_rounding, in_another_form
from qwen3_parity.slices.network import DTYPES, Network, network
from qwen3_parity.slices.ordered import in_golden_order
from qwen3_parity.slices.refolded import refolded
from qwen3_parity.slices.rerouted import Routes, routes
from qwen3_parity.slices.run import computing
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.scope import counted
from qwen3_reference.graph.words import RESULTS
from qwen3_spec.graph import Graph
from qwen3_spec.slices import chooser

_NAMED = 8


@dataclass(frozen=True)
class Judged:
    """The verdicts on a candidate, and each tap alone with its cells; `network` is None without weights.

    `weights` are the parameters that it was judged by: where the golden's run rounded them, those from before.
    """

    verdicts: Verdicts
    network: Network | None = None
    alone: Sequence[Alone] = ()
    weights: Mapping[str, Array] = field(default_factory=dict)


def judged_by_graph(
    expected: Recording, actual: Recording, weights: Mapping[str, Array] | None, *, partial: bool = False
) -> Judged:
    """Judge a candidate by a golden with a graph; without `weights`, by the floors of the whole run alone.

    Raises `ParityError` when the candidate ran another case, or the graph cannot be read.
    """
    same_case(actual, expected)
    graph = graph_of(expected.graph, expected.source)
    actual = in_golden_order(graph, expected, actual)
    both = [item for item in expected if not is_input(item, pb.GRAPH) and item.key in actual]
    both.sort(key=lambda item: graph.taps.get(item.key, -1))  # as it is computed
    # Nobody can tell without weights whether another choice was honest: then it excuses nothing.
    rerouted = Routes((), {}, (), ()) if weights is None else routes(graph, expected, actual)
    stored = weights or {}
    unrounded = before_rounding(expected, actual, stored)
    folds = refolded(graph, actual, {**stored, **unrounded})
    unfolded = folds.undone(actual, graph)
    verdicts = Verdicts(
        case=expected.case,
        golden=expected.source,
        candidate=actual.source,
        arithmetic=actual.run.arithmetic or expected.run.arithmetic,
        backend=actual.run.backend or pb.FOREIGN,
        computed_in=computed_in(expected, actual),
        taps=[_in_the_run(item, expected, unfolded, graph, rerouted) for item in both],
        structural=_structural(expected, actual, unrounded),
        not_materialised=[_where(item) for item in expected if not is_input(item, pb.GRAPH) and item.key not in actual],
        partial=partial,
        floors=any(item.info.HasField("floor") for item in expected),
        results=results(expected),
        notes=(*rerouted.notes, *folds.notes),
        predictions=lossy_predictions(expected, actual),
    )
    if weights is None:
        return Judged(_with_first_bad(verdicts))
    held = {**weights, **unrounded, **folds.weights}
    net = network(expected, actual, held)
    with computing(expected.source), threadpool_limits(1, user_api="blas"):  # the products are small
        alone = _each(both, expected, actual, net)
        far = any(tap.problem is not None for tap in verdicts.taps)
        if far and all(part.verdict.passed for part in alone):
            rerouted = routes(graph, expected, actual, net)
            taps = [_in_the_run(item, expected, unfolded, graph, rerouted) for item in both]
            verdicts = replace(verdicts, taps=taps, notes=(*rerouted.notes, *folds.notes))
    verdicts = _with_alone(verdicts, [part.verdict for part in alone])
    return Judged(_with_parameters_excused(verdicts, net, weights), net, alone, held)


def _each(both: Sequence[Tensor], golden: Recording, candidate: Recording, net: Network) -> list[Alone]:
    """Each tap alone; a value that two taps hold alike, as `lm_head` and `logits` do, is judged once."""
    alone, latest = list[Alone](), dict[int, tuple[Tensor, Array, Alone]]()
    for item in both:
        actual, counts, value = candidate[item.key], counted(item, golden), net.value(item)
        if value in latest:
            tap, judged, verdict = latest[value]
            same = tap.info.dtype == actual.info.dtype and np.array_equal(judged, counts)
            if same and np.array_equal(tap.array, actual.array, equal_nan=actual.is_float):
                name, step = item.key
                alone.append(replace(verdict, verdict=replace(verdict.verdict, name=name, step=step)))
                continue
        alone.append(_by_either(actual, item, counts, net))
        latest[value] = actual, counts, alone[-1]
    return alone


def _by_either(actual: Tensor, item: Tensor, counts: Array, net: Network) -> Alone:
    """A tap alone; of what two taps hold otherwise it may have read either."""
    verdict = judge(actual, item, counts, net)
    if (
        verdict.verdict.passed
        or net.otherwise is None
        or net.twice.keys().isdisjoint(net.slices.reads(net.value(item)))
    ):
        return verdict
    again = judge(actual, item, counts, net.otherwise)
    return again if again.verdict.passed else verdict


def _with_parameters_excused(verdicts: Verdicts, net: Network, weights: Mapping[str, Array]) -> Verdicts:
    """Where every tap is right, other bytes of parameters are another form of them, and a note says so."""
    if verdicts.first_bad is not None or verdicts.no_results:
        return verdicts
    golden, candidate = net.golden, net.candidate
    excused = in_another_form(net.graph, golden, candidate, weights, narrow=net.narrow)
    if not excused:
        return verdicts
    before, after = parameters_differ(candidate, golden), parameters_differ(candidate, golden, excused)
    rest = [problem for problem in verdicts.structural if problem not in before]
    parameters = "parameter is" if len(excused) == 1 else "parameters are"
    note = f"{len(excused)} {parameters} loaded in a form of the candidate's own, and right in use: {several(excused)}"
    return replace(verdicts, structural=[*after, *rest], notes=(*verdicts.notes, note))


def results(golden: Recording) -> list[tuple[str, int]]:
    """The name and step of the taps that make a verdict on a golden more than a partial one: its first result's."""
    keys = [item.key for item in golden if not is_input(item, pb.GRAPH)]
    name = next((name for name in RESULTS if any(key[0] == name for key in keys)), keys[-1][0] if keys else "")
    return [key for key in keys if key[0] == name]


def _where(item: Tensor) -> str:
    return f"{item.info.name} (step {item.info.step})"


def _structural(golden: Recording, candidate: Recording, unrounded: Collection[str]) -> list[Problem]:
    loaded = [*_unrounded(golden, candidate, unrounded), *parameters_differ(candidate, golden, unrounded)]
    return [*loaded, *_unknown(golden, candidate)]


def _unrounded(golden: Recording, candidate: Recording, names: Collection[str]) -> Iterator[Problem]:
    if names:
        dtype = DTYPES[next(item.dtype for item in golden.parameters if item.name in names)]
        again = recapture(golden, "float32")
        make = f"make it with {again[0]}" if again else "capture the golden again with --dtype float32"
        yield Problem(
            candidate.source,
            f"{len(names)} parameters are the checkpoint's in float32, which the golden's run rounded to {dtype}",
            expected=f"the golden's parameters, in {dtype}",
            got=f"float32: {several([*names])}",
            next_step=f"judge by a golden in float32 ({make}), or load the parameters in {dtype}",
        )


def _unknown(expected: Recording, actual: Recording) -> Iterator[Problem]:
    extra = [_where(item) for item in actual if item.key not in expected and not is_input(item, pb.GRAPH)]
    if extra:
        more = f" and {len(extra) - _NAMED} more" if len(extra) > _NAMED else ""
        yield Problem(
            actual.source,
            "taps that the golden does not have",
            expected="names and steps of the golden's taps",
            got=", ".join(extra[:_NAMED]) + more,
            next_step=f"qwen3-parity show {expected.source} lists them",
        )


def _in_the_run(item: Tensor, golden: Recording, candidate: Recording, graph: Graph, rerouted: Routes) -> Verdict:
    """A tap against the golden's: floats by their floor, a choice not at all, every other copy by its bits."""
    actual, value = candidate[item.key], graph.taps.get(item.key)
    choice = value is not None and chooser(graph, value) is not None
    rows = last_rows_of(actual, item)
    verdict = Verdict(*item.key, item.info.op, exact=not item.is_float and not choice, last_rows=rows)

    def fail(rule: str, required: object, got: object, share: float | None = None) -> Verdict:
        next_step = diagnose_command(golden.source, candidate.source)
        problem = Problem(verdict.where, rule, str(required), str(got), next_step, share=share)
        return replace(verdict, problem=problem)

    if actual.array.shape != item.array.shape and not rows:
        return fail("another shape", list(item.array.shape), list(actual.array.shape))
    if actual.is_float != item.is_float:
        return fail("another dtype", pb.DType.Name(item.info.dtype), pb.DType.Name(actual.info.dtype))
    if choice:
        others = np.sort(actual.array, -1) != np.sort(item.array, -1)
        count = int((others & counted(item, golden)).sum()) if candidate.run.golden_choices else 0
        rule = "the run says golden_choices, but it chose others"
        return fail(rule, "the golden's, in any order", f"{count} of {others.size}") if count else verdict
    counts, axes = counted(item, golden, rerouted.before(item)), tuple(item.info.axes)
    if verdict.exact:
        metrics = exact(actual.values(), item.values(), counts, axes=axes)
        verdict = replace(verdict, metrics=metrics)
        got = f"{metrics.differing} of {metrics.count} elements differ"
        return fail("must be an exact copy", "the golden's bits", got) if metrics.differing else verdict
    narrow = pb.BF16 in (actual.info.dtype, item.info.dtype)
    expected, counts = (part[:, -rows:] if rows else part for part in (item.values(), counts))
    metrics = compare(*_without_equal_infinities(actual.values(), expected), counts, axes=axes, bfloat16=narrow)
    if metrics.nonfinite_actual:
        verdict = replace(verdict, metrics=metrics)
        return fail("NaN or infinity", "finite numbers, padding included", f"{metrics.nonfinite_actual} elements")
    if not item.info.HasField("floor"):
        return verdict
    verdict = replace(verdict, metrics=metrics, shares=shares(metrics, item.info.floor, headroom("drawn")))
    if not verdict.share <= 1:
        limit = f"RMS error ≤ {headroom('drawn').rms * item.info.floor.rms:.3g}"
        return fail(FURTHER, limit, f"{metrics.rms:.3g}", verdict.share)
    return verdict


def _without_equal_infinities(actual: Array, expected: Array) -> tuple[Array, Array]:
    """Both with 0 for the infinities that they share, as a mask has them, which are no error."""
    shared = np.isinf(expected) & (actual == expected)
    return (np.where(shared, 0, actual), np.where(shared, 0, expected)) if shared.any() else (actual, expected)


_BEYOND = "numbers that no rounding makes: not finite, or of half precision alone where the reference has float32"


def _with_alone(verdicts: Verdicts, alone: Sequence[OpVerdict]) -> Verdicts:
    by_key, taps = {(part.name, part.step): part for part in alone}, list[Verdict]()
    for tap in verdicts.taps:
        op_verdict = by_key[tap.name, tap.step]
        tap = replace(tap, alone=op_verdict, op=op_verdict.op)
        if not op_verdict.passed and tap.problem is None and verdicts.arithmetic != pb.ARITHMETIC_OTHER:
            problem = Problem(
                tap.where,
                WRONG_ALONE,
                "what the reference makes of these inputs, within its headroom of rounding units",
                f"an error of {op_verdict.errors.max:.3g} units" if math.isfinite(op_verdict.errors.max) else _BEYOND,
                diagnose_command(verdicts.golden, verdicts.candidate),
                share=op_verdict.share,
            )
            tap = replace(tap, problem=problem)
        taps.append(tap)
    structural = list(verdicts.structural)
    if not any(tap.compared and _counts(tap) for tap in taps):
        structural.append(
            Problem(
                verdicts.candidate,
                "zero comparisons: not one element of an output was judged",
                expected=f"taps of {verdicts.case.name}",
                got=f"{len(taps)} taps",
                next_step=f"qwen3-parity show {verdicts.candidate}",
            )
        )
    return _with_first_bad(replace(verdicts, taps=taps, structural=structural))


def _counts(tap: Verdict) -> bool:
    return tap.judged_alone or (tap.metrics is not None and tap.metrics.count > 0)


def _with_first_bad(verdicts: Verdicts) -> Verdicts:
    first, taps = "", list[Verdict]()
    for tap in verdicts.taps:
        if tap.problem is not None:
            first = first or tap.where
            tap = replace(tap, problem=replace(tap.problem, first_bad=first))
        taps.append(tap)
    return replace(verdicts, taps=taps)
