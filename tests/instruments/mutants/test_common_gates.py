"""`python -m detection.gates`: common gates and this judge on the same bugs and the same honest runs."""

from __future__ import annotations

import numpy as np
import pytest

from detection.gates import run
from detection.gates.command import markdown
from detection.gates.common import GATES, Outputs
from detection.gates.run import OURS, Row, of_bug, of_variation, variations
from detection.mutants import catalogue

COSINE, NMSE, TOP_1, RATIO, ALLCLOSE = GATES
HIDDEN = np.random.default_rng(0).normal(size=(5, 8))
LOGITS = np.random.default_rng(1).normal(size=(5, 11))


def passed(layer: np.ndarray, logits: np.ndarray, ratio: float = 1.0) -> set[str]:
    with np.errstate(all="ignore"):
        outputs = Outputs([(HIDDEN, HIDDEN), (layer, HIDDEN)], (logits, LOGITS), ratio)
        return {gate for gate, passes in GATES.items() if passes(outputs)}


@pytest.mark.parametrize(
    ("layer", "logits", "ratio", "refusing"),
    [
        (HIDDEN, LOGITS, 1.2, set()),
        (-HIDDEN, LOGITS, 1.0, {COSINE}),
        (HIDDEN * 3, LOGITS * 1.05, 1.0, {ALLCLOSE}),  # no angle, no order and no large part of the variance
        (HIDDEN, LOGITS * 1.2, 1.0, {NMSE, ALLCLOSE}),
        (HIDDEN, LOGITS[:, ::-1], 1.0, {NMSE, TOP_1, ALLCLOSE}),
        (HIDDEN, LOGITS, 1.21, {RATIO}),
        (HIDDEN * 0, LOGITS, np.nan, {COSINE, RATIO}),
        (HIDDEN * np.nan, LOGITS * np.nan, np.nan, {COSINE, NMSE, TOP_1, RATIO, ALLCLOSE}),
    ],
)
def test_a_gate_refuses_what_it_looks_at_and_nothing_else(
    layer: np.ndarray, logits: np.ndarray, ratio: float, refusing: set[str]
) -> None:
    assert set(GATES) - passed(layer, logits, ratio) == refusing


def test_a_bug_passes_gates_and_not_this_judge() -> None:
    mutant = next(mutant for mutant in catalogue() if mutant.name == "own/cache-row-late")
    row = of_bug(mutant)
    assert {COSINE, NMSE, TOP_1, RATIO} <= set(row.passes) and OURS not in row.passes and not row.honest


def test_an_honest_run_passes_this_judge() -> None:
    item = next(item for item in variations() if item[0].name == "sdpa")
    row = of_variation(item)
    assert {COSINE, NMSE, TOP_1, OURS} <= set(row.passes) and row.honest


def test_what_fails_on_the_case_is_not_counted() -> None:
    rows = [
        Row("a", "x", honest=False, passes=(COSINE,)),
        Row("b", "x", honest=False),
        Row("c", "x", honest=False, failure="no"),
        Row("d", "x", honest=True, passes=(OURS,)),
    ]
    lines = markdown(rows).splitlines()
    assert "of 2 bugs" in lines[0] and "of 1 honest" in lines[0]
    assert lines[2] == f"| {COSINE} | 1 (50 %) | 1 (100 %) |"
    assert lines[-1] == f"| {OURS} | 0 (0 %) | 0 (0 %) |"


def test_our_own_bfloat16_run_is_what_the_ratio_is_of() -> None:
    assert 0 < run._plain("decoder/ragged_decode") < np.inf
