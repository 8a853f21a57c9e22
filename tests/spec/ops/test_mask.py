"""Masks drawn as grids: one line per query, `x` visible, `.` hidden."""

import numpy as np

from qwen3_spec.ops.mask import (
    bidirectional,
    causal,
    encoder_mask,
    merged,
    padding,
    sliding_bidirectional,
    sliding_causal,
)
from qwen3_spec.ops.position_ids import counted


def grid(mask: np.ndarray) -> list[str]:
    assert mask.dtype == bool and mask.ndim == 2
    return ["".join("x" if visible else "." for visible in row) for row in mask]


def test_causal_sees_itself_and_what_came_before() -> None:
    assert grid(causal(3)[0]) == ["x..", "xx.", "xxx"]


def test_causal_after_a_past_sees_the_past() -> None:
    assert grid(causal(2, 3)[0]) == ["xxxx.", "xxxxx"]


def test_bidirectional_sees_everything() -> None:
    assert grid(bidirectional(2, 3)[0]) == ["xxx", "xxx"]


def test_an_even_decoder_window_has_that_many_keys() -> None:
    assert grid(sliding_causal(4, 0, 2)[0]) == ["x...", "xx..", ".xx.", "..xx"]


def test_an_odd_decoder_window_has_that_many_keys() -> None:
    assert grid(sliding_causal(5, 0, 3)[0]) == ["x....", "xx...", "xxx..", ".xxx.", "..xxx"]


def test_a_decoder_window_reaches_into_the_past() -> None:
    assert grid(sliding_causal(2, 3, 3)[0]) == [".xxx.", "..xxx"]


def test_an_encoder_window_reaches_as_far_on_both_sides() -> None:
    assert grid(sliding_bidirectional(5, 1)[0]) == ["xx...", "xxx..", ".xxx.", "..xxx", "...xx"]


def test_an_even_encoder_window_is_symmetric_and_inclusive() -> None:
    assert grid(sliding_bidirectional(5, 2)[0]) == ["xxx..", "xxxx.", "xxxxx", ".xxxx", "..xxx"]


def test_padding_hides_keys_of_its_own_row() -> None:
    mask = padding(np.array([[0, 1, 1], [1, 1, 0]]))
    assert grid(mask[0]) == [".xx"] and grid(mask[1]) == ["xx."]


def test_encoder_mask_hides_padded_keys_from_every_query() -> None:
    assert grid(encoder_mask(np.array([[1, 0, 1]]))[0]) == ["x.x"] * 3


def test_encoder_window_counts_slots_and_so_counts_padding() -> None:
    assert grid(encoder_mask(np.array([[1, 0, 1, 1]]), 1)[0]) == ["x...", "x.x.", "..xx", "..xx"]


def test_merged_puts_decoder_keys_first() -> None:
    assert grid(merged(np.ones((1, 2)), np.ones((1, 3)), 2)[0]) == ["x.xxx", "xxxxx"]


def test_merged_pads_each_half_by_its_own_mask() -> None:
    mask = merged(np.array([[0, 1, 1], [1, 1, 1]]), np.array([[1, 0], [0, 1]]), 3)
    assert grid(mask[0]) == ["...x.", ".x.x.", ".xxx."]
    assert grid(mask[1]) == ["x...x", "xx..x", "xxx.x"]


def test_merged_in_a_later_step_has_the_last_rows_of_the_whole() -> None:
    own, memory = np.array([[0, 1, 1, 1, 1]]), np.array([[1, 1, 0]])
    whole = merged(own, memory, 5, window=2)
    np.testing.assert_array_equal(merged(own, memory, 2, window=2), whole[:, -2:])


def test_a_merged_window_limits_the_decoder_and_never_the_encoder() -> None:
    assert grid(merged(np.ones((1, 3)), np.ones((1, 4)), 3, window=1)[0]) == ["x..xxxx", ".x.xxxx", "..xxxxx"]


def test_merged_without_an_encoder_is_causal() -> None:
    assert grid(merged(np.ones((1, 3)), None, 3)[0]) == ["x..", "xx.", "xxx"]


def test_merged_with_an_encoder_of_length_0_is_causal() -> None:
    assert grid(merged(np.ones((1, 3)), np.ones((1, 0)), 3)[0]) == ["x..", "xx.", "xxx"]


def test_a_query_on_left_padding_may_see_nothing() -> None:
    assert grid(merged(np.array([[0, 0, 1]]), np.zeros((1, 1)), 3)[0]) == ["....", "....", "..x."]


def test_position_ids_do_not_count_left_padding() -> None:
    np.testing.assert_array_equal(counted(np.array([[0, 0, 1, 1, 1]])), [[0, 0, 0, 1, 2]])


def test_position_ids_stop_on_right_padding_and_holes() -> None:
    np.testing.assert_array_equal(counted(np.array([[1, 1, 0, 1, 0]])), [[0, 1, 1, 2, 2]])


def test_position_ids_are_int64() -> None:
    assert counted(np.ones((1, 2), bool)).dtype == np.int64
