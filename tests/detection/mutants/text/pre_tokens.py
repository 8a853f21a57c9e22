"""Bugs in pre-tokenisation: another pattern, other character classes, no pattern, places counted in other units."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.regex import GPT2, QWEN, cut, pattern, pieces
from detection.mutants.text.seeds import Seed, around, pre_tokens

WORDS, NUMBERS, CODE = "tokenization/words", "tokenization/numbers", "tokenization/code"
SPACES, UNICODE, MERGES = "tokenization/whitespace", "tokenization/unicode", "tokenization/merges"


def _literal(tokenizer: Any) -> None:
    """The pattern of the file is searched as it is written."""
    tokenizer.pre_tokenize = cut(re.escape(tokenizer.files.pattern))


def _lines(plain: Callable[[str], list[str]], text: str) -> list[str]:
    return [piece for line in text.splitlines(keepends=True) for piece in plain(line)]


def _limited(plain: Callable[[str], list[str]], text: str) -> list[str]:
    return [piece[at : at + 32] for piece in plain(text) for at in range(0, len(piece), 32)]


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _wrong(name: str, says: str, seed: Seed, named: str, case: str) -> Any:
    return entry(name, says, seed, ["pre_tokens"], named, [case])


PATTERNS = (
    _wrong("TOK-01", "does not pre-tokenise", pieces(lambda text: [text] if text else []), "pre_tokens.missing", WORDS),
    _wrong("TOK-02", "cuts by GPT-2's pattern", pattern(GPT2), "pre_tokens.gpt2_pattern", CODE),
    _wrong("TOK-02/digits", "groups digits", pattern({"digits": "[{numbers}]+"}), "pre_tokens.digits_grouped", NUMBERS),
    _wrong("TOK-02/digits_by_three", "groups digits by three", pattern({"digits": "[{numbers}]{1,3}"}),
           "pre_tokens.digits_by_three", NUMBERS),
    _wrong("TOK-02/punctuation", "punctuation does not take its line feeds along",
           pattern({"punctuation": r" ?[^{spaces}{letters}{numbers}]+"}), "pre_tokens.punctuation_without_newlines",
           CODE),
    _wrong("TOK-02/punctuation_alone", "each sign of punctuation stands alone",
           pattern({"punctuation": r" ?[^{spaces}{letters}{numbers}][\r\n]*"}), "pre_tokens.punctuation_split", CODE),
    _wrong("TOK-02/leading", "only a space may stand before a word", pattern({"words": r" ?[{letters}]+"}),
           "pre_tokens.space_before_letters_alone", CODE),
    _wrong("TOK-02/newlines", "line feeds are like spaces", pattern({"newlines": ""}), "pre_tokens.no_newlines",
           SPACES),
    _wrong("TOK-04", "has no look-ahead", pattern({"trailing": ""}), "pre_tokens.no_look_ahead", SPACES),
    _wrong("TOK-04/end", "looks ahead to the end of the text alone", pattern({"trailing": r"[{spaces}]+\Z"}),
           "pre_tokens.no_look_ahead", SPACES),
    _wrong("TOK-05", "contractions in lower case alone", pattern({"contractions": GPT2["contractions"]}),
           "pre_tokens.contractions_case", WORDS),
    _wrong("TOK-05/curly", "a curly apostrophe makes contractions too",
           pattern({"contractions": QWEN["contractions"].replace("'", "['\u2019]")}), "pre_tokens.curly_apostrophe",
           WORDS),
    _wrong("TOK-05/none", "knows no contractions", pattern({"contractions": ""}), "pre_tokens.no_contractions", WORDS),
    _wrong("TOK-08", "searches the pattern as a literal", _literal, "pre_tokens.missing", WORDS),
    _wrong("TKM-10", "merges run over whole lines", pieces(cut(r"[^\n]+|\n+")), "pre_tokens.lines pre_tokens.missing",
           WORDS),
    _wrong("own/tokenizer-contraction-long-s", "\u017f is no s in contractions",
           pattern({"contractions": QWEN["contractions"].replace("?i", "?ai")}), "pre_tokens.contractions_ascii",
           WORDS),
    _wrong(
        "own/tokenizer-contraction-ends",
        "a contraction ends a word",
        pattern({"contractions": QWEN["contractions"] + "(?![{letters}])"}),
        "pre_tokens.no_contractions",  # at the end of a word all are words as well
        WORDS,
    ),
    _wrong("own/tokenizer-digit-before-letters", "a digit may stand before a word",
           pattern({"words": r"[^\r\n{letters}]?[{letters}]+"}), "pre_tokens.digit_before_letters", NUMBERS),
    _wrong("own/tokenizer-newline-before-letters", "a line feed may stand before a word",
           pattern({"words": r"[^{letters}{numbers}]?[{letters}]+"}), "pre_tokens.newline_before_letters", SPACES),
    _wrong("own/tokenizer-space-before-punctuation", "no space stands before punctuation",
           pattern({"punctuation": r"[^{spaces}{letters}{numbers}]+[\r\n]*"}), "pre_tokens.no_space_before_punctuation",
           CODE),
    _wrong("own/tokenizer-spaces-before-newlines", "line feeds do not take the spaces before them along",
           pattern({"newlines": r"[\r\n]+"}), "pre_tokens.newlines_without_spaces", SPACES),
    _wrong("own/tokenizer-carriage-return", "a carriage return is no line end",
           pattern({name: QWEN[name].replace(r"[\r\n]", r"[\n]") for name in ("punctuation", "newlines")}),
           "pre_tokens.no_carriage_return", SPACES),
    _wrong("own/tokenizer-line-by-line", "cuts each line alone", around("pre_tokenize", _lines), "pre_tokens.lines",
           SPACES),
    _wrong("own/tokenizer-piece-limit", "pre-tokens hold 32 characters at most", around("pre_tokenize", _limited),
           "pre_tokens.limited", SPACES),
)  # fmt: skip

PLACES = (
    _wrong("TOK-10/places", "counts characters in UTF-16 units",
           pre_tokens(lambda one, text, _: replace(one, begin=_utf16(text[: one.begin]), end=_utf16(text[: one.end]))),
           "pre_tokens.utf16_units", UNICODE),
    _wrong(
        "TOK-10/bytes",
        "counts the bytes of UTF-16",
        pre_tokens(
            lambda one, text, _: replace(
                one, begin_byte=2 * _utf16(text[: one.begin]), end_byte=2 * _utf16(text[: one.end])
            )
        ),
        "pre_tokens.utf16_bytes",
        UNICODE,
    ),
    _wrong("own/tokenizer-places-in-bytes", "counts bytes where characters are asked for",
           pre_tokens(lambda one, text, _: replace(one, begin=one.begin_byte, end=one.end_byte)),
           "pre_tokens.bytes_for_characters", UNICODE),
    _wrong("own/tokenizer-places-in-characters", "counts characters where bytes are asked for",
           pre_tokens(lambda one, text, _: replace(one, begin_byte=one.begin, end_byte=one.end)),
           "pre_tokens.characters_for_bytes", UNICODE),
)  # fmt: skip

MUTANTS = (*PATTERNS, *PLACES)
