"""Texts that tokenizers disagree about, from a seed: every code point, every vocabulary entry, and random mixtures."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

SPACES = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"
APOSTROPHES = "'\u2019\u02bc\uff07`"
AFTER_APOSTROPHE = [*"stmdSTDx1éſ", "re", "ve", "ll", "RE", "rE", "Ve", "mM", "Ll", "st", "sS", "ſt"]
HANGUL = "".join(
    map(chr, [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3), 0xAC00, 0xAC01, 0xD788])
)
MARKS = [chr(code) for code in range(0x30000) if unicodedata.combining(chr(code))]
DECOMPOSED = [chr(code) for code in range(0x30000) if unicodedata.decomposition(chr(code))]


@dataclass(frozen=True)
class Words:
    """What a vocabulary lends: the texts of its entries, as far as they are text, and its added tokens."""

    entries: Sequence[str]
    added: Sequence[str]


def every_code_point() -> Iterator[str]:
    """Each below 0x30000 but surrogates: alone, between letters, behind a space, twice."""
    for code in range(0x30000):
        if not 0xD800 <= code < 0xE000:
            c = chr(code)
            yield from (c, f"a{c}b", f" {c}", c + c)


def every_entry(words: Words) -> Iterator[str]:
    """Each entry of the vocabulary alone, and each next to another one."""
    yield from words.entries
    yield from (first + second for first, second in zip(words.entries, words.entries[1:], strict=False))


def every_pattern_edge(words: Words) -> Iterator[str]:
    """ASCII and spaces, apostrophes and what follows them, added tokens and their neighbours."""
    ascii_characters = [chr(code) for code in range(128)]
    yield from (
        text for c in ascii_characters for s in SPACES for text in (c + s, s + c, c + s + c, s + s + c, c + s + s)
    )
    yield from (
        before + a + after
        for a in APOSTROPHES
        for after in AFTER_APOSTROPHE
        for before in ("", " ", "x", "I", "1", "\n")
    )
    yield from (a + b for a in ascii_characters for b in ascii_characters)
    neighbours = ("", " ", "  ", "\n", "a", "1", "'", "\u0301", "<|", "|>", "é", "\ud55c")
    yield from (before + token + after for token in words.added for before in neighbours for after in neighbours)
    yield from (a + b for a in words.added for b in words.added)
    yield from (token[:cut] for token in words.added for cut in range(1, len(token)))


def bytes_decoded(random: Random, words: Words) -> str:
    """Random bytes, U+FFFD where they are no UTF-8."""
    return random.randbytes(random.randint(1, 24)).decode("utf-8", errors="replace")


def bytes_of_text_shuffled(random: Random, words: Words) -> str:
    """The bytes of a text, one of them changed."""
    data = bytearray(mixture(random, words).encode()[:32] or b"a")
    data[random.randrange(len(data))] = random.randrange(256)
    return data.decode("utf-8", errors="replace")


def any_characters(random: Random, words: Words) -> str:
    """Code points of every plane."""
    codes = [
        random.randrange(random.choice((0x80, 0x800, 0x3000, 0x10000, 0x30000, 0x110000)))
        for _ in range(random.randint(1, 12))
    ]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def mixture(random: Random, words: Words) -> str:
    """Entries of the vocabulary one behind the other."""
    return "".join(random.choices(words.entries, k=random.randint(1, 8)))


def marks(random: Random, words: Words) -> str:
    """Letters under heaps of marks, and characters that decompose."""
    kinds: Sequence[Sequence[str]] = ("aeoiuAEO \u05d0\u0915\u0627", MARKS, MARKS, DECOMPOSED, HANGUL)
    return "".join(random.choice(random.choice(kinds)) for _ in range(random.randint(1, 10)))


def other_form(random: Random, words: Words) -> str:
    """A mixture, normalised as by Python."""
    return unicodedata.normalize(
        random.choice(("NFD", "NFD", "NFKD", "NFC")), mixture(random, words) + any_characters(random, words)
    )


def white_space(random: Random, words: Words) -> str:
    """Runs of spaces and line ends between words, numbers and punctuation."""
    parts = ("a", "Word", "1", "23", ".", "->", "'s", "\u4e2d", "()", "")
    return "".join(
        "".join(random.choices("   \n\n\r\t\u3000\xa0", k=random.randint(0, 4))) + random.choice(parts)
        for _ in range(random.randint(1, 6))
    )


def with_added_tokens(random: Random, words: Words) -> str:
    """Added tokens, whole or cut, within other text."""
    parts = []
    for _ in range(random.randint(1, 4)):
        token = random.choice(words.added)
        parts += [
            random.choice((mixture, white_space, any_characters))(random, words),
            token if random.random() < 0.8 else token[1:],
        ]
    return "".join(parts)


def repeated(random: Random, words: Words) -> str:
    """The same again and again: merges that overlap themselves."""
    return random.choice(
        (random.choice(words.entries)[:4], random.choice(("a", "ab", "  ", "=", "!?", "\u0e01")))
    ) * random.randint(2, 30)


RANDOM: tuple[Callable[[Random, Words], str], ...] = (
    *(bytes_decoded, bytes_of_text_shuffled, any_characters, mixture, mixture, marks, other_form, white_space),
    *(with_added_tokens, repeated),
)


def drawn(seed: int, words: Words) -> Iterator[str]:
    """Random texts of every kind in turn, without end."""
    random = Random(seed)
    while True:
        for kind in RANDOM:
            yield kind(random, words)


def everything(words: Words) -> Iterator[str]:
    """All that can be gone through one by one."""
    yield from every_pattern_edge(words)
    yield from every_entry(words)
    yield from every_code_point()
