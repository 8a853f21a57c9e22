"""Scores recorded behind the mask are judged at visible keys; minus infinity at one of those stays wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, place, read, tensor, to_bfloat16
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.scope import Scope

ENGINE: dict[str, Any] = {"source": "engine.pb", "digest": b"", "provenance": pb.Provenance(producer="engine")}

LOWEST = float(np.finfo(np.float32).min)


def golden_of(case: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def weights(golden: Recording) -> dict[str, Array]:
    return dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))


def masked(golden: Recording, put: Callable[[Array, Array], Array]) -> Recording:
    """The golden with what `put(scores, hidden)` makes of the scores of every layer and step."""
    scope, tensors = Scope(golden), []
    for item in golden:
        tap_place = place(item.info.name, golden.case.config.num_hidden_layers)
        if tap_place is not None and tap_place.op == "scores":
            judged = scope.judged(item, tap_place)
            hidden = np.zeros(item.array.shape, bool) if judged is None else ~np.broadcast_to(judged, item.array.shape)
            values = put(item.values(), hidden).astype(item.values().dtype)
            half = item.info.dtype == pb.BF16
            dtype = {"dtype": pb.BF16} if half else {}
            array = to_bfloat16(values) if half else values
            item = tensor(item.info.name, array, step=item.info.step, op=item.info.op, **dtype)
        tensors.append(item)
    return replace(golden, tensors=tensors, **ENGINE)


def minus_infinity(values: Array, hidden: Array) -> Array:
    return np.where(hidden, -np.inf, values)


def lowest(values: Array, hidden: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.where(hidden, np.float32(LOWEST) + values, values)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("put", [minus_infinity, lowest], ids=lambda put: put.__name__)
@pytest.mark.parametrize("case", ["decoder/plain", "decoder/ragged_decode", "encdec/ragged", "llama/bfloat16"])
def test_scores_behind_the_mask_are_recognised_and_pass(case: str, put: Callable[[Array, Array], Array]) -> None:
    golden = golden_of(case)
    verdicts = check(golden, masked(golden, put), weights(golden))
    assert verdicts.word == "parity" and not verdicts.wrong_alone
    assert len(verdicts.notes) == 1 and "behind the mask" in verdicts.notes[0]


def test_diagnose_recognises_them_too() -> None:
    golden = golden_of("decoder/ragged_decode")
    diagnosis = diagnose(golden, masked(golden, minus_infinity), weights(golden))
    assert diagnosis.verdicts.word == "parity" and not diagnosis.faults and diagnosis.verdicts.notes


@pytest.mark.parametrize("wrong", [-np.inf, np.nan, np.inf])
def test_what_is_not_finite_at_a_visible_key_stays_wrong(wrong: float) -> None:
    golden = golden_of("decoder/ragged_decode")

    def put(values: Array, hidden: Array) -> Array:
        changed = minus_infinity(values, hidden)
        changed[tuple(np.argwhere(~hidden)[0])] = wrong
        return changed

    verdicts = check(golden, masked(golden, put), weights(golden))
    assert verdicts.word == "divergence"
    assert {problem.rule for problem in verdicts.problems if ".scores" in problem.where} == {"NaN or infinity"}


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_another_thing_than_a_mask_at_a_hidden_key_stays_wrong(wrong: float) -> None:
    golden = golden_of("decoder/ragged_decode")
    verdicts = check(golden, masked(golden, lambda values, hidden: np.where(hidden, wrong, values)), weights(golden))
    assert verdicts.word == "divergence"
