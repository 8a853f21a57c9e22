"""Logits of the last position alone are judged there; the verdict stays partial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read, tensor
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.report.next_step import after_check
from qwen3_parity.report.remarks import remarks

ENGINE: dict[str, Any] = {"source": "engine.pb", "digest": b"", "provenance": pb.Provenance(producer="engine")}

GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
WEIGHTS = weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints")
Kept = Callable[[Array], Array]


def engine(part: Kept, steps: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Recording:
    tensors = [
        tensor("logits", part(item.array), step=item.info.step, op=item.info.op) if item.info.name == "logits" else item
        for item in GOLDEN
        if item.info.name != "logits" or item.info.step in steps
    ]
    return replace(GOLDEN, tensors=tensors, **ENGINE)


def last(logits: Array) -> Array:
    return logits[:, -1:]


def test_the_last_position_alone_is_compared_there_and_partial() -> None:
    verdicts = check(GOLDEN, engine(last), WEIGHTS)
    assert verdicts.word == "partial" and not verdicts.problems
    assert verdicts.no_results == ["logits (step 0)"]
    assert "logits of the last position alone" in verdicts.notes[0]
    (said,) = (line for line in remarks(verdicts) if "partial" in line)
    assert "at the last position alone" in said and said.endswith("logits (step 0); --partial asks for no more")
    assert "the last alone --partial asks for no more" in str(after_check(verdicts)["says"])
    asked = check(GOLDEN, engine(last), WEIGHTS, partial=True)
    assert asked.exit_code == 0 and not any("--partial" in line for line in remarks(asked))


def test_the_last_step_alone_is_partial_too() -> None:
    verdicts = check(GOLDEN, engine(last, (4,)), WEIGHTS)
    assert verdicts.word == "partial" and not verdicts.problems
    assert verdicts.no_results == [f"logits (step {step})" for step in range(4)]


def test_a_last_position_that_is_wrong_is_a_divergence() -> None:
    wrong = engine(lambda logits: last(logits) * np.float32(1.01))
    verdicts = check(GOLDEN, wrong, WEIGHTS)
    assert verdicts.word == "divergence" and {tap.step for tap in verdicts.taps if not tap.passed} == {0, 1, 2, 3, 4}
    blamed = {fault.fault.place for fault in diagnose(GOLDEN, wrong, WEIGHTS).faults}
    assert blamed == {"logits"}


def test_another_position_than_the_last_is_a_divergence() -> None:
    assert check(GOLDEN, engine(lambda logits: logits[:, :1]), WEIGHTS).word == "divergence"


def test_the_first_steps_alone_lack_the_last_ones() -> None:
    verdicts = check(GOLDEN, engine(lambda logits: logits, (0, 1)), WEIGHTS)
    assert verdicts.word == "divergence" and {problem.rule for problem in verdicts.problems} == {"missing tap"}
