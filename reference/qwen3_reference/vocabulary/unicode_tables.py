"""What Unicode is to the installed Hugging Face, as text files.

`python -m qwen3_reference.vocabulary.unicode_tables DIR` writes them.

The library itself is asked, as its tables are older than Python's, and only what can be seen from outside is written:
classes by matching every code point, decompositions by NFD, compositions by NFC. Of a combining class nothing but its
place among the others can be seen (of two marks, NFD puts the lower class first). Its number is the one that Python's
`unicodedata` has for all of its marks, and their order must bear it out.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from itertools import pairwise
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from qwen3_golden import ParityError

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
LOWEST_CLASS, HIGHEST_CLASS = "\u0334", "\u0345"
"""Marks of the classes 1 and 240: whatever has another class changes places with one of them."""

nfd: Callable[[str], str] = normalizers.NFD().normalize_str
nfc: Callable[[str], str] = normalizers.NFC().normalize_str


def matched(pattern: str) -> list[str]:
    """The characters that a pattern for one character matches, ascending."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return [character for piece, _ in split.pre_tokenize_str("".join(CHARACTERS)) for character in piece]


def word_characters() -> list[str]:
    """The characters next to which an added token with `single_word` is not found: `\\w` of another regex engine."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([AddedToken("x", single_word=True, normalized=False)])
    lines = [character for character in CHARACTERS if character != "\n"]
    recognised = {
        begin // 3 for begin, end in tokenizer.encode("".join(f"x{c}\n" for c in lines)).offsets if end == begin + 1
    }
    return [character for number, character in enumerate(lines) if number not in recognised]


def case_variants() -> dict[str, str]:
    """For each letter from a to z what it matches when case is ignored: as to s, the long s (U+017F)."""
    candidates = matched("(?i:[a-z])")
    variants = {}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        split = pre_tokenizers.Split(Regex(f"(?i:{letter})"), "removed", invert=True)
        variants[letter] = "".join(piece for piece, _ in split.pre_tokenize_str("\n".join(candidates)))
    return variants


def each(normalized: Callable[[str], str], texts: Iterable[str]) -> list[str]:
    """Texts without line ends normalised at one go, as lines: a million calls take ten times as long."""
    return normalized("\n".join(texts)).split("\n")


def decompositions() -> dict[str, str]:
    """Full canonical decompositions, Hangul syllables left out."""
    characters = [c for c in CHARACTERS if c != "\n" and ord(c) not in HANGUL]
    return {c: parts for c, parts in zip(characters, each(nfd, characters), strict=True) if parts != c}


def compositions(decomposed: dict[str, str]) -> dict[str, str]:
    """Two characters -> one: whatever NFC puts together again, taken apart before its last character."""
    pairs = {}
    for character, parts in decomposed.items():
        if nfc(parts) == character:
            pairs[nfc(parts[:-1]) + parts[-1]] = character
    if any(len(pair) != 2 for pair in pairs):
        raise _surprise("a character is composed of two", "pairs", ascii([pair for pair in pairs if len(pair) != 2]))
    return pairs


def combining_classes() -> dict[str, int]:
    """The class of each mark that is left when texts are decomposed."""

    def order(a: str, b: str) -> int:
        return 0 if a == b else (nfd(a + b) == b + a) - (nfd(b + a) == a + b)

    characters = [c for c in CHARACTERS if c != "\n"]
    alone, lowest = each(nfd, characters), each(nfd, (c + LOWEST_CLASS for c in characters))
    highest = each(nfd, (HIGHEST_CLASS + c for c in characters))
    marks = [
        c
        for c, *forms in zip(characters, alone, lowest, highest, strict=True)
        if forms[0] == c and (forms[1] == LOWEST_CLASS + c or forms[2] == c + HIGHEST_CLASS)
    ]
    marks.sort(key=cmp_to_key(order))  # stable: ascending within a class
    numbers = {mark: unicodedata.combining(mark) for mark in marks}
    for a, b in pairwise(marks):
        if (numbers[a] < numbers[b], numbers[a] == numbers[b]) != (order(a, b) < 0, order(a, b) == 0):
            raise _surprise("Python's numbers have the order of the classes", "one order", f"{a!a}, {b!a}")
    return dict(sorted(numbers.items()))


def tables() -> dict[str, list[str]]:
    """The files by name, as lines without their ends; code points in hexadecimal."""
    decomposed = decompositions()
    files = {
        "letters": (r"\p{L}: begin and end (exclusive)", _ranges(matched(r"\p{L}"))),
        "numbers": (r"\p{N}: begin and end (exclusive)", _ranges(matched(r"\p{N}"))),
        "spaces": (r"\s: begin and end (exclusive)", _ranges(matched(r"\s"))),
        "words": (
            r"\w, as added tokens that are single words see it: begin and end (exclusive)",
            _ranges(word_characters()),
        ),
        "case_variants": (
            "a letter, and what it matches when case is ignored",
            [_hex(letter + variants) for letter, variants in case_variants().items()],
        ),
        "decompositions": (
            "a character and its full canonical decomposition, Hangul left out",
            [_hex(character + parts) for character, parts in decomposed.items()],
        ),
        "compositions": (
            "two characters and what they become, Hangul left out",
            [_hex(pair + character) for pair, character in sorted(compositions(decomposed).items())],
        ),
        "combining_classes": ("the class (decimal) of: begin and end (exclusive)", _classes(combining_classes())),
    }
    version = f"tokenizers {tokenizers.__version__}"
    return {f"{name}.txt": [f"# {title}; {version}", *lines] for name, (title, lines) in files.items()}


def _hex(characters: str) -> str:
    return " ".join(f"{ord(character):x}" for character in characters)


def _ranges(characters: Iterable[str]) -> list[str]:
    return [f"{begin:x} {end:x}" for begin, end in _runs(map(ord, characters))]


def _classes(numbers: dict[str, int]) -> list[str]:
    return [
        f"{number} {begin:x} {end:x}"
        for number in sorted(set(numbers.values()))
        for begin, end in _runs(ord(mark) for mark in numbers if numbers[mark] == number)
    ]


def _runs(codes: Iterable[int]) -> Iterator[tuple[int, int]]:
    begin = end = -1
    for code in codes:
        if code != end:
            if begin >= 0:
                yield begin, end
            begin = code
        end = code + 1
    if begin >= 0:
        yield begin, end


def _surprise(rule: str, expected: str, got: str) -> ParityError:
    return ParityError(
        f"tokenizers {tokenizers.__version__}", rule, expected=expected, got=got,
        next_step="look at what the library does, and change how its tables are read off", fault="harness bug",
    )  # fmt: skip


def main(arguments: list[str]) -> None:
    """Writes the tables into the directory that is named."""
    [directory] = arguments
    for name, lines in tables().items():
        Path(directory, name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
