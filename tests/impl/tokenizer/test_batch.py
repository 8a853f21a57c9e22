"""Batches: the rectangle of ids and its mask that Hugging Face makes of the same texts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from qwen3_encdec.tokenizer.batch import rectangle
from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

TEXTS = ["Hello, how are you today?", "", "a", "\u4e2d\u6587 <|im_end|>"]
SIDES = ("left", "right")


@pytest.fixture
def theirs(hf: Any) -> Iterator[Any]:
    """Hugging Face's, which keeps what a call sets; other tests share it and ask for neither."""
    yield hf
    hf.backend_tokenizer.no_truncation()
    hf.backend_tokenizer.no_padding()


@pytest.mark.sample(every=5)
@pytest.mark.parametrize(("padding_side", "truncation_side"), list(product(SIDES, SIDES)))
@pytest.mark.parametrize(("max_length", "multiple"), [(0, 0), (3, 0), (1, 0), (0, 8), (8, 4), (4, 4)])
def test_batches_are_hugging_faces(
    theirs: Any, ours: ByteLevelTokenizer, padding_side: str, truncation_side: str, max_length: int, multiple: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(theirs, "truncation_side", truncation_side)
    expected = theirs(
        TEXTS, padding=True, padding_side=padding_side, truncation=max_length > 0, max_length=max_length or None,
        pad_to_multiple_of=multiple or None,
    )  # fmt: skip
    batch = ours.batch(
        TEXTS, padding_side=padding_side, truncation_side=truncation_side, max_length=max_length,
        pad_to_multiple_of=multiple,
    )  # fmt: skip
    assert (batch.input_ids, batch.attention_mask) == (expected["input_ids"], expected["attention_mask"])


@pytest.mark.parametrize(("padding_side", "truncation_side"), list(product(SIDES, SIDES)))
def test_a_length_that_is_no_multiple_is_hugging_faces_in_two_calls(
    theirs: Any, ours: ByteLevelTokenizer, padding_side: str, truncation_side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theirs, "truncation_side", truncation_side)
    cut = theirs(TEXTS, truncation=True, max_length=5)
    expected = theirs.pad(cut, padding=True, padding_side=padding_side, pad_to_multiple_of=4)
    batch = ours.batch(
        TEXTS, padding_side=padding_side, truncation_side=truncation_side, max_length=5, pad_to_multiple_of=4
    )
    assert (batch.input_ids, batch.attention_mask) == (expected["input_ids"], expected["attention_mask"])
    assert {len(row) for row in batch.input_ids} == {8}


def test_sides_that_are_not_given_are_the_tokenizers(ours_tiny: ByteLevelTokenizer) -> None:
    left = ByteLevelTokenizer(replace(ours_tiny.files, padding_side="left", truncation_side="left"))
    assert left.batch(TEXTS, max_length=3) == ours_tiny.batch(
        TEXTS, padding_side="left", truncation_side="left", max_length=3
    )


def test_a_batch_of_nothing_is_empty(ours: ByteLevelTokenizer) -> None:
    assert ours.batch([]).input_ids == ours.batch([]).attention_mask == []
    assert ours.batch(["", ""]).input_ids == [[], []]


def test_padding_is_the_pad_token_even_if_the_text_holds_it(ours: ByteLevelTokenizer) -> None:
    pad = ours.id_of("<|endoftext|>")
    batch = ours.batch(["a<|endoftext|>", "a"])
    assert [row[1] for row in batch.input_ids] == [pad, pad]
    assert batch.attention_mask == [[1, 1], [1, 0]]


def test_a_tokenizer_without_a_pad_token_makes_no_batch(ours_tiny: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match="rows are padded with the pad token"):
        ByteLevelTokenizer(replace(ours_tiny.files, pad_token=None)).batch(["a"])


def test_a_pad_token_that_is_not_in_the_vocabulary_is_refused(ours_tiny: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match="'<pad>': a token that is named is in the vocabulary"):
        ByteLevelTokenizer(replace(ours_tiny.files, pad_token="<pad>")).batch(["a"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"padding_side": "middle"}, "padding_side names a side"),
     ({"truncation_side": ""}, "truncation_side names a side"),
     ({"max_length": -1}, "max_length is a count"), ({"pad_to_multiple_of": -8}, "pad_to_multiple_of is a count")],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        rectangle([[1]], 0, **{"padding_side": "left", "truncation_side": "left", **wrong})
