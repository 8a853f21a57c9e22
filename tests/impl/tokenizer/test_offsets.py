"""Offsets: the characters of the text that each id stands for are those that Hugging Face gives."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from qwen3_encdec.tokenizer.added_tokens import AddedToken
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

ATOMS = [
    "a", " ", "\n", "e\u0301", "\u0301", "\u0323", "\u0958", "\ufb1d", "\u4e2d", "\U0001d4b3", "\u1112\u1161\u11ab",
    "\uac00\u11a8", "\U0001f469\u200d\U0001f680", "<|im_end|>", "<think>", "1", "\ufb01",
]  # fmt: skip


def same_offsets(hf: Any, ours: ByteLevelTokenizer, text: str) -> list[tuple[int, int]]:
    stages = ours.stages(text)
    encoding = hf.encode(text)
    assert (stages.ids, stages.offsets) == (encoding.ids, encoding.offsets), ascii(text)
    return stages.offsets


def test_several_ids_within_one_character_have_its_offset(pair: Callable[..., Any]) -> None:
    assert same_offsets(*pair(), "a\U0001d4b3") == [(0, 1), *[(1, 2)] * 4]


def test_a_composed_character_stands_for_the_first_of_its_parts(pair: Callable[..., Any]) -> None:
    assert same_offsets(*pair(), "e\u0301x") == [(0, 1), (0, 1), (2, 3)]


def test_a_character_that_becomes_two_is_the_offset_of_both(pair: Callable[..., Any]) -> None:
    assert same_offsets(*pair(), "a\u0958") == [(0, 1), *[(1, 2)] * 6]


def test_an_added_token_has_the_white_space_that_it_strips(pair: Callable[..., Any]) -> None:
    both = pair([AddedToken(256, "<x>", lstrip=True, rstrip=True)])
    assert same_offsets(*both, "e\u0301 <x> b") == [(0, 1), (0, 1), (2, 7), (7, 8)]


def test_an_added_token_ends_with_a_composed_characters_first_part(pair: Callable[..., Any]) -> None:
    both = pair([AddedToken(256, "caf\u00e9", normalized=True)])
    assert same_offsets(*both, "cafe\u0301s") == [(0, 4), (5, 6)]


def test_an_added_token_that_is_not_normalized_is_all_of_its_characters(pair: Callable[..., Any]) -> None:
    both = pair([AddedToken(256, "cafe\u0301")])
    assert same_offsets(*both, "cafe\u0301s") == [(0, 5), (5, 6)]


def test_offsets_stay_in_the_text_whatever_replaced_functions_do(pair: Callable[..., Any]) -> None:
    _, ours = pair()
    ours.normalize = str.upper
    assert ours.stages("e\u0301ab").offsets == [(0, 1), (1, 2), (1, 2), (2, 3), (3, 4)]
    ours.normalize = lambda text: text + "!!"
    assert ours.stages("a").offsets == [(0, 1), (0, 1), (0, 1)]
    ours.to_symbols = lambda text: "aaa"
    assert ours.stages("b").offsets == [(0, 1)] * 6


@pytest.mark.parametrize("seed", [23, 24])
def test_random_texts_have_hugging_faces_offsets(hf: Any, ours: ByteLevelTokenizer, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(500):
        text = "".join(draw.choices(ATOMS, k=draw.randint(0, 10)))
        theirs, stages = hf(text, add_special_tokens=False, return_offsets_mapping=True), ours.stages(text)
        assert stages.ids == theirs["input_ids"], f"seed {seed}: {text!a}"
        assert stages.offsets == theirs["offset_mapping"], f"seed {seed}: {text!a}"
