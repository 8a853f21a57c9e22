"""What is judged and what is not, on committed goldens: padding and hidden keys are for finiteness only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, read
from qwen3_parity import Verdicts, check


def altered(case: str, name: str, change: Callable[[Array], None], step: int = 0) -> Verdicts:
    """The verdicts on a golden with one tap changed."""
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    assert (name, step) in golden
    tensors = []
    for t in golden:
        array = t.array
        if t.key == (name, step):
            array = array.copy()
            change(array)
        tensors.append(Tensor(t.info, array))
    return check(golden, Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters))


def put(index: tuple[int, ...], value: float) -> Callable[[Array], None]:
    def change(array: Array) -> None:
        array[index] = value

    return change


# long/position_32768 records no masks: rows [11111, 01111], 4 tokens in step 0, axes [batch, heads, query, key]
SCORES = "decoder.layers.1.merged_attn.scores"


@pytest.mark.parametrize(
    ("cell", "judged"),
    [((0, 0, 2, 1), True), ((0, 0, 1, 2), False), ((1, 0, 2, 0), False), ((1, 0, 0, 0), False), ((1, 5, 3, 3), True)],
    ids=["past", "future", "padded key", "padded query", "own"],
)
def test_scores_are_judged_where_they_are_visible_even_without_a_mask_tap(cell: tuple[int, ...], judged: bool) -> None:
    verdicts = altered("long/position_32768", SCORES, put(cell, 9.0))
    assert verdicts.exit_code == int(judged)


def test_a_score_that_is_not_finite_fails_even_where_it_is_hidden() -> None:
    assert altered("long/position_32768", SCORES, put((0, 0, 1, 2), np.inf)).exit_code == 1


def test_rows_that_see_no_key_may_hold_anything_finite_after_an_op_softmax() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "softmax_hidden_rows.pb")
    blind = ~golden["input.mask", 0].array.any(axis=-1)
    assert blind.any() and not blind.all()

    def zero(array: Array) -> None:
        array[np.broadcast_to(blind[:, None, :, None], array.shape)] = 0

    assert altered("op/softmax_hidden_rows", "output.probs", zero).exit_code == 0


def test_a_hidden_key_has_probability_zero_in_every_row_that_sees_something() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "softmax_hidden_rows.pb")
    mask = golden["input.mask", 0].array
    batch, query, key = np.argwhere(~mask & mask.any(axis=-1, keepdims=True))[0]
    verdicts = altered("op/softmax_hidden_rows", "output.probs", put((batch, 0, query, key), 1e-30))
    assert verdicts.exit_code == 1


@pytest.mark.parametrize(("row", "judged"), [(0, True), (1, False)], ids=["a token", "padding"])
def test_the_mask_of_a_padded_query_is_not_judged(row: int, judged: bool) -> None:
    # rows of op/mask_bidirectional: 111111111, 001111111, 110110000
    def flip(array: Array) -> None:
        array[row, 0] = ~array[row, 0]

    assert altered("op/mask_bidirectional", "output.mask", flip).exit_code == int(judged)


def test_a_padded_row_may_hold_anything_finite() -> None:
    # encoder/ragged: find a padded query of the golden's own mask
    golden = read(GOLDEN_ROOT / "cases" / "encoder" / "ragged.pb")
    batch, query = np.argwhere(~golden["input.encoder_attention_mask", 0].array)[0]
    name = "encoder.layers.1.output"
    assert altered("encoder/ragged", name, put((batch, query, 0), 1e6)).exit_code == 0
    assert altered("encoder/ragged", name, put((batch, query, 0), np.nan)).exit_code == 1


@pytest.mark.parametrize(("factor", "code"), [(1 + 3e-7, 0), (1.0001, 1), (np.nan, 1)], ids=["2 ulp", "1e-4", "NaN"])
@pytest.mark.parametrize(
    ("case", "name"), [("encoder/one_token", "encoder.inv_freq"), ("op/inv_freq_128", "output.inv_freq")]
)
def test_a_frequency_is_judged_by_its_own_size_however_small(case: str, name: str, factor: float, code: int) -> None:
    def change(array: Array) -> None:
        array[-1] *= factor

    assert altered(case, name, change).exit_code == code
