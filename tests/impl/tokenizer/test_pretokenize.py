"""Pre-tokens against Hugging Face's: the patterns of several model families, each piece of the syntax, and refusals."""

import random

import pytest
from tokenizers import Regex, pre_tokenizers

from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.pretokenize import compile_literal, compile_pattern, pre_tokenize
from qwen3_encdec.tokenizer.unicode_tables import unicode_tables

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FAMILIES = {
    "qwen": QWEN,
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|"),
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+",
}
SYNTAX = [
    *(r"\s", r"\S+", r"\p{L}+?\p{N}", r"[^\S\r\n]+", r"[\s\S]{2}", r".", r"\P{N}+", r"\p{^N}+", r"[^\p{L}]"),
    *("x*", "a|", "(?=a)", r"(?<=\p{L})\p{N}+", "(?<!a)b", "(?>a+)a|b", "(a|b)+c", "a??b", "a*+b", r"\p{N}{,2}b"),
    *(r"\p{N}{2}", r"\p{N}{2,}", "(?i:[^s])", "(?i:K+e)", "(?i:[r-t]s|E)", r"(?i:a(?:b|\.)[\s'd])", r"\'\ \<"),
    *(r"[a-f\-\u0301]+", r"\x41\u0042?", r"[-a\]]+", "😀+", r"[😀-😎]|\p{L}", r"[^😀]\p{N}", r"[&^a|~]+"),
]
TABLES = unicode_tables()


def their_pieces(pattern: str | Regex, text: str) -> list[str]:
    return [piece for piece, _ in pre_tokenizers.Split(pattern, "isolated").pre_tokenize_str(text)]


def texts(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    plain = list(
        "abcefstSſKk\u212a'’.,;-]}&^|~0123  \t\n\r\x85\u3000éÉe\u0301北²Ⅷ😀😂\U0001d4b3\U0001d7d8\U00020000slLvVreREdm"
    )
    edges = [chr(edge) for name in ("letters", "numbers", "spaces") for edge in draw_edges(draw, getattr(TABLES, name))]
    pools = ("abs'ABc.-]S 1", plain, plain, edges)
    return ["".join(draw.choice(draw.choice(pools)) for _ in range(draw.randint(0, 14))) for _ in range(count)]


def draw_edges(draw: random.Random, ranges: tuple[tuple[int, int], ...]) -> list[int]:
    return [code for pair in draw.choices(ranges, k=40) for code in pair]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_patterns_of_model_families_split_as_in_hugging_face(family: str) -> None:
    seed, pattern = 21, FAMILIES[family]
    ours, theirs = compile_pattern(pattern), Regex(pattern)
    for text in texts(seed, 4_000):
        assert pre_tokenize(ours, text) == their_pieces(theirs, text), (seed, ascii(text))


@pytest.mark.parametrize("pattern", SYNTAX)
def test_a_piece_of_syntax_means_what_it_means_to_hugging_face(pattern: str) -> None:
    seed = 22
    ours, theirs = compile_pattern(pattern), Regex(pattern)
    for text in texts(seed, 500):
        assert pre_tokenize(ours, text) == their_pieces(theirs, text), (seed, ascii(text))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("pattern", [r"\p{L}", r"\p{N}", r"\s", "(?i:s)", "(?i:k)"])
def test_a_class_has_the_same_members_among_all_characters(pattern: str) -> None:
    # Planes 4 to 13 are empty, 15 and 16 are private.
    every = "".join(chr(c) for c in (*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE0200)))
    assert pre_tokenize(compile_pattern(pattern), every) == their_pieces(Regex(pattern), every)


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        *((r"a\d", r"\\d"), (r"\w+", r"\\w"), (r"\bx", r"\\b"), (r"\h", r"\\h"), (r"(a)\1", r"\\1"), (r"[\d]", r"\\d")),
        *(
            ("^a", "^a"),
            ("a$", "$"),
            ("(?i)a", "(?i)a"),
            ("(?<n>a)", "(?<n>"),
            ("a{1,2}+b", "{1,2}+"),
            ("a{", "{"),
            ("a}", "}"),
        ),
        *(
            ("[a&&b]", "&&"),
            ("[[:alpha:]]", "[[:"),
            ("[]", "[]"),
            ("[a", "[a"),
            ("[z-a]", "z-a"),
            (r"[a-\s]", r"a-\\s"),
        ),
        *((r"\p{Lu}", r"\\p{Lu}"), (r"\p{Han}", r"\\p{Han}"), (r"\xe9", r"\\xe9"), ("\\", r"'\\'"), ("a)", "')'")),
        *(("(?i:é)", r"\xe9"), (r"(?i:\p{L})", r"\\p{L}"), ("(?i:ss)", "ss"), ("(?i:(?:s)T)", "sT")),
        *(("(a", "missing )"), ("a**", "multiple repeat"), ("(?<=a+)b", "look-behind")),
    ],
)
def test_what_cannot_be_translated_is_refused_and_named(pattern: str, part: str) -> None:
    with pytest.raises(TokenizerError) as refused:
        compile_pattern(pattern)
    assert part in refused.value.got
    assert ascii(pattern) in refused.value.where


def test_a_literal_pattern_is_no_regex() -> None:
    assert pre_tokenize(compile_literal(r"\s+"), r"a b\s+c") == their_pieces(r"\s+", r"a b\s+c") == ["a b", r"\s+", "c"]
    assert pre_tokenize(compile_literal("😀"), "😂😀x") == their_pieces("😀", "😂😀x") == ["😂", "😀", "x"]


def test_what_no_match_covers_stands_between_the_matches() -> None:
    assert pre_tokenize(compile_pattern(r"\p{N}"), "ab12c") == ["ab", "1", "2", "c"]


def test_characters_above_ffff_are_given_back_as_they_were() -> None:
    assert pre_tokenize(compile_pattern(QWEN), "x\U0001d4b3 \U0001d7d8😀!") == ["x\U0001d4b3", " ", "\U0001d7d8", "😀!"]


def test_the_long_s_is_an_s_behind_an_apostrophe() -> None:
    assert pre_tokenize(compile_pattern(QWEN), "it'ſ'SX") == ["it", "'ſ", "'S", "X"]


def test_empty_text_has_no_pieces() -> None:
    assert pre_tokenize(compile_pattern(QWEN), "") == []
