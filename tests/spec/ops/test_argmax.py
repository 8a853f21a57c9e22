"""Greedy search over given logits."""

import numpy as np

from qwen3_spec.ops.argmax import Search, greedy_ids


def test_a_row_ends_at_any_of_its_ends_and_is_padded_behind() -> None:
    logits = [np.eye(4)[[1, 2]], np.eye(4)[[3, 0]], np.eye(4)[[0, 0]]]
    found = greedy_ids(logits, np.array([[1, 3], [2, 9]]), Search(new=3, eos=(2, 3), pad=9))
    assert found.tolist() == [[1, 3, 9], [2, 9, 9]]


def test_behind_another_choice_than_the_recorded_one_nothing_is_known() -> None:
    found = greedy_ids([np.eye(3)[[1]], np.eye(3)[[0]]], np.array([[2]]), Search(new=2))
    assert found[0, 0] == 1 and np.isnan(found[0, 1])
