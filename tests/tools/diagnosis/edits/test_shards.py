"""What a shard's sums alone make, and rows of a vocabulary that it does not have, are told with the shard.

It runs `grammar.shards` and `grammar.masks`, too.
"""

from __future__ import annotations

import numpy as np
import pytest
from by_taps import first_of, golden, weights
from test_order import edit, of_layer

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.grammar.masks import HIDING
from qwen3_parity.diagnosis.edits.grammar.values import values

CASE, MLP = "model/qwen3_moe_dense_layers", "model.layers.0.mlp"


def product(inside: Array) -> str:
    """The answer where `down_proj` sums over some of its channels."""
    x = golden(CASE)[f"{MLP}.act_fn", 0].values() * golden(CASE)[f"{MLP}.up_proj", 0].values()
    wrong = np.where(inside, x, 0).astype(np.float64) @ weights(CASE)[f"{MLP}.down_proj.weight"].T
    return first_of(CASE, {(f"{MLP}.down_proj", 0): wrong}, (f"{MLP}.act_fn", f"{MLP}.up_proj", f"{MLP}.down_proj"))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([0], "sums over part 0 of 4 of the channels that linear reads alone"),
        ([2, 3], "sums over part 1 of 2 of the channels that linear reads alone"),
        ([0, 1, 3], "leaves part 2 of 4 of the channels that linear reads out: the sums of a shard"),
    ],
    ids=["a quarter", "a half", "all but a quarter"],
)
def test_sums_that_other_shards_did_not_add_are_told(parts: list[int], says: str) -> None:
    width = golden(CASE)[f"{MLP}.act_fn", 0].values().shape[-1]
    assert product(np.isin(np.arange(width) * 4 // width, parts)).startswith(f"edit.shard: {says}")


@pytest.mark.parametrize(("words", "nearest"), [("the first row", False), ("the nearest row", True)])
def test_rows_that_a_shard_of_the_vocabulary_adds_for_tokens_of_another_are_told(words: str, nearest: bool) -> None:
    table = weights(CASE)["model.embed_tokens.weight"]
    count, size = golden(CASE)["model.embed_tokens", 0].values().shape[1], -(-len(table) // 16) * 8
    ids = golden(CASE)["input.input_ids", 0].values()[:, :count]
    outside = np.where(ids < size, size, size - 1 if nearest else 0)
    wrong = table[ids] + table[outside]
    answer = first_of(CASE, {("model.embed_tokens", 0): wrong}, ("embed_tokens",))
    assert answer.startswith(f"edit.shard: adds {words} of every shard of {size} rows of the vocabulary")


def test_a_prompt_in_chunks_has_masks_of_its_tokens_padding_left_out() -> None:
    """Rows are padded on the left: the chunks of each begin with its first token."""
    here, shown = of_layer(), list[Array]()
    for says in (
        "hides the keys before each chunk of 3 tokens of a prompt",
        "has the mask of a prompt's first 3 tokens for each chunk of so many, without its offset",
    ):
        change = edit(values(here), says)
        ((mask,),) = (here.at(site) for site in change.changes)
        env = here.values(change)
        assert env is not None
        shown.append(np.asarray(env[mask]) > HIDING)
    alone, shifted = shown
    visible = np.asarray(here.base[mask]) > HIDING
    for row, first in enumerate(visible[:, 0].any(-2).argmax(-1)):
        for query in range(first, visible.shape[-1]):
            begin = first + (query - first) // 3 * 3
            assert not alone[row, 0, query, :begin].any()
            np.testing.assert_array_equal(alone[row, 0, query, begin:], visible[row, 0, query, begin:])
            np.testing.assert_array_equal(shifted[row, 0, query], visible[row, 0, query - begin + first])
