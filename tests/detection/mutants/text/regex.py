"""Qwen's pattern taken apart, so that one part of it can be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from detection.mutants.text.seeds import Seed, put
from qwen3_encdec.tokenizer.unicode_tables import unicode_tables

QWEN = {
    "contractions": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    "words": r"[^\r\n{letters}{numbers}]?[{letters}]+",
    "digits": r"[{numbers}]",
    "punctuation": r" ?[^{spaces}{letters}{numbers}]+[\r\n]*",
    "newlines": r"[{spaces}]*[\r\n]+",
    "trailing": r"[{spaces}]+(?![^{spaces}])",
    "spaces": r"[{spaces}]+",
}
"""The alternatives in order; {letters}, {numbers} and {spaces} stand for what is inside their brackets."""

GPT2 = {
    "contractions": r"'s|'t|'re|'ve|'m|'ll|'d",
    "words": r" ?[{letters}]+",
    "digits": r" ?[{numbers}]+",
    "punctuation": r" ?[^{spaces}{letters}{numbers}]+",
    "newlines": "",
}


def ranges(name: str) -> list[tuple[int, int]]:
    """The ranges of "letters", "numbers", "spaces" or "words", end exclusive."""
    return list(getattr(unicode_tables(), name))


def inside(some: Iterable[tuple[int, int]]) -> str:
    """Ranges as they stand inside the brackets of a class."""
    return "".join(f"\\U{begin:08x}-\\U{end - 1:08x}" for begin, end in some)


def without(name: str, *characters: str) -> str:
    """A class that lacks a few characters."""
    gone = {ord(one) for one in characters}
    out = []
    for begin, end in ranges(name):
        cuts = sorted(one for one in gone if begin <= one < end)
        starts, ends = [begin, *(one + 1 for one in cuts)], [*cuts, end]
        out += [(first, last) for first, last in zip(starts, ends, strict=True) if first < last]
    return inside(out)


def cut(pattern: str) -> Callable[[str], list[str]]:
    """A function that cuts a text into the pattern's matches and what stands between them."""
    compiled = re.compile(f"({pattern})")
    return lambda text: [piece for piece in compiled.split(text) if piece]


def pattern(changed: Mapping[str, str] = MappingProxyType({}), **classes: Callable[[], str]) -> Seed:
    """Pre-tokens by Qwen's pattern with some alternatives `changed` (empty: left out) and other `classes`."""

    def seed(tokenizer: object) -> None:
        known = {name: inside(ranges(name)) for name in ("letters", "numbers", "spaces")} | {
            name: make() for name, make in classes.items()
        }
        alternatives = [one for one in (QWEN | dict(changed)).values() if one]
        text = "|".join(alternatives)
        for name, content in known.items():
            text = text.replace(f"{{{name}}}", content)
        setattr(tokenizer, "pre_tokenize", cut(text))  # noqa: B010 (a tokenizer of whatever class)

    return seed


def pieces(change: Callable[[str], list[str]]) -> Seed:
    """Pre-tokens by a function alone."""
    return put("pre_tokenize", change)
