"""The Unicode tables of the recorded Hugging Face, which are older than Python's: files in `tables/`, read once.

A line is a row of code points in hexadecimal; lines that begin with "#" say what the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DIRECTORY = Path(__file__).parent / "tables"

Ranges = tuple[tuple[int, int], ...]
"""Code points, end exclusive, ascending."""


@dataclass(frozen=True)
class UnicodeTables:
    """Character classes and canonical (de)composition.

    letters, numbers, spaces: `\\p{L}`, `\\p{N}`, `\\s` of the pre-tokeniser's regex. words: `\\w` of the engine that
    looks for added tokens. case_variants: for each letter from a to z what it matches when case is ignored.
    decompositions: full canonical ones; compositions: two characters -> one; Hangul syllables are in neither, they are
    computed. combining_classes: those that are not 0.
    """

    letters: Ranges
    numbers: Ranges
    spaces: Ranges
    words: Ranges
    case_variants: Mapping[str, str]
    decompositions: Mapping[str, str]
    combining_classes: Mapping[str, int]
    compositions: Mapping[str, str]


@cache
def unicode_tables() -> UnicodeTables:
    """The tables, read when they are first asked for."""
    return UnicodeTables(
        letters=_ranges("letters"),
        numbers=_ranges("numbers"),
        spaces=_ranges("spaces"),
        words=_ranges("words"),
        case_variants={row[0]: row[1:] for row in _characters("case_variants")},
        decompositions={row[0]: row[1:] for row in _characters("decompositions")},
        combining_classes={
            chr(code): int(number)
            for number, begin, end in _rows("combining_classes")
            for code in range(int(begin, 16), int(end, 16))
        },
        compositions={row[:2]: row[2] for row in _characters("compositions")},
    )


def _ranges(name: str) -> Ranges:
    return tuple((int(begin, 16), int(end, 16)) for begin, end in _rows(name))


def _characters(name: str) -> Iterator[str]:
    return ("".join(chr(int(code, 16)) for code in row) for row in _rows(name))


def _rows(name: str) -> Iterator[list[str]]:
    lines = (DIRECTORY / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return (line.split() for line in lines if not line.startswith("#"))
