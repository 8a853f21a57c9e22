"""Decoding: the text that Hugging Face gives for the same ids."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer

from qwen3_encdec.tokenizer.added_tokens import AddedToken
from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.decode import text_of
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Pair = Callable[..., tuple[Tokenizer, ByteLevelTokenizer]]
BYTES = {symbol: byte for byte, symbol in enumerate(SYMBOLS)}


def hf_text(hf: Any, ids: list[int], skip_special_tokens: bool) -> str:
    return str(hf.decode(ids, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False))


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_every_id_alone_is_hugging_faces(hf: Any, ours: ByteLevelTokenizer, step: int) -> None:
    every = sorted(ours.pieces)
    ids = sorted({*every[::step], *every[:512], *every[-512:]})
    decode = hf.backend_tokenizer.decode_batch
    for skip in (False, True):
        assert [ours.decode([id], skip_special_tokens=skip) for id in ids] == decode([[id] for id in ids], skip)


def test_random_ids_are_hugging_faces(hf: Any, ours: ByteLevelTokenizer) -> None:
    draw = random.Random(25)
    # Half of them special or single bytes, which cut characters apart.
    rare = [*(token.id for token in ours.added_tokens), *(ours.vocabulary[symbol] for symbol in SYMBOLS[128:])]
    every = sorted(ours.pieces)
    for _ in range(1000):
        ids = [draw.choice(draw.choice([rare, every])) for _ in range(draw.randint(0, 8))]
        for skip in (False, True):
            assert ours.decode(ids, skip_special_tokens=skip) == hf_text(hf, ids, skip), f"seed 25: {ids}"


def test_nothing_is_cleaned_up(hf: Any, ours: ByteLevelTokenizer) -> None:
    text = " a , b . c ! do n't I 'm  \n"
    assert ours.decode(ours.encode(text)) == text == hf_text(hf, ours.encode(text), False)


def test_skipping_leaves_out_exactly_the_special_tokens(ours: ByteLevelTokenizer) -> None:
    ids = [token.id for token in ours.added_tokens]
    kept = "".join(token.content for token in ours.added_tokens if not token.special)
    assert ours.decode(ids, skip_special_tokens=True) == kept
    assert "<think>" in kept and "<|im_end|>" not in kept


def test_broken_bytes_become_replacement_characters_as_in_rust(pair: Pair) -> None:
    theirs, ours = pair()
    draw = random.Random(26)
    leads = [0x41, 0x80, 0xBF, 0xC1, 0xC3, 0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0x9F, 0xA0, 0x8F, 0x90]
    for _ in range(5000):
        ids = draw.choices(leads, k=draw.randint(1, 7))
        assert ours.decode(ids) == theirs.decode(ids), f"seed 26: {bytes(ids)!r}"


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"\xe4\xbd\x41", "\ufffdA"), (b"\xed\xa0\x80", "\ufffd" * 3), (b"\xf4\x90\x80\x80", "\ufffd" * 4),
     (b"\xc0\xaf", "\ufffd\ufffd"), (b"\xf0\x9f\x98", "\ufffd"), (b"\xef\xbf\xbd", "\ufffd"), (b"", "")],
)  # fmt: skip
def test_one_replacement_character_for_each_longest_beginning(data: bytes, text: str) -> None:
    assert text_of(data) == text


def test_a_piece_with_a_character_that_is_no_symbol_is_its_own_text(pair: Pair) -> None:
    theirs, ours = pair(vocabulary={**BYTES, "\u2192": 256, "a b": 257, "\u00e9": BYTES["\u00e9"]})
    for ids in ([256], [257, 65], [BYTES["\u00e9"]]):
        assert ours.decode(ids) == theirs.decode(ids)
    assert ours.token_bytes(256) == "\u2192".encode()


def test_an_added_token_of_symbols_alone_is_read_as_bytes(pair: Pair) -> None:
    theirs, ours = pair([AddedToken(256, "\u00e9t\u00e9"), AddedToken(257, "\u00e9 t"), AddedToken(258, "\u4e2d")])
    for id in (256, 257, 258):
        assert ours.decode([id]) == theirs.decode([id], skip_special_tokens=False)
    assert ours.decode([256]) == "\ufffdt\ufffd"


def test_a_normalized_added_token_is_written_as_it_is_looked_for(pair: Pair) -> None:
    # So it is no longer the special token's name, and Hugging Face does not skip it.
    theirs, ours = pair([AddedToken(256, "e\u0301 z", normalized=True), AddedToken(257, "q z", normalized=True)])
    for skip in (False, True):
        assert ours.decode([256, 257], skip_special_tokens=skip) == theirs.decode([256, 257], skip_special_tokens=skip)
    assert ours.decode([256], skip_special_tokens=True) == "\u00e9 z"


def test_bytes_of_ids_are_the_texts_bytes(ours: ByteLevelTokenizer) -> None:
    text = "\U0001d4b3 na\u00efve <|im_end|>"
    ids = ours.encode(text)
    assert ours.decode_bytes(ids) == text.encode() == b"".join(map(ours.token_bytes, ids))


def test_decode_uses_a_replaced_function(tiny: Any) -> None:
    ours = ByteLevelTokenizer.from_directory(tiny)
    ours.to_bytes = lambda piece: b"?"
    assert ours.decode(ours.encode("a")) == "?"
