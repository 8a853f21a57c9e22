"""`encode` and `stages`: the same ids as Hugging Face, by the fast road and by the one that shows everything."""

import random
from typing import Any

import pytest

from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

TEXTS = [
    "", " ", "Hello, world!", "x  =\t12345\r\n\r\n  y", "DON'T I'll we\u2019re",
    "\u00e9 e\u0301 \ufb01 \u2460 \uff21\u00b2\u2167",
    "\u1112\u1161\u11ab\uae00 \u4e2d\u6587\uff0c\u3042", "\U0001d4b3\U0001f469\u200d\U0001f680 \u0661\u0662",
    "\x00\x7f\x85\xad\ufeff\ufffd", "a" * 300,
    "<|im_start|>user\n<think> </think><|im_end|>", "<|im_start|", "brutalist .:.: ## ababab",
]  # fmt: skip
ATOMS = [
    "a", "B", " ", "  ", "\n", "1", "'s", "e\u0301", "\u0323", "\u0958", "\u4e2d",
    "\U0001d4b3", "\u1112\u1161", "<|im_end|>", "<think>", "<|",
]  # fmt: skip


def random_texts(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(ATOMS, k=draw.randint(0, 12))) for _ in range(count)]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("split_special_tokens", [False, True])
def test_ids_are_hugging_faces(hf: Any, ours: ByteLevelTokenizer, text: str, split_special_tokens: bool) -> None:
    expected = hf.encode(text, add_special_tokens=False, split_special_tokens=split_special_tokens)
    assert ours.encode(text, split_special_tokens=split_special_tokens) == expected
    assert ours.stages(text, split_special_tokens=split_special_tokens).ids == expected


def test_random_texts_have_hugging_faces_ids(hf: Any, ours: ByteLevelTokenizer) -> None:
    for text in random_texts(21, 500):
        expected = hf.encode(text, add_special_tokens=False)
        assert ours.encode(text) == expected, f"seed 21: {text!a}"


def test_hello_is_one_token_of_the_real_vocabulary(ours_real: ByteLevelTokenizer) -> None:
    assert ours_real.encode("Hello") == [9707]


def test_every_stage_follows_from_the_one_before(ours: ByteLevelTokenizer) -> None:
    for text in random_texts(22, 200):
        stages = ours.stages(text)
        assert "".join(text[part.begin : part.end] for part in stages.segments) == text
        ids: list[int] = []
        for part in stages.segments:
            if part.added_token is not None:
                assert (part.normalized, part.pre_tokens) == ("", ())
                ids.append(part.added_token)
                continue
            assert part.normalized == ours.normalize(text[part.begin : part.end])
            assert [part.normalized[p.begin : p.end] for p in part.pre_tokens] == ours.pre_tokenize(part.normalized)
            data = part.normalized.encode()
            for pre_token in part.pre_tokens:
                piece = part.normalized[pre_token.begin : pre_token.end]
                assert data[pre_token.begin_byte : pre_token.end_byte] == piece.encode()
                assert ours.to_bytes(pre_token.symbols) == piece.encode()
                assert "".join(ours.pieces[id] for id in pre_token.ids) == pre_token.symbols
                assert len(pre_token.ids) == len(pre_token.symbols) - len(pre_token.merges)
                ids += pre_token.ids
        assert ids == stages.ids


@pytest.mark.parametrize("name", ["split", "normalize", "pre_tokenize", "to_symbols", "merge"])
def test_encode_notices_a_replaced_function(tiny: Any, ours_tiny: ByteLevelTokenizer, name: str) -> None:
    ours = ByteLevelTokenizer.from_directory(tiny)
    own = getattr(ours, name)
    called: list[str] = []

    def noticed(text: str, *rest: Any) -> Any:
        called.append(text)
        return own(text, *rest)

    setattr(ours, name, noticed)
    assert ours.encode("Hello") == ours_tiny.encode("Hello")
    assert called == ["Hello"]


def test_a_replaced_function_may_lose_text(tiny: Any) -> None:
    ours = ByteLevelTokenizer.from_directory(tiny)
    whole = ours.encode("ab")
    ours.pre_tokenize = lambda text: text.split()
    pre_tokens = ours.stages(" ab \u00e9 ab ").segments[0].pre_tokens
    assert [(p.begin, p.end, p.begin_byte) for p in pre_tokens] == [(1, 3, 1), (4, 5, 4), (6, 8, 7)]
    ours.normalize = str.strip
    assert ours.stages("  ab  ").ids == whole
    ours.normalize = lambda text: f" {text}"
    assert ours.stages("ab").ids == whole


def test_merging_to_a_piece_that_is_no_token_is_an_error(tiny: Any) -> None:
    ours = ByteLevelTokenizer.from_directory(tiny)
    ours.merge = lambda symbols: ([symbols], [])
    with pytest.raises(TokenizerError, match=r"pre-token '.*': whatever merging leaves is in the vocabulary"):
        ours.encode("qzqzqzqzqz")
