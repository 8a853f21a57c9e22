"""One tap in a unit test: an array of one op or block, within the budget of a golden's tap or an AssertionError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import ParityError, Recording, Tensor, pattern_of, pb, place, read, tensor, verify
from qwen3_golden.contract import contract_of
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_at_hand
from qwen3_parity.judge.budgets import floor_for, headroom
from qwen3_parity.judge.differences import differences
from qwen3_parity.judge.next_command import show_command
from qwen3_parity.judge.not_parity import NotParityError
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.spoken import as_filed, spoken
from qwen3_parity.judge.tap_verdict import is_exact, judge_tap, op_of
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.case import golden as case_of
from qwen3_parity.recording.recorder import elements

_ALIKE = 3
"""Mistakes that give the same numbers and are named beside the first."""


def assert_parity(actual: Any, golden: Case | str | Path, tap: str, step: int = 0) -> None:
    """Compare an array with a golden's tap, within the budget of a whole run.

    `actual` is a NumPy array, a torch tensor, or what NumPy makes an array of; bfloat16 as torch or ml_dtypes have it,
    or its bits as uint16. It has the tap's shape, `qwen3-parity show GOLDEN` prints it with its axes. `golden` is the
    name of a case, a file or a `Case`, whose file is read again. `step` counts the case's forwards, 0 is the prefill.

    Raises `NotParityError`, an `AssertionError`, for other numbers and dtypes, with the mistake that gives them where
    one of its op is known and the case's checkpoint is at hand, and `ParityError` for a golden, tap or step that is
    not there, a golden that is damaged or not the released one of its name, and for another shape.
    """
    __tracebackhide__ = True
    for name, value, kind, description in (("tap", tap, str, "a tap's name"), ("step", step, int, "a whole number")):
        if not isinstance(value, kind) or isinstance(value, bool):
            next_step = "assert_parity(actual, golden, tap, step=0): a golden's tap, and which of the case's forwards"
            raise ParityError(
                name, f"it is not {description}", expected=description, got=repr(value), next_step=next_step
            )
    case = _released(case_of(golden))
    expected = _tap(case, tap, step)
    verify(replace(case.golden, tensors=[expected]))
    array, dtype = elements(actual, "actual")
    if dtype is None and expected.info.dtype == pb.BF16 and array.dtype.name == "uint16":
        dtype = pb.BF16
    if array.shape != expected.array.shape:
        raise ParityError(
            f"{tap} (step {step}) of {case.name}",
            "another shape",
            expected=f"[{', '.join(expected.info.axes)}] = {list(expected.array.shape)}",
            got=list(array.shape),
            next_step="give the array as the tap is laid out: transpose it, or take one step of it",
        )
    info = expected.info
    actual_tensor = tensor(tap, array, step=step, dtype=dtype, axes=info.axes, op=info.op, inputs=info.inputs)
    _judge(actual_tensor, expected, case)


def _released(case: Case) -> Case:
    """The case with what its file says now. A golden of the set must be the released one; of a user's own, which nobody
    else vouches for, `_refuse_wide` looks at the floors.

    Raises `ParityError` for another: what it allows is somebody's own rule.
    """
    recording = read(case.path)
    contract = contract_of(recording)
    if contract.edited:
        raise ParityError(
            case.path,
            "its values and floors are not the released ones, so nothing within them is parity",
            expected=f"the released golden of {case.name}, and the released tables",
            got=f"edited: {', '.join(contract.edited)}",
            next_step=f"name the case, assert_parity(actual, {case.name!r}, tap); qwen3-parity doctor shows the set",
        )
    return replace(case, golden=recording)


def _tap(case: Case, tap: str, step: int) -> Tensor:
    recording = case.golden
    expected = next((there for name in as_filed([tap]) if (there := recording.get(name, step))), None)
    if expected is None:
        steps = sorted(item.info.step for item in recording if item.info.name == tap)
        raise _missing(case, tap, step, steps)
    exactly = is_exact(expected, op_of(expected, recording), recording.case.mode)
    if not exactly and not expected.info.HasField("floor"):
        raise ParityError(
            f"{tap} (step {step}) of {case.name}",
            "the golden has no noise floor for this tap, so nobody knows how far is far enough",
            expected="a golden with floors",
            got="none at this tap",
            next_step="capture it again with --floors, or judge a recording with the checkpoint: qwen3-parity check",
        )
    return expected


def _missing(case: Case, tap: str, step: int, steps: Sequence[int]) -> ParityError:
    names = list(dict.fromkeys(item.info.name for item in case.golden))
    close = get_close_matches(tap, names, n=3) or [f"one of {len(names)} taps"]
    expected = f"step {', '.join(map(str, steps))}" if steps else " or ".join(close)
    return ParityError(
        f"{tap!a} (step {step}) of {case.name}",
        "the golden's tap has no such step" if steps else "the golden has no such tap",
        expected=expected,
        got=f"step {step}" if steps else tap,
        next_step=show_command(case.name, case.path),
    )


def _judge(actual: Tensor, expected: Tensor, case: Case) -> None:
    __tracebackhide__ = True
    recording = case.golden
    alone = Recording(recording.case, pb.Provenance(), pb.Run(), [actual])
    scope = Scope(recording)
    verdict = judge_tap(actual, expected, scope, alone, recording, floors=True)
    if verdict.problem is None:
        _refuse_wide(actual, expected, scope, alone, case)
        return
    difference = None
    if verdict.metrics is not None:
        allowed = None if verdict.exact else headroom("run", verdict.op).max * floor_for(alone, expected).max
        judged = scope.judged(expected, place(expected.info.name, recording.case.config.num_hidden_layers))
        difference = differences(actual, expected, judged, allowed)
        if difference.first is None:  # no element by itself, but all of them, a row or a head
            difference = differences(actual, expected, judged, 0.0)
    problem = replace(
        verdict.problem,
        where=f"{verdict.where} of {case.name}",
        first_bad=f"{difference.first}; {difference.count} of {difference.of} elements" if difference else "",
        next_step=show_command(case.name, case.path, "--tap", expected.info.name),
    )
    text = "\n  ".join([str(problem), *_mistake(actual, case)])
    blamed = pattern_of(expected.info.name).replace("{layer}", "*")
    raise NotParityError(spoken(text, recording.case), spoken(blamed, recording.case))


def _mistake(actual: Tensor, case: Case) -> Iterator[str]:
    """The known mistake that gives these numbers on the golden's own inputs, those that give them as well, the fix."""
    from qwen3_parity.diagnosis.single_tap import mistake_at

    try:
        weights = weights_at_hand(case.golden, checkpoints_of(case.path), case.model)
        if weights is None and case.golden.case.checkpoint:
            return
        explained = mistake_at(case.golden, actual, weights or {})
    except ParityError as error:
        yield f"mistake:  not looked for, {error.rule}: {error.where}"
        return
    if explained is None or not explained.explanations:
        return
    best, *rest = explained.explanations
    alike = [explanation.name for explanation in rest if explanation.as_good_as(best)][:_ALIKE]
    could = f"; it could as well be {', '.join(alike)}" if alike else ""
    yield f"mistake:  {best.name}: it {best.says}{could}"
    yield f"fix:      {best.fix}"


def _refuse_wide(actual: Tensor, expected: Tensor, scope: Scope, alone: Recording, case: Case) -> None:
    """Raise `ParityError` where zeros would pass as well: floors that prove nothing."""
    if not np.any(expected.values()):
        return
    zeros = Tensor(actual.info, np.zeros_like(actual.array))
    if judge_tap(zeros, expected, scope, replace(alone, tensors=[zeros]), case.golden, floors=True).problem is None:
        raise ParityError(
            f"{expected.info.name} (step {expected.info.step}) of {case.name}",
            "the golden's noise floor is so wide that zeros would pass, so a pass proves nothing",
            expected="a floor below the values",
            got=f"floor max {expected.info.floor.max:.3g}, rms {expected.info.floor.rms:.3g}",
            next_step="capture the golden again with --floors; a committed one is named by its case",
        )
