"""Pre-tokenisation: the pieces of a text within which merges happen. They are the matches of a regex."""

from __future__ import annotations

import re
from bisect import bisect
from functools import cache, lru_cache
from itertools import accumulate, pairwise

from .pattern_syntax import refuse, translate
from .unicode_tables import unicode_tables

ABOVE = re.compile("[\U00010000-\U0010ffff]")
LETTER, NUMBER, OTHER = "\u4e00", "\u0660", "\ue000"
"""What stands for a character above U+FFFF, by its class; none of those is a space."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Hugging Face's regex for Python's `re`, to be used by `pre_tokenize` alone: its sets end at U+FFFF.

    What cannot be said in Python's `re`, or is not known to mean the same, raises `TokenizerError` naming it.
    """
    try:
        return re.compile(translate(pattern))
    except re.error as error:
        refuse(pattern, pattern, f"Python's `re` refuses: {error.msg}")


def compile_literal(text: str) -> re.Pattern[str]:
    """The pattern that matches this text alone, whatever it would mean as a regex."""
    return re.compile(re.escape(text))


def pre_tokenize(pattern: re.Pattern[str], text: str) -> list[str]:
    """The matches of the pattern and what stands between them, in order: together they are the text, and none is empty.

    Large sets of characters above U+FFFF are slow in Python's `re`: a pattern that names none of those characters is
    shown others of the same class in their places.
    """
    matched = text
    if not text.isascii() and ABOVE.search(text) and not _names_above(pattern):
        matched = ABOVE.sub(lambda match: _stand_in(match.group()), text)
    pieces: list[str] = [] if pattern.groups else pattern.findall(matched)
    if len("".join(pieces)) == len(text) and "" not in pieces:  # the matches leave nothing between them
        if matched is text:
            return pieces
        cuts = list(accumulate(map(len, pieces), initial=0))
    else:
        cuts = sorted({0, len(text), *(place for match in pattern.finditer(matched) for place in match.span())})
    return [text[begin:end] for begin, end in pairwise(cuts)]


@cache
def _names_above(pattern: re.Pattern[str]) -> bool:
    return "\\U" in pattern.pattern or max(pattern.pattern, default="") > "\uffff"


@lru_cache(maxsize=1 << 14)
def _stand_in(character: str) -> str:
    letters, numbers = _edges()
    if bisect(letters, ord(character)) % 2 == 1:
        return LETTER
    return NUMBER if bisect(numbers, ord(character)) % 2 == 1 else OTHER


@cache
def _edges() -> tuple[list[int], list[int]]:
    """Where letters begin and end by turns, and where numbers do."""
    tables = unicode_tables()
    return [edge for pair in tables.letters for edge in pair], [edge for pair in tables.numbers for edge in pair]
