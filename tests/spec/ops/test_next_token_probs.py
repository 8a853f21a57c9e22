"""Filters of a distribution, on numbers that can be checked by hand, and against Hugging Face's processors."""

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from qwen3_spec.ops import next_token_probs
from qwen3_spec.ops.next_token_probs import Sampling, seen_ids

HALF_A_HALF = np.log(np.array([[0.41, 0.5, 0.09]]))
NONE = np.zeros((1, 3), bool)


def probs(logits: np.ndarray, seen: np.ndarray = NONE, **filters: float) -> list[float]:
    found = next_token_probs.forward(logits, seen, Sampling(**filters))  # type: ignore[arg-type]
    return [round(float(one), 6) for one in found[0]]


def test_the_token_that_crosses_p_stays() -> None:
    assert probs(HALF_A_HALF, top_p=0.9) == [round(0.41 / 0.91, 6), round(0.5 / 0.91, 6), 0.0]


def test_a_sum_that_is_exactly_p_is_enough() -> None:
    assert probs(np.log(np.array([[2.0, 1.0, 1.0]])), top_p=0.5) == [1.0, 0.0, 0.0]


def test_a_top_p_of_0_leaves_the_largest() -> None:
    assert probs(HALF_A_HALF, top_p=0.0) == [0.0, 1.0, 0.0]


def test_what_equals_the_kth_largest_stays() -> None:
    assert probs(np.array([[1.0, 1.0, 0.0]]), top_k=1) == [0.5, 0.5, 0.0]


def test_min_p_is_relative_to_the_largest() -> None:
    assert probs(HALF_A_HALF, min_p=0.2)[2] == 0.0 and probs(HALF_A_HALF, min_p=0.17)[2] > 0


def test_whether_a_token_stays_is_a_question_of_float32() -> None:
    powers = np.float32(np.log(2) * np.array([[3.0, 2.0, 1.0, 1.0]]))
    seen = np.zeros((1, 4), bool)
    assert [one > 0 for one in probs(powers, seen, top_p=0.75 + 1e-9)] == [True, True, False, False]
    assert [one > 0 for one in probs(powers, seen, min_p=0.5)] == [True, True, False, False]


def test_a_negative_logit_is_multiplied_by_the_penalty_and_a_positive_one_divided() -> None:
    seen = np.array([[True, True, False]])
    found = next_token_probs.forward(np.array([[-1.0, 2.0, 0.5]]), seen, Sampling(repetition_penalty=2.0))
    assert np.allclose(np.log(found[0] / found[0, 2]), [-2.5, 0.5, 0.0])


def test_a_token_is_had_once_however_often_and_padding_is_not_had() -> None:
    real = np.array([[False, True, True, True]])
    assert seen_ids(np.array([[0, 2, 2, 1]]), real, 4).tolist() == [[False, True, True, False]]


@pytest.mark.parametrize("seed", range(20))
def test_hugging_face_stays_within_a_rounding_unit(seed: int) -> None:
    draw = np.random.Generator(np.random.PCG64(seed))
    logits, ids = draw.normal(0, 3, (4, 50)).astype(np.float32), draw.integers(0, 50, (4, 7))
    filters = Sampling(1.3, float(draw.uniform(0.5, 2)), 20, 0.9, 0.03)
    scores, history = torch.from_numpy(logits), torch.from_numpy(ids)
    for one in (
        RepetitionPenaltyLogitsProcessor(filters.repetition_penalty),
        TemperatureLogitsWarper(filters.temperature),
        TopKLogitsWarper(filters.top_k),
        TopPLogitsWarper(filters.top_p),
        MinPLogitsWarper(filters.min_p),
    ):
        scores = one(history, scores)  # type: ignore[arg-type]
    seen = seen_ids(ids, np.ones(ids.shape, bool), 50)
    truth = next_token_probs.forward(logits, seen, filters)
    unit = next_token_probs.unit(truth, logits, seen, filters)
    actual = scores.softmax(-1).numpy()
    assert ((actual == 0) == (truth == 0)).all()
    worst = float((np.abs(actual - truth)[truth > 0] / unit[truth > 0]).max())
    assert worst < 2.5, worst
