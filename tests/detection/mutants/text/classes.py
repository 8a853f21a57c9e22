"""Bugs in the character classes of pre-tokenisation: what a letter, a number, a white space is."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.regex import inside, pattern, ranges, without

NUMBERS, SPACES, UNICODE = (f"tokenization/{name}" for name in ("numbers", "whitespace", "unicode"))


def _letters_and_marks() -> str:
    """What stands in words and is no letter is a mark, but for numbers, connectors, joiners and letters in circles."""
    others = {code for name in ("letters", "numbers") for begin, end in ranges(name) for code in range(begin, end)}
    words = {code for begin, end in ranges("words") for code in range(begin, end)}
    marks = [code for code in words - others if unicodedata.category(chr(code)) not in ("Pc", "Cf", "So")]
    return inside([*ranges("letters"), *((code, code + 1) for code in marks)])


UNICODE_16 = [(0x1C89, 0x1C8B), (0x105C0, 0x105F4), (0x10D4A, 0x10D66), (0x16D40, 0x16D6D)]
UNICODE_17 = [(0x88F, 0x890), (0xA7CE, 0xA7D0), (0x11DB0, 0x11DDC), (0x16EA0, 0x16EB9), (0x16EBB, 0x16ED4)]
"""Letters that these versions brought: Hugging Face knows those of 16."""


def _spaces(name: str, says: str, content: Callable[[], str], named: str) -> Any:
    return entry(name, says, pattern(spaces=content), ["pre_tokens"], named, [SPACES])


def _letters(name: str, says: str, content: Callable[[], str], named: str) -> Any:
    return entry(name, says, pattern(letters=content), ["pre_tokens"], named, [UNICODE])


def _numbers(name: str, says: str, content: Callable[[], str], named: str) -> Any:
    return entry(name, says, pattern(numbers=content), ["pre_tokens"], named, [NUMBERS])


def _except(begin: int) -> Callable[[], str]:
    """Letters without the range that holds one code point."""
    return lambda: inside(one for one in ranges("letters") if not one[0] <= begin < one[1])


MUTANTS = (
    _letters("TOK-06", "a-z are the letters", lambda: "A-Za-z", "pre_tokens.ascii_letters"),
    _letters("TOK-06/word", r"\w are the letters", lambda: inside([*ranges("letters"), *ranges("numbers")]) + "_",
             "pre_tokens.word_characters"),
    _letters("TOK-06/marks", "combining marks are letters", _letters_and_marks, "pre_tokens.marks_are_letters"),
    _numbers("TOK-06/digits", r"\d are the numbers", lambda: r"\d", "pre_tokens.decimal_digits"),
    _numbers("TOK-06/ascii_digits", "0-9 are the numbers", lambda: "0-9", "pre_tokens.ascii_digits"),
    _letters("own/tokenizer-letters-newer", "letters of Unicode 17", lambda: inside([*ranges("letters"), *UNICODE_17]),
             "pre_tokens.other_unicode"),
    _letters("own/tokenizer-letters-older", "letters of Unicode 15",
             lambda: without("letters", *(chr(code) for begin, end in UNICODE_16 for code in range(begin, end))),
             "pre_tokens.other_unicode pre_tokens.letters_missing"),
    _letters("own/tokenizer-letters-plane", "no letters above U+FFFF",
             lambda: inside(one for one in ranges("letters") if one[1] <= 0x10000), "pre_tokens.bmp_letters"),
    _letters("own/tokenizer-letters-range", "one range of letters is missing: Thai", _except(0x0E01),
             "pre_tokens.letters_missing"),
    _letters("own/tokenizer-letters-one", "one letter is missing: ª", _except(0xAA), "pre_tokens.letters_missing"),
    _spaces("own/tokenizer-space-line", "U+2028 is no white space", lambda: without("spaces", "\u2028"),
            "pre_tokens.spaces_missing"),
    _spaces("own/tokenizer-space-next-line", "U+0085 is no white space", lambda: without("spaces", "\x85"),
            "pre_tokens.spaces_missing"),
    _spaces("own/tokenizer-space-no-break", "no-break spaces are no white space, as in Java",
            lambda: without("spaces", "\xa0", "\u2007", "\u202f"), "pre_tokens.spaces_missing"),
    _spaces("own/tokenizer-space-javascript", r"JavaScript's \s", lambda: without("spaces", "\x85") + "\ufeff",
            "pre_tokens.javascript_spaces"),
    _spaces("own/tokenizer-space-python", r"Python's \s", lambda: inside([*ranges("spaces"), (0x1C, 0x20)]),
            "pre_tokens.python_spaces"),
    _spaces("own/tokenizer-space-ascii", r"ASCII's \s", lambda: r"\t-\r ",
            "pre_tokens.ascii_spaces pre_tokens.classes_ascii"),
    _spaces("own/tokenizer-space-zero-width", "a zero-width space is white space",
            lambda: inside([*ranges("spaces"), (0x200B, 0x200C)]), "pre_tokens.zero_width_space"),
)  # fmt: skip
