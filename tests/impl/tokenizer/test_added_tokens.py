"""Added tokens are found where Hugging Face finds them."""

import random
import unicodedata
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer

from qwen3_encdec.tokenizer.added_tokens import AddedToken
from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Both = tuple[Tokenizer, ByteLevelTokenizer]
Pair = Callable[..., Both]
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


def found(both: Both, text: str, *, split_special_tokens: bool = False) -> list[str]:
    """The parts of a text, added tokens in brackets, after showing that Hugging Face has the same ids and offsets."""
    theirs, ours = both
    theirs.encode_special_tokens = split_special_tokens
    encoding, stages = theirs.encode(text), ours.stages(text, split_special_tokens=split_special_tokens)
    assert (stages.ids, stages.offsets) == (encoding.ids, encoding.offsets)
    assert ours.encode(text, split_special_tokens=split_special_tokens) == encoding.ids
    parts = [(text[part.begin : part.end], part.added_token) for part in stages.segments]
    return [part if added is None else f"[{part}]" for part, added in parts]


def tokens(*contents: str, **flags: bool) -> list[AddedToken]:
    return [AddedToken(256 + number, content, **flags) for number, content in enumerate(contents)]


def test_the_leftmost_is_found_even_if_another_is_longer(pair: Pair) -> None:
    assert found(pair(tokens("<ab", "b>>>>")), "<ab>>>>") == ["[<ab]", ">>>>"]


def test_of_those_that_start_together_the_longest_is_found(pair: Pair) -> None:
    both = pair(tokens("<extra_id_1>", "<extra_id_10>", "<extra_id_1", "<x", "<xy>"))
    assert found(both, "<extra_id_10><extra_id_1><extra_id_1|<xy<xy>") == [
        "[<extra_id_10>]", "[<extra_id_1>]", "[<extra_id_1]", "|", "[<x]", "y", "[<xy>]",
    ]  # fmt: skip


def test_a_special_token_that_is_plain_text_still_hides_what_begins_inside_it(pair: Pair) -> None:
    both = pair([AddedToken(256, "<a>", special=True), AddedToken(257, ">b", special=False)])
    assert found(both, "<a>b >b", split_special_tokens=True) == ["<a>b ", "[>b]"]


def test_split_special_tokens_finds_the_others(pair: Pair) -> None:
    both = pair([AddedToken(256, "<|end|>"), AddedToken(257, "<think>", special=False)])
    assert found(both, "<|end|><think>", split_special_tokens=True) == ["<|end|>", "[<think>]"]
    assert found(both, "<|end|><think>") == ["[<|end|>]", "[<think>]"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [({}, ["a \t", "[<x>]", " \u3000b"]), ({"lstrip": True}, ["a", "[ \t<x>]", " \u3000b"]),
     ({"rstrip": True}, ["a \t", "[<x> \u3000]", "b"]),
     ({"lstrip": True, "rstrip": True}, ["a", "[ \t<x> \u3000]", "b"])],
)  # fmt: skip
def test_white_space_belongs_to_a_token_that_strips_it(pair: Pair, flags: dict[str, bool], parts: list[str]) -> None:
    assert found(pair(tokens("<x>", **flags)), "a \t<x> \u3000b") == parts


def test_stripped_white_space_is_unicodes_not_pythons(pair: Pair) -> None:
    both = pair(tokens("<x>", lstrip=True))
    for character in map(chr, (0x0B, 0x1C, 0x1F, 0x85, 0xA0, 0x180E, 0x2003, 0x200B, 0x2028, 0x3000, 0xFEFF)):
        found(both, f"{character}<x>")
    assert found(both, "\x1c<x>") == ["\x1c", "[<x>]"]


def test_two_tokens_do_not_strip_the_same_space_twice(pair: Pair) -> None:
    assert found(pair(tokens("<x>", lstrip=True, rstrip=True)), "<x>  <x>") == ["[<x>  ]", "[<x>]"]


def test_a_token_of_white_space_that_another_has_taken_is_not_found(pair: Pair) -> None:
    both = pair([AddedToken(256, "<x>", rstrip=True), AddedToken(257, "  ", lstrip=True)])
    assert found(both, "<x>  a  ") == ["[<x>  ]", "a", "[  ]"]


def test_a_single_word_touches_no_word_character(pair: Pair) -> None:
    both = pair(tokens("<x>", single_word=True))
    assert found(both, "<x>-<x>") == ["[<x>]", "-", "[<x>]"]
    # A mark, a joiner and a circled letter are word characters, a superscript is none: Python's \w says the opposite.
    for character in ("a", "_", "1", "\u0301", "\u200d", "\u24b6", "\u0661"):
        assert found(both, f"<x>{character}") == [f"<x>{character}"]
        assert found(both, f"{character}<x>") == [f"{character}<x>"]
    assert found(both, "\u00b2<x>\u00b2") == ["\u00b2", "[<x>]", "\u00b2"]


def test_a_normalized_token_is_found_in_normalised_text(pair: Pair) -> None:
    both = pair(tokens("caf\u00e9", normalized=True))
    assert found(both, "a cafe\u0301 caf\u00e9") == ["a ", "[cafe\u0301]", " ", "[caf\u00e9]"]


def test_two_tokens_that_are_one_when_normalised_are_refused(pair: Pair) -> None:
    with pytest.raises(TokenizerError, match="added tokens 256 and 257: no two added tokens are found in the"):
        pair(tokens("\u00e9x", "e\u0301x", normalized=True))


def test_a_token_that_is_not_normalized_is_found_as_it_is_written(pair: Pair) -> None:
    both = pair(tokens("caf\u00e9", normalized=False))
    assert found(both, "cafe\u0301 caf\u00e9") == ["cafe\u0301 ", "[caf\u00e9]"]


def test_tokens_of_the_raw_text_are_found_before_normalized_ones(pair: Pair) -> None:
    both = pair([AddedToken(256, "abc", normalized=True), AddedToken(257, "bc")])
    assert found(both, "abc") == ["a", "[bc]"]


def test_a_normalized_token_that_ends_inside_a_character_is_refused(pair: Pair) -> None:
    _, ours = pair(tokens("x\u0915", normalized=True))
    assert ours.encode("x\u0915") == [256]
    with pytest.raises(TokenizerError, match=r"text\[0:1\]: an added token that is found in normalised text"):
        ours.encode("x\u0958")  # U+0958 is U+0915 U+093C to NFC


def test_a_text_without_added_tokens_is_one_part(pair: Pair) -> None:
    assert pair()[1].split("plain <|im_start|>", False) == [(0, 18, None)]
    assert pair()[1].split("", False) == []


def test_random_flags_and_random_texts_are_found_alike(pair: Pair) -> None:
    seed = 20
    draw = random.Random(seed)
    atoms = ["a", "b", "<", ">", "1", " ", "e", "\u0301", "\u00e9", "\u0323", "_", "\u200d", "\u00b2", "\t", "\x1c"]
    for _ in range(60):
        drawn = ["".join(draw.choices(atoms, k=draw.randint(2, 4))) for _ in range(draw.randint(1, 6))]
        contents = sorted({unicodedata.normalize("NFC", content): content for content in drawn}.values())
        added = [
            AddedToken(256 + number, content, **{flag: draw.random() < 0.4 for flag in FLAGS})
            for number, content in enumerate(contents)
        ]
        both = pair(added, normalizer=draw.choice(["NFC", ""]))
        for _ in range(20):
            text = "".join(draw.choices([*atoms, *contents, *contents], k=draw.randint(0, 8)))
            try:
                found(both, text, split_special_tokens=draw.random() < 0.3)
            except TokenizerError as error:
                assert "begins and ends between" in error.rule
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {text!a} with {added!a}") from error
