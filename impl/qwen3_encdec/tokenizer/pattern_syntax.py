"""A regex as Hugging Face's engine reads it (Oniguruma, in Ruby's syntax), written for Python's `re`.

The two agree on alternatives (in order), groups, look-around and quantifiers. They do not on what a letter, a number or
a space is, nor on case: those become explicit sets, by the tables. What is not known to be the same is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from .errors import TokenizerError
from .unicode_tables import Ranges, unicode_tables

TOKEN = re.compile(
    r"(?P<open>\(\?(?:i:|:|=|!|>|<=|<!)|\((?!\?))|(?P<close>\))|(?P<either>\|)"
    r"|(?P<repeat>[*+?][+?]?|\{(?:\d+,?\d*|,\d+)\}(?![+?]))"
    r"|\[(?P<negated>\^?)(?P<items>(?:\\.|[^\\\[\]&]|&(?!&))+)\]"
    r"|(?P<atom>\\[pP]\{\^?\w+\}|\\u[0-9a-fA-F]{4}|\\x[0-7][0-9a-fA-F]|\\[^pPux]|[^\\\[\](){}*+?|^$])",
    re.DOTALL,
)
ITEM = re.compile(r"\\[pP]\{\^?\w+\}|\\u[0-9a-fA-F]{4}|\\x[0-7][0-9a-fA-F]|\\[^pPux]|[^\\]", re.DOTALL)
CONTROLS = {"r": "\r", "n": "\n", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_UNBOUNDED = 4
"""Repetitions without bound in one branch: a search may go through as high a power of the text's length."""
LIGATURES = ("ss", "st", "ff", "fi", "fl")
"""Letters that a single character matches too when case is ignored: no set can say that."""


def translate(pattern: str) -> str:
    """The same regex for Python's `re`; sets end at U+FFFF unless the pattern itself names a character above.

    Anything that is not known to mean the same raises `TokenizerError` naming it.
    """
    limit = 0x110000 if max(pattern, default="") > "\uffff" else 0x10000
    refuse_long_searches(pattern)
    translated: list[str] = []
    ignoring = [False]  # case, in each group that is open
    before = ""  # the letter that stands directly before, case ignored
    at = 0
    while at < len(pattern):
        token = TOKEN.match(pattern, at)
        if token is None:
            refuse(pattern, pattern[at : at + 12], "is not known")
        at = token.end()
        kind, text = str(token.lastgroup), token.group()
        if kind == "open":
            ignoring.append(ignoring[-1] or text == "(?i:")
            translated.append("(?:" if text in ("(", "(?i:") else text)
        elif kind == "close":
            if len(ignoring) == 1:
                refuse(pattern, text, "closes no group")
            ignoring.pop()
            translated.append(text)
        elif kind in ("either", "repeat"):
            before = ""
            translated.append(text)
        elif kind == "items":
            before = ""
            members = _set(pattern, token["items"], ignoring[-1])
            translated.append(_written(_others(members) if token["negated"] else members, limit))
        else:
            members = _members(pattern, text) if text != "." else _others([(10, 11)])
            if ignoring[-1]:
                members = _any_case(pattern, text, members)
                if before + text.lower() in LIGATURES:
                    refuse(pattern, before + text, "also matches one character when case is ignored")
                before = text.lower()
            translated.append(_written(members, limit))
    return "".join(translated)


@dataclass
class _Group:
    """An open group: whether it can match one text in several ways, and the unbounded repetitions of its branches."""

    choice: bool = False
    unbounded: int = 0
    most: int = 0
    branches: list[list[str]] = field(default_factory=lambda: [[]])

    @property
    def chooses(self) -> bool:
        """Whether there is a choice that the next character does not settle, as it does between single letters."""
        first = [branch[0].lower() for branch in self.branches if len(branch) == 1 and len(branch[0]) == 1]
        settled = len(first) == len(self.branches) == len(set(first)) and "." not in first
        return self.choice or (len(self.branches) > 1 and not settled)


def refuse_long_searches(pattern: str) -> None:
    """`TokenizerError` for a pattern that a search may go through in exponentially many ways, or a high power of them.

    A group that repeats must match each text in one way alone, and one branch repeats at most four times without bound.
    """
    groups, closed, at = [_Group()], _Group(), 0
    previous = ""
    while (token := TOKEN.match(pattern, at)) is not None:
        at, kind, text = token.end(), str(token.lastgroup), token.group()
        if kind == "open":
            groups.append(_Group())
        elif kind == "close" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].choice |= closed.chooses
            groups[-1].branches[-1].append("(…)")
            groups[-1].unbounded += max(closed.most, closed.unbounded)
        elif kind == "either":
            groups[-1].branches.append([])
            groups[-1].most = max(groups[-1].most, groups[-1].unbounded)
            groups[-1].unbounded = 0
        elif kind == "repeat":
            if previous == "close" and closed.chooses and _most_often(text) > 1:
                refuse(pattern, text, "repeats a group with choices in it, which some texts take years to search")
            groups[-1].choice = True
            groups[-1].unbounded += _most_often(text) == math.inf
        else:
            groups[-1].branches[-1].append(text)
        if groups[-1].unbounded > _UNBOUNDED:
            refuse(pattern, text, f"is more than the {_UNBOUNDED}th repetition without bound in one branch")
        previous = kind


def _most_often(repeat: str) -> float:
    """How often a repetition repeats at most."""
    if repeat[0] != "{":
        return 1 if repeat[0] == "?" else math.inf
    last = repeat.strip("{}").rpartition(",")[2]
    return int(last) if last else math.inf


def refuse(pattern: str, part: str, why: str) -> NoReturn:
    """Raises the `TokenizerError` of a pattern that cannot be run."""
    raise TokenizerError(
        f"pattern {pattern!a}",
        "what the pattern means to Hugging Face can be said in Python's `re`",
        expected=r"literals, sets, \p{L} \p{N} \s and their opposites, ., groups, (?i:…), look-around, quantifiers",
        got=f"{part!a}, which {why}",
        next_step="rewrite that part of the pattern, or teach pattern_syntax.py what it means",
    )


def _set(pattern: str, items: str, ignore_case: bool) -> Ranges:
    """The members of a set; `items` is what stands between its brackets, without the ^."""
    texts = ITEM.findall(items)
    if "".join(texts) != items:
        refuse(pattern, items, "is not known in a set")
    members: list[tuple[int, int]] = []
    while texts:
        text = texts.pop(0)
        ranges = _members(pattern, text)
        if texts[:1] == ["-"] and len(texts) > 1:
            last = _members(pattern, texts[1])
            if _size(ranges) != 1 or _size(last) != 1 or ranges[0][0] > last[0][0] or text == "-":
                refuse(pattern, f"{text}-{texts[1]}", "is no range")
            text, ranges, texts = f"{text}-{texts[1]}", ((ranges[0][0], last[0][1]),), texts[2:]
        members += _any_case(pattern, text, ranges) if ignore_case else ranges
    return tuple(members)


def _members(pattern: str, text: str) -> Ranges:
    """What one character, escaped or not, or a class such as `\\s` stands for."""
    tables = unicode_tables()
    if text[0] != "\\":
        return ((ord(text), ord(text) + 1),)
    letter, rest = text[1], text[2:]
    if letter in "sS":
        return tables.spaces if letter == "s" else _others(tables.spaces)
    if letter in "pP":
        known = {"L": tables.letters, "N": tables.numbers}
        name = rest.strip("{}")
        if name.removeprefix("^") not in known:
            refuse(pattern, text, "has no table here")
        members = known[name.removeprefix("^")]
        return _others(members) if (letter == "P") != name.startswith("^") else members
    if letter in "ux":
        code = int(rest, 16)
    elif letter in CONTROLS or not letter.isalnum():
        code = ord(CONTROLS.get(letter, letter))
    else:
        refuse(pattern, text, "means something else in Python, or nothing")
    return ((code, code + 1),)


def _any_case(pattern: str, text: str, members: Ranges) -> Ranges:
    variants = unicode_tables().case_variants
    if text == r"\s" or text == ".":
        return members
    if members[-1][1] > 0x80:
        refuse(pattern, text, "has no table of cases here")
    codes = [code for begin, end in members for code in range(begin, end)]
    return tuple((ord(c), ord(c) + 1) for code in codes for c in variants.get(chr(code).lower(), chr(code)))


def _size(members: Ranges) -> int:
    return sum(end - begin for begin, end in members)


def _others(members: Iterable[tuple[int, int]]) -> Ranges:
    """All code points that are not members."""
    edges = [0, *(edge for member in _merged(members) for edge in member), 0x110000]
    return tuple((begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end)


def _merged(members: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, end = 0, 0
    for first, last in sorted(members):
        if first > end:
            if begin < end:
                yield begin, end
            begin = first
        end = max(end, last)
    if begin < end:
        yield begin, end


def _written(members: Ranges, limit: int) -> str:
    """A set for Python, or the character if it is one."""
    if _size(members) == 1:
        return re.escape(chr(members[0][0]))
    ranges = [(begin, min(end, limit) - 1) for begin, end in _merged(members) if begin < limit]
    return "[" + "".join(f"{_code(first)}-{_code(last)}" for first, last in ranges) + "]" if ranges else "(?!)"


def _code(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
