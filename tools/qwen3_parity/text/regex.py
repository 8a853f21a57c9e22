"""Regexes that cut pre-tokens: with other classes, and as an engine reads them that takes the longest alternative."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

from qwen3_parity.text.oracle import Oracle


def classes(letters: str = r"\p{L}", numbers: str = r"\p{N}", spaces: str = r"\s") -> Callable[[str], str]:
    """Other classes, each the inside of a bracket, wherever the pattern names them."""
    new = {r"\p{L}": f"[{letters}]", r"\p{N}": f"[{numbers}]", r"\s": f"[{spaces}]", r"\S": f"[^{spaces}]"}
    return lambda pattern: re.sub(r"\\p\{[LN]\}|\\[sS]", lambda match: new[match[0]], pattern)


@cache
def ranges(inside: Callable[[str], bool]) -> str:
    """The characters for which `inside` holds, as the inside of a bracket."""
    out, begin = [], -1
    for point in range(sys.maxunicode + 2):
        surrogate = 0xD800 <= point < 0xE000
        if point <= sys.maxunicode and not surrogate and inside(chr(point)):
            begin = point if begin < 0 else begin
        elif begin >= 0:
            out.append(f"\\x{{{begin:x}}}-\\x{{{point - 1:x}}}")
            begin = -1
    return "".join(out)


@cache
def category(first: str) -> str:
    """A general category by Python's Unicode tables, which are newer than the reference's."""
    return ranges(lambda character: unicodedata.category(character).startswith(first))


@cache
def _matches_of(oracle: Oracle, pattern: str) -> Any:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
    return oracle.variant(pre_tokenizer=split).pre_tokenizer


def _drawn(oracle: Oracle, text: str) -> str:
    """The text with one ASCII character for each class, so that Python's engine can match the pattern on it."""
    drawn = [character if character.isascii() else "\x01" for character in text]
    for pattern, stand_in in ((r"\p{L}", "x"), (r"\p{N}", "0"), (r"\s", "\t")):
        for _, (begin, end) in _matches_of(oracle, pattern).pre_tokenize_str(text):
            for at in range(begin, end):
                drawn[at] = drawn[at] if text[at].isascii() else stand_in
    return "".join(drawn)


def _alternatives(pattern: str) -> list[re.Pattern[str]]:
    """The alternatives of the pattern's top level, for drawn text."""
    depth, parts = 0, [""]
    for character in pattern:
        depth += (character in "([") - (character in ")]")
        parts = [*parts, ""] if character == "|" and not depth else [*parts[:-1], parts[-1] + character]
    python = [part.replace(r"[^\s\p{L}\p{N}]", r"[^\sA-Za-z0-9]") for part in parts]
    for name, inside in ((r"\\p\{L\}", "A-Za-z"), (r"\\p\{N\}", "0-9")):
        python = [re.sub(name, f"[{inside}]", re.sub(name + r"(?=[^\[]*\])", inside, part)) for part in python]
    return [re.compile(part, re.ASCII) for part in python]


def longest_matches(oracle: Oracle, text: str) -> list[tuple[int, int]]:
    """The spans of the pattern's longest alternatives; raises `ValueError` for a pattern beyond Python's engine."""
    try:
        alternatives = _alternatives(oracle.pattern)
    except re.error as error:
        raise ValueError("a pattern beyond this engine") from error
    drawn, at, ends = _drawn(oracle, text), 0, []
    while at < len(text):
        size = max((len(match[0]) for part in alternatives if (match := part.match(drawn, at))), default=1) or 1
        ends.append((at, at + size))
        at += size
    return ends
