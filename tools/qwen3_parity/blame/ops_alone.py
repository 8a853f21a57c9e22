"""Parity means both: the verdicts on a run, and beside each the verdict on the tap's op alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qwen3_golden import Recording, pb
from qwen3_parity.blame.op_case import network_of
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.judge.next_command import diagnose_command
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import WRONG_ALONE, Problem, Verdict, Verdicts


def with_ops(verdicts: Verdicts, op_verdicts: Iterable[OpVerdict]) -> Verdicts:
    """The verdicts with each tap's op judged alone: one that is wrong is a divergence even where a budget hides it.

    Arithmetic that has no claim to parity is told its ops' errors, and not judged by them.
    """
    ops = {(op_verdict.name, op_verdict.step): op_verdict for op_verdict in op_verdicts}
    taps, first = list[Verdict](), ""
    for tap in verdicts.taps:
        judged = replace(tap, alone=ops.get((tap.name, tap.step)))
        if judged.alone is not None and not judged.alone.passed and verdicts.arithmetic != pb.ARITHMETIC_OTHER:
            judged = replace(judged, problem=judged.problem or _alone(judged, verdicts))
        if judged.problem is not None:
            first = first or f"{judged.op} at {judged.where}"
            judged = replace(judged, problem=replace(judged.problem, first_bad=first))
        taps.append(judged)
    structural = list(verdicts.structural)
    if not verdicts.floors and not any(tap.judged_alone for tap in taps):
        structural.append(nothing_judged(verdicts.case.name, verdicts.candidate, f"{len(taps)} taps, no op of them"))
    return replace(verdicts, taps=taps, structural=structural)


def op_alone(expected: Recording, actual: Recording) -> list[OpVerdict]:
    """The outputs of a case of one op, by its own inputs and parameters; none for an op that no tap is made by."""
    network = network_of(expected, actual)
    if network is None:
        return []
    judge = TapJudge.of(network.recording, network.weights, network.recording)
    outputs = [item for item in network.recording if item.info.name in network.outputs]
    return [replace(judge.another().alone(item)[0], name=network.named(item.info.name), step=0) for item in outputs]


def nothing_judged(case: str, candidate: str, got: str) -> Problem:
    """The failure of a candidate of which not one output was judged."""
    return Problem(
        candidate,
        "zero comparisons: not one element of an output was judged",
        expected=f"taps of {case}",
        got=got,
        next_step=f"qwen3-parity show {candidate}",
    )


def _alone(tap: Verdict, verdicts: Verdicts) -> Problem:
    assert tap.alone is not None
    hidden = ", which the budget of the whole run hides" if verdicts.floors else ""
    return Problem(
        tap.where,
        f"{tap.op} is {WRONG_ALONE}{hidden}",
        "what the op makes of these inputs, within its headroom of rounding units",
        f"an error of {tap.alone.errors.max:.3g} units",
        diagnose_command(verdicts.golden, verdicts.candidate),
        share=tap.alone.share,
    )


def comparable(actual: Recording, expected: Recording, verdicts: Verdicts) -> Recording:
    """The candidate's inputs and those of its taps that have the golden's shape and kind of dtype.

    Another one is a divergence by itself; what reads it is judged on what it should have held.
    """
    misshapen = {(tap.name, tap.step) for tap in verdicts.taps if tap.metrics is None and tap.problem is not None}
    comparable_taps = {item.key: item for item in actual if item.key in expected and item.key not in misshapen}
    return replace(actual, tensors=list(comparable_taps.values()))
