"""Ways to keep the table of merges, or to look into it, that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from detection.mutants.text.merging import Merged, Ranks, best_first, lowest, merging, of_file
from detection.mutants.text.seeds import Seed, made
from qwen3_encdec.tokenizer.byte_symbols import BYTES
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer


def table(change: Callable[[list[tuple[str, str]]], list[tuple[str, str]]]) -> Seed:
    """The merges of the file, read wrongly; ranks are what this makes of them."""
    return merging(lowest, lambda tokenizer: {pair: rank for rank, pair in enumerate(change(tokenizer.files.merges))})


def by(order: Callable[[ByteLevelTokenizer, str], float]) -> Seed:
    """The order of merging is another one than the table's, by the piece that a merge makes; told as table ranks."""

    def seed(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
        ranks = of_file(tokenizer)
        merge = best_first(lambda rank, piece, at: order(tokenizer, piece))
        return lambda symbols: merge(symbols, ranks)

    return made("merge", seed)


def any_pair(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Two pieces merge when the vocabulary holds both together; the smallest id first."""
    rank_of = {left + right: rank for (left, right), rank in of_file(tokenizer).items()}
    vocabulary = tokenizer.vocabulary

    class Pairs(dict[tuple[str, str], int]):
        def get(self, pair: Any, default: Any = None) -> Any:
            return vocabulary.get(pair[0] + pair[1], default)

    pieces_of = {number: piece for piece, number in vocabulary.items()}

    def merge(symbols: str) -> Merged:
        pieces, applied = lowest(symbols, Pairs())
        return pieces, [rank_of.get(pieces_of[number], number) for number in applied]

    return merge


def _raw(piece: str) -> str:
    return bytes(BYTES[one] for one in piece).decode("latin-1")


def _misread(piece: str) -> str:
    return piece.encode().decode("cp1252", errors="replace")


def of_other_platform(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Merges and vocabulary in another character set; what the vocabulary then lacks is left out."""
    ranks = {(_misread(left), _misread(right)): rank for (left, right), rank in of_file(tokenizer).items()}
    known = {_misread(piece) for piece in tokenizer.vocabulary}

    def merge(symbols: str) -> Merged:
        pieces, applied = lowest(symbols, ranks)
        return [piece for piece in pieces if piece in known], applied

    return merge


def raw_pairs(tokenizer: ByteLevelTokenizer) -> Ranks:
    """Ranks of pairs in characters that are the bytes themselves."""
    return {(_raw(left), _raw(right)): rank for (left, right), rank in of_file(tokenizer).items()}


def whole_words(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Merging that takes an entry of the vocabulary as it stands."""
    plain: Callable[[str], Merged] = tokenizer.merge
    return lambda symbols: ([symbols], plain(symbols)[1]) if symbols in tokenizer.vocabulary else plain(symbols)


def short_words(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Merging that gives up on more than 64 symbols."""
    plain: Callable[[str], Merged] = tokenizer.merge
    return lambda symbols: plain(symbols) if len(symbols) <= 64 else (list(symbols), [])


def no_merges(symbols: str, ranks: Mapping[tuple[str, str], int]) -> Merged:
    """Every symbol stays by itself."""
    return list(symbols), []


def single_window(symbols: str, ranks: Mapping[tuple[str, str], int]) -> Merged:
    """Ranks looked up for spans of one symbol, which never have one."""
    joined = {left + right: rank for (left, right), rank in ranks.items()}
    assert not any(one in joined for one in symbols)
    return list(symbols), []
