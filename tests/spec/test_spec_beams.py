"""Greedy and beam search over given logits, on searches that are small enough to be tried in full."""

from itertools import product

import numpy as np
import pytest

from qwen3_spec.ops.beams import Search, beam_scores, beam_search, greedy_ids, log_softmax


def best(costs: list[np.ndarray], count: int, power: float) -> list[float]:
    """The scores of the best continuations where the logits of a step are the same for every beam."""
    every = [
        sum(float(one[token]) for one, token in zip(costs, path, strict=True)) for path in product(range(4), repeat=3)
    ]
    return sorted((score / 3**power for score in every), reverse=True)[:count]


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
def test_as_many_beams_as_paths_find_the_best_ones(power: float) -> None:
    draw = np.random.Generator(np.random.PCG64(5))
    rows = [draw.normal(0, 1, 4) for _ in range(3)]
    width, search = 16, Search(new=3, beams=16, length_penalty=power, returned=3)
    logits = [np.repeat(row[None], width, axis=0) for row in rows]
    costs = [log_softmax(row) for row in rows]
    # The search's own choices, followed by hand.
    running, ids, beam_idx = [(0.0, -1)] + [(-1e9, -1)] * (width - 1), [], []
    for cost in costs[:-1]:
        every = np.array([score for score, _ in running])[:, None] + cost
        order = np.argsort(-every, axis=None, kind="stable")[:width]
        rows_of, tokens = np.divmod(order, 4)
        running = [(float(every.flat[i]), 0) for i in order]
        ids.append(tokens)
        beam_idx.append(rows_of)
    _, scores = beam_search(logits, np.stack(ids, axis=1), np.stack(beam_idx), search)
    assert np.allclose(scores, best(costs, 3, power))


def test_one_beam_is_greedy() -> None:
    draw = np.random.Generator(np.random.PCG64(6))
    logits = [draw.normal(0, 1, (2, 5)) for _ in range(3)]
    forced = np.stack([one.argmax(-1) for one in logits], axis=1)[:, :2]
    rows, search = np.stack([np.arange(2)] * 2), Search(new=3)
    assert beam_search(logits, forced, rows, search)[0].tolist() == greedy_ids(logits, forced, search).tolist()


def test_a_row_ends_at_any_of_its_ends_and_is_padded_behind() -> None:
    logits = [np.eye(4)[[1, 2]], np.eye(4)[[3, 0]], np.eye(4)[[0, 0]]]
    found = greedy_ids(logits, np.array([[1, 3], [2, 9]]), Search(new=3, eos=(2, 3), pad=9))
    assert found.tolist() == [[1, 3, 9], [2, 9, 9]]


def test_behind_another_choice_than_the_recorded_one_nothing_is_known() -> None:
    found = greedy_ids([np.eye(3)[[1]], np.eye(3)[[0]]], np.array([[2]]), Search(new=2))
    assert found[0, 0] == 1 and np.isnan(found[0, 1])


def test_a_beam_takes_the_score_of_the_row_that_it_goes_on_from() -> None:
    logits = np.log(np.array([[0.5, 0.5], [0.25, 0.75]]))
    found = beam_scores(np.array([-1.0, -2.0]), logits, np.array([1, 0]), np.array([1, 1]))
    assert np.allclose(found, [-2 + np.log(0.75), -2 + np.log(0.25)])
