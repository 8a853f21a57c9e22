"""The verdict on one tap of a run, by the rules of what a failure is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qwen3_golden import Array, ParityError, Place, Recording, Tensor, pb, place
from qwen3_parity.judge.budgets import floor_for, headroom, reach, shares
from qwen3_parity.judge.choices import FirstFlip, first_flip
from qwen3_parity.judge.compare import Metrics, compare, exact
from qwen3_parity.judge.next_command import diagnose_command
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.verdict import NOBODY, Problem, Verdict
from qwen3_spec.ops import OPS

_COPIES = frozenset({"repeat_kv", "rotate_half", *(name for name, op in OPS.items() if op.copies)})
"""Exact on given inputs (the first two stand alone); in a whole run they have the floor of what they copy."""
_NOT_NARROWER = {
    pb.BOOL: {pb.BOOL},
    pb.U8: {pb.U8, pb.I32, pb.I64},
    pb.I32: {pb.I32, pb.I64},
    pb.I64: {pb.I64},
    pb.F16: {pb.F16, pb.F32, pb.F64},
    pb.BF16: {pb.BF16, pb.F32, pb.F64},
    pb.F32: {pb.F32, pb.F64},
    pb.F64: {pb.F64},
}


def op_of(item: Tensor, golden: Recording) -> str:
    """The op that makes a golden's tap, by the table, or as the golden says for a name of no network."""
    tap_place = place(item.info.name, golden.case.config.num_hidden_layers)
    return item.info.op if tap_place is None else tap_place.op


def is_exact(item: Tensor, op: str, mode: int) -> bool:
    """Whether a golden's tap must be copied bit for bit."""
    if mode == pb.PLUMBING or not item.is_float or op == "input" or (op in OPS and OPS[op].exact):
        return True
    return not item.info.HasField("floor") and (op == "inv_freq" or (mode == pb.OP and op in _COPIES))


def judge_tap(
    actual: Tensor, expected: Tensor, scope: Scope, candidate: Recording, golden: Recording, *, floors: bool
) -> Verdict:
    """The verdict on one tap; of a golden without `floors` what floats hold is left to their ops alone."""
    name, step = expected.key
    tap_place, op = place(name, golden.case.config.num_hidden_layers), op_of(expected, golden)
    mode = golden.case.mode
    exactly = is_exact(expected, op, mode) and (floors or op != "inv_freq")
    has_floor = expected.info.HasField("floor")
    if floors and not exactly and not has_floor:
        raise ParityError(
            f"{golden.source}: {name} (step {step})",
            "the golden has no noise floor for a float tap",
            expected="a floor, or an op that is compared exactly",
            got=f"op {op!r}, {pb.DType.Name(expected.info.dtype)}, no floor",
            next_step="record the golden again with its floors: qwen3-parity regenerate",
            fault="harness bug",
        )
    rows = last_rows_of(actual, expected)
    expected = _last(expected, rows)
    verdict = Verdict(name, step, op, exactly, last_rows=rows)

    def failed(
        verdict: Verdict, failure: tuple[str, object, object], share: float | None = None, *, fault: str = "candidate"
    ) -> Verdict:
        rule, required, got = failure
        todo = diagnose_command(golden.source, candidate.source)
        problem = Problem(verdict.where, rule, str(required), str(got), todo, share=share, fault=fault)
        return replace(verdict, problem=problem)

    if form := _other_form(actual, expected):
        return failed(verdict, form)
    judged = scope.judged(expected, tap_place)
    metrics = _measured(actual, expected, op, judged, exactly=exactly)
    if has_floor and not exactly:
        verdict = replace(verdict, shares=shares(metrics, floor_for(candidate, expected), headroom("run", op)))
    verdict = replace(verdict, metrics=metrics)
    if metrics.nonfinite and mode != pb.PLUMBING:
        return failed(verdict, _nonfinite(metrics))
    if exactly:
        if not metrics.differing:
            return verdict
        failure, tied = _no_copy(actual, expected, metrics, op, candidate, golden)
        return failed(verdict, failure, fault=NOBODY if tied else "candidate")
    if leak := _leak(actual, expected, scope, tap_place):
        return failed(verdict, ("probability of a hidden key is not exactly 0", "0", f"{leak} cells are not"))
    if not has_floor:
        return replace(verdict, metrics=None)  # how far is far enough, nobody knows: its op alone is judged
    # Written so that a NaN fails.
    if not verdict.share <= 1:
        return failed(verdict, _over(verdict, floor_for(candidate, expected), actual, expected), verdict.share)
    return verdict


def _other_form(actual: Tensor, expected: Tensor) -> tuple[str, object, object] | None:
    """Rule, expected and got of another shape or dtype."""
    if actual.array.shape != expected.array.shape:
        return "another shape", expected.array.shape, actual.array.shape
    if actual.info.dtype not in _NOT_NARROWER[expected.info.dtype]:
        dtype = f"{pb.DType.Name(expected.info.dtype)}, or wider of the same kind"
        return "another dtype", dtype, pb.DType.Name(actual.info.dtype)
    return None


def _measured(actual: Tensor, expected: Tensor, op: str, judged: Array | None, *, exactly: bool) -> Metrics:
    axes = tuple(expected.info.axes)
    if exactly:
        return exact(actual.values(), expected.values(), judged, axes=axes)
    bfloat16 = pb.BF16 in (actual.info.dtype, expected.info.dtype)
    metrics = compare(*_comparable(actual, expected, op), judged, axes=axes, bfloat16=bfloat16)
    if op != "inv_freq":
        return metrics
    # Its error is a quotient's, its ULPs are its own.
    return replace(metrics, ulp=compare(actual.values(), expected.values(), judged, axes=axes).ulp)


def _no_copy(
    actual: Tensor, expected: Tensor, metrics: Metrics, op: str, candidate: Recording, golden: Recording
) -> tuple[tuple[str, str, str], bool]:
    """Rule, expected and got of a tap that is no exact copy, and whether noise may have chosen: nobody's fault."""
    if op == "argmax" and (flip := first_flip(actual.values(), golden, candidate)):
        return _other_token(flip), flip.near_tie
    if op == "argmax" and (tie := _near_tie(golden, candidate)):
        return tie, True
    at = metrics.index
    bits = f"the golden's bits: {expected.values()[at]} at {list(at)}"
    got = f"{actual.values()[at]}; {metrics.differing} of {metrics.count} elements differ"
    return ("must be an exact copy", bits, got), False


HEADS = ("logits", "lm_head")
"""The taps that an engine may have of the last position alone."""


def last_rows_of(actual: Tensor, expected: Tensor) -> int:
    """How many of the golden's logits a candidate has that kept those of the last position alone; 0 for all or none.

    An engine that generates computes no others.
    """
    shape = expected.array.shape
    several = expected.info.name in HEADS and len(shape) == 3 and shape[1] > 1
    return int(several and actual.array.shape == (shape[0], 1, shape[2]))


def _last(item: Tensor, rows: int) -> Tensor:
    """The last rows of logits, all of them for 0; info.shape stays that of the whole."""
    return Tensor(item.info, item.array[:, -rows:]) if rows else item


def far_table(verdict: Verdict, op_verdict: OpVerdict, candidate: Recording, golden: Recording) -> Verdict:
    """The verdict on a cos or sin that is near the golden's, but not that of its own position and frequency."""
    problem = Problem(
        verdict.where,
        f"not the {verdict.op} of position × inv_freq, neither of the float32 product nor of the exact one",
        expected=f"at most {headroom('op', verdict.op).max:g} roundings of float32 away",
        got=f"{op_verdict.errors.max:.3g}",
        next_step=diagnose_command(golden.source, candidate.source),
        share=op_verdict.share,
    )
    budget_shares = verdict.shares
    return replace(
        verdict,
        problem=problem,
        shares=budget_shares and budget_shares._replace(max=max(budget_shares.max, op_verdict.share)),
    )


def _comparable(actual: Tensor, expected: Tensor, op: str) -> tuple[Array, Array]:
    """The values, or for frequencies, which span decades and have a relative floor, their quotient and 1."""
    ours, theirs = actual.values(), expected.values()
    if op != "inv_freq" or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return ours, theirs
    quotient = ours.astype(np.float64) / theirs
    return quotient, np.ones_like(quotient)


def _nonfinite(metrics: Metrics) -> tuple[str, str, str]:
    counts = {
        "the candidate alone": metrics.nonfinite_actual,
        "the golden alone": metrics.nonfinite_expected,
        "both": metrics.nonfinite_both,
    }
    got = ", ".join(f"{count} in {where}" for where, count in counts.items() if count)
    return "NaN or infinity", "finite numbers everywhere, padding included", got


def _other_token(flip: FirstFlip) -> tuple[str, str, str]:
    """Rule, expected and got of another token than the golden's."""
    equal = flip.margin == 0
    expected, got = f"token {flip.expected} at {list(flip.at)}{', the lower id' * equal}", f"token {flip.actual}"
    if equal:
        got += ", the higher id: the golden's logits of the two are equal"
    elif np.isfinite(flip.margin):
        got += f": the golden's logits of the two are {flip.margin:.3g} apart"
        got += f", {flip.margin / flip.floor:.3g} × the noise floor" if flip.floor else ", and it has no noise floors"
    if flip.contradicted:
        got += f"; the candidate's are {f'{flip.theirs:.3g} apart' if flip.theirs else 'equal, too'}"
        return (
            "another token than the candidate's own logits choose: the largest, of equals the lower id",
            expected,
            got,
        )
    if not flip.near_tie:
        return "another token than the reference chooses, and no near-tie", expected, got
    if not equal:
        return "near-tie: noise may choose another token here", expected, got
    rule = "near-tie: of equal logits the lower id is chosen, unless noise makes the candidate's unequal"
    if np.isnan(flip.theirs):
        got += ". The candidate's are not recorded in float32: if they are equal, too, this is a mistake"
    else:
        got += f", the candidate's {abs(flip.theirs):.3g} apart"
    return rule, expected, got


def _near_tie(golden: Recording, candidate: Recording) -> tuple[str, str, str] | None:
    """Rule, expected and got when noise may have chosen another token; None when the golden's margins forbid it."""
    floor = max((floor_for(candidate, t).max for t in golden if t.info.name == "logits"), default=0.0)
    margin = golden.case.smallest_margin
    if not 0 < margin <= reach(floor):
        return None
    expected_margin = f"best logits further apart than {reach(floor):.3g}, what honest float32 may move them"
    return (
        "near-tie: noise may choose another token here",
        expected_margin,
        f"a margin of {margin / floor:.3g} × the noise floor",
    )


def _leak(actual: Tensor, expected: Tensor, scope: Scope, tap_place: Place | None) -> int:
    hidden = scope.hidden(expected, tap_place)
    if hidden is None:
        return 0
    return int(np.count_nonzero(actual.values()[np.broadcast_to(hidden, actual.array.shape)]))


def _over(verdict: Verdict, floor: pb.Floor, actual: Tensor, expected: Tensor) -> tuple[str, str, str]:
    """Rule, expected and got of a float tap beyond its budget: the measure that exceeds it most."""
    metrics, budget_shares = verdict.metrics, verdict.shares
    assert metrics is not None and budget_shares is not None
    kind = max(budget_shares._asdict(), key=lambda measure: budget_shares._asdict()[measure])
    at: Sequence[int] = {"max": metrics.index, "row": metrics.row_index, "head": metrics.head_index}.get(kind, ())
    where = f" at {list(at)}" if at else ""
    budget = getattr(headroom("run", verdict.op), kind) * getattr(floor, kind)
    words = {"rms": "RMS error", "max": "largest error", "row": "RMS error of one row", "head": "RMS error of one head"}
    got = f"{getattr(metrics, kind):.3g}{where}"
    if kind == "max":
        got += f": {float(actual.values()[metrics.index]):.9g} for {float(expected.values()[metrics.index]):.9g}"
    return "further from the golden than honest arithmetic goes", f"{words[kind]} ≤ {budget:.3g}", got
