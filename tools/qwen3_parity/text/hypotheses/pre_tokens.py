"""Wrong ways to tell where pre-tokens stand, and to match a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, Piece, State
from qwen3_parity.text.stages_of import TRUTH, pieces_of

Pieces = Sequence[Piece]


def _after(change: Callable[[str, Pieces], Pieces]) -> Compute:
    """The right pieces of each segment, told wrongly."""

    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        right = TRUTH["pre_tokens"](oracle, given, state)
        return tuple(tuple(change(text, pieces)) for text, pieces in zip(state["normalized"], right, strict=True))

    return compute


def _units(text: str) -> list[int]:
    """Where each character begins in UTF-16."""
    return list(accumulate((1 + (ord(character) > 0xFFFF) for character in text), initial=0))


def _from_the_text(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    right = TRUTH["pre_tokens"](oracle, given, state)
    begins = [begin for begin, _, added in state["segments"] if added is None]
    out = []
    for begin, pieces in zip(begins, right, strict=True):
        byte = len(given.text[:begin].encode())
        out.append(tuple(Piece(p.begin + begin, p.end + begin, p.begin_byte + byte, p.end_byte + byte) for p in pieces))
    return tuple(out)


def _running(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    out, before, byte = [], 0, 0
    for text, pieces in zip(state["normalized"], TRUTH["pre_tokens"](oracle, given, state), strict=True):
        out.append(
            tuple(Piece(p.begin + before, p.end + before, p.begin_byte + byte, p.end_byte + byte) for p in pieces)
        )
        before, byte = before + len(text), byte + len(text.encode())
    return tuple(out)


def _trimmed(text: str, pieces: Pieces) -> Pieces:
    ends = []
    for piece in pieces:
        part = text[piece.begin : piece.end]
        ends.append((piece.begin + len(part) - len(part.lstrip()), piece.end - len(part) + len(part.rstrip())))
    return pieces_of(text, [(begin, end) for begin, end in ends if begin < end])


def _without_white_space(text: str, pieces: Pieces) -> Pieces:
    return [piece for piece in pieces if text[piece.begin : piece.end].strip()]


def _at_most(count: int) -> Compute:
    return _after(lambda text, pieces: _limited(text, pieces, count))


def _limited(text: str, pieces: Pieces, most: int) -> Pieces:
    starts = [(at, min(at + most, piece.end)) for piece in pieces for at in range(piece.begin, piece.end, most)]
    return pieces_of(text, starts)


def _line_by_line(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    out = []
    for text in state["normalized"]:
        lines, done, ends = text.splitlines(keepends=True), 0, list[tuple[int, int]]()
        for line, pieces in zip(lines, TRUTH["pre_tokens"](oracle, given, {"normalized": lines}), strict=True):
            ends += [(done + piece.begin, done + piece.end) for piece in pieces]
            done += len(line)
        out.append(pieces_of(text, ends))
    return tuple(out)


@cache
def _classes_of(oracle: Oracle, pattern: str) -> Any:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
    return oracle.variant(pre_tokenizer=split).pre_tokenizer


def _drawn(oracle: Oracle, text: str) -> str:
    """The text with one ASCII character for each class, so that Python's engine can match the pattern on it."""
    drawn = [character if character.isascii() else "\x01" for character in text]
    for pattern, stand_in in ((r"\p{L}", "x"), (r"\p{N}", "0"), (r"\s", "\t")):
        for _, (begin, end) in _classes_of(oracle, pattern).pre_tokenize_str(text):
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
    python = [re.sub(r"\\p\{L\}(?=[^\[]*\])", "A-Za-z", part) for part in python]
    python = [re.sub(r"\\p\{N\}(?=[^\[]*\])", "0-9", part) for part in python]
    return [re.compile(part.replace(r"\p{L}", "[A-Za-z]").replace(r"\p{N}", "[0-9]"), re.ASCII) for part in python]


def _longest(oracle: Oracle, text: str) -> Pieces:
    try:
        alternatives = _alternatives(oracle.pattern)
    except re.error as error:
        raise ValueError("a pattern beyond this engine") from error
    drawn, at, ends = _drawn(oracle, text), 0, []
    while at < len(text):
        size = max((len(found[0]) for one in alternatives if (found := one.match(drawn, at))), default=1) or 1
        ends.append((at, at + size))
        at += size
    return pieces_of(text, ends)


def _longest_match(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
    return tuple(_longest(oracle, text) for text in state["normalized"])


_SPANS: list[tuple[str, str, Compute]] = [
    (
        "bytes_for_characters",
        "gives bytes where characters are asked for",
        _after(lambda t, ps: [Piece(p.begin_byte, p.end_byte, p.begin_byte, p.end_byte) for p in ps]),
    ),
    (
        "characters_for_bytes",
        "gives characters where bytes are asked for",
        _after(lambda t, ps: [Piece(p.begin, p.end, p.begin, p.end) for p in ps]),
    ),
    (
        "bytes_and_characters_exchanged",
        "gives bytes for characters, and characters for bytes",
        _after(lambda t, ps: [Piece(p.begin_byte, p.end_byte, p.begin, p.end) for p in ps]),
    ),
    (
        "utf16_units",
        "counts UTF-16 units as characters",
        _after(lambda t, ps: [p._replace(begin=u[p.begin], end=u[p.end]) for u in (_units(t),) for p in ps]),
    ),
    (
        "utf16_bytes",
        "counts the bytes of UTF-16",
        _after(
            lambda t, ps: [
                p._replace(begin_byte=2 * u[p.begin], end_byte=2 * u[p.end]) for u in (_units(t),) for p in ps
            ]
        ),
    ),
    (
        "end_inclusive",
        "gives the last character as the end, not the one behind it",
        _after(lambda t, ps: [p._replace(end=p.end - 1, end_byte=p.end_byte - 1) for p in ps]),
    ),
    (
        "end_inclusive",
        "gives the last character as the end, not the one behind it",
        _after(lambda t, ps: [p._replace(end=p.end - 1) for p in ps]),
    ),
    (
        "lengths_as_ends",
        "gives lengths where ends are asked for",
        _after(lambda t, ps: [p._replace(end=p.end - p.begin, end_byte=p.end_byte - p.begin_byte) for p in ps]),
    ),
    ("counted_from_the_text", "counts from the start of the text, not of the segment", _from_the_text),
    ("counted_over_segments", "goes on counting from one segment to the next", _running),
]

WRONG: list[Wrong] = [
    *wrong_ways("pre_tokens", "count from the segment's start, characters (code points) and bytes of UTF-8", _SPANS),
    *wrong_ways(
        "pre_tokens",
        "keep every character: matches and what stands between them, white space included",
        [
            ("white_space_trimmed", "takes white space off the pieces", _after(_trimmed)),
            ("white_space_dropped", "leaves out pieces of white space", _after(_without_white_space)),
            *(
                ("limited", f"cuts pieces of more than {n} characters", _at_most(n))
                for n in (16, 32, 64, 128, 256, 512, 1024)
            ),
            ("lines", "cuts each line for itself", _line_by_line),
            ("first_only", "stops after the first piece", _after(lambda t, ps: ps[:1])),
            ("last_missing", "loses the last piece", _after(lambda t, ps: ps[:-1])),
            (
                "empty_kept",
                "keeps empty pieces at the end",
                _after(lambda t, ps: [*ps, *pieces_of(t, [(len(t),) * 2])]),
            ),
        ],
    ),
    *wrong_ways(
        "pre_tokens",
        "take the first alternative that matches, not the longest",
        [("longest_match", "takes the longest of the alternatives (POSIX), not the first", _longest_match)],
    ),
]
"""Of the stage `pre_tokens`, beside other patterns."""
