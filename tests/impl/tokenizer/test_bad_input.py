"""Texts and ids that are none: one error that says what and where."""

from typing import Any

import numpy as np
import pytest

from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer


@pytest.mark.parametrize("method", ["encode", "stages"])
@pytest.mark.parametrize(
    ("text", "where", "got"),
    [("ab\ud800", r"text\[2\]", r"U\+D800"), ("\udfff", r"text\[0\]", r"U\+DFFF"),
     ("\u4e2d\ud83d\ude00", r"text\[1\]", r"U\+D83D"), (b"ab", "text", "bytes"), (None, "text", "NoneType"),
     (["ab"], "text", "list")],
)  # fmt: skip
def test_what_is_no_text_is_refused(ours: ByteLevelTokenizer, method: str, text: Any, where: str, got: str) -> None:
    with pytest.raises(TokenizerError, match=rf"^{where}: (.|\n)*got: +{got}\n"):
        getattr(ours, method)(text)


def test_a_surrogate_in_a_batch_is_refused(ours: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"texts\[1\]: text\[0\]: "):
        ours.batch(["a", "\ud800"])


def test_a_batch_is_no_single_text(ours: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"^texts: "):
        ours.batch("ab")


@pytest.mark.parametrize("id", [-1, 151_700, 1 << 40, 1.0, "9", None])
def test_an_id_that_is_none_is_refused_with_its_place(ours: ByteLevelTokenizer, id: Any) -> None:
    message = r"^ids\[2\]: every id is one of the tokenizer's(.|\n)*got: +" + repr(id).replace(".", r"\.")
    ids = [*ours.encode("a"), *ours.encode("b"), id]
    with pytest.raises(TokenizerError, match=message):
        ours.decode(ids)
    with pytest.raises(TokenizerError, match=message):
        ours.decode(ids, skip_special_tokens=True)
    with pytest.raises(TokenizerError, match=message):
        ours.decode_bytes(ids)
    stream = ours.stream()
    with pytest.raises(TokenizerError, match=message):
        [stream.push(each) for each in ids]


def test_a_single_id_is_no_list(ours: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"^ids: what is decoded is a list of ids"):
        ours.decode(7)  # type: ignore[arg-type]


def test_the_padding_rows_of_the_real_model_are_no_ids(ours_real: ByteLevelTokenizer) -> None:
    assert ours_real.decode([151_668]) == "</think>"
    for id in (151_669, 151_935, 151_936):
        with pytest.raises(TokenizerError, match=f"the largest is 151668\n  got:      {id}\n"):
            ours_real.decode([id])


def test_whole_numbers_of_other_libraries_are_ids(ours: ByteLevelTokenizer) -> None:
    ids = np.array(ours.encode("Hello \u4e2d <|im_end|>"))
    assert ours.decode(ids) == "Hello \u4e2d <|im_end|>"
    assert ours.decode(ids, skip_special_tokens=True) == "Hello \u4e2d "


def test_a_token_by_its_name(ours: ByteLevelTokenizer) -> None:
    assert ours.pieces[ours.id_of("<|im_end|>")] == "<|im_end|>"
    assert ours.token_bytes(ours.id_of("\u0120")) == b" "
    with pytest.raises(TokenizerError, match=r"^'<\|im_middle\|>': a token that is named is in the vocabulary"):
        ours.id_of("<|im_middle|>")
