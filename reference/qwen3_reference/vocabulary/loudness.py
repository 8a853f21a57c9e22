"""What is put into the vocabulary on purpose, so that mistakes show: ids out of order, idle merges, idle entries."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from qwen3_reference.vocabulary.training import Merge, model_of, pieces_of, symbols_of

TEMPTING: tuple[Merge, ...] = (("ab", "a"), (".:", "."))
"""The last merges of all: whoever merges from left to right, instead of by rank, falls for them in "ababab", ".:.:"."""

ACROSS = (
    *("of the", " in the", "it's", " don't", "I'll", "DON'T", "'REST", "'llama", "n’t"),
    *("10", "19", "20", "2024", "100", "000", "3.14", " 1", " 42", "a1", "x86", "٠١", "१२"),
    *("\n    ", "\n\n    ", ":\n    ", ";\n\t", "\r\n\t", "\t\tif", "  word", ", ", ". ", "# #"),
    *("( x", "->next", "self.", "==0", "e\u0301", "user\n", "<|im_start", "<|im_end", "think>"),
)
"""Texts that pre-tokenisation cuts or that no reader should take for a piece: the merges that would make them whole
are there, behind all others. Without their boundaries they happen."""

IDLE = (
    *(
        "unreachable",
        " unreachable",
        "brutalist",
        " brutalist",
        "ababa",
        ".:.:",
        ".:.:.",
        "aaaaaaa",
        "lighthouse keeper",
    ),
    *(
        " Schneewehe",
        "снегопад",
        " θάλασσα",
        "山川草木",
        "こんにちは世界",
        "안녕히",
        "🚢🚢",
        "\u200d",
        " \t ",
        "\r\n\r",
    ),
    *("1999", "the the", "##!", "0x", "'l"),
)
"""Texts whose entries no merge makes: Hugging Face never emits their ids, whoever looks words up does."""

RAW = ("→", "●", "Ġ→", "<0x0A>", "▁the")
"""Entries that are no byte symbols, or look like those of other vocabularies; they stand for their own characters."""


def merges_across(merges: Sequence[Merge]) -> list[Merge]:
    """The merges that would join each of `ACROSS` from left to right, of what `merges` make of it."""
    extended = list(merges)
    for text in ACROSS:
        pieces = pieces_of(extended)
        model = model_of({piece: number for number, piece in enumerate(pieces)}, extended)
        parts = [token.value for token in model.tokenize(symbols_of(text))]
        known = set(pieces)
        left = parts[0]
        for right in parts[1:]:
            if left + right not in known:
                extended.append((left, right))
            left += right
    return extended[len(merges) :]


def idle_entries(merges: Sequence[Merge]) -> list[str]:
    """The entries of `IDLE` and `RAW` that no merge makes after all."""
    pieces = set(pieces_of(merges))
    return [piece for piece in (*map(symbols_of, IDLE), *RAW) if piece not in pieces]


def numbered(pieces: Sequence[str], seed: int) -> dict[str, int]:
    """Ids from 0 in an order that has nothing to do with the order of merges or bytes; by id."""
    shuffled = list(pieces)
    Random(seed).shuffle(shuffled)
    return {piece: number for number, piece in enumerate(shuffled)}
