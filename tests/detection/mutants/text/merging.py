"""Bugs in merging: another order, places forgotten, merges left out, other tables looked into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from detection.mutants.text.seeds import Seed, swap, wrong
from qwen3_encdec.tokenizer.merge import merge
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Merged = tuple[list[str], list[int]]
"""Pieces, and the ranks that were applied, in order."""
Ranks = Mapping[tuple[str, str], int]


def _ranks(tokenizer: ByteLevelTokenizer) -> Ranks:
    return {pair: rank for rank, pair in enumerate(tokenizer.files.merges)}


def _merging(by: Callable[[str, Ranks], Merged]) -> Seed:
    """Merge in another way, by the ranks of the file."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
        ranks = _ranks(tokenizer)
        return lambda symbols: by(symbols, ranks)

    return swap("merge", make)


def best_first(order: Callable[[int, str, int], Any]) -> Callable[[str, Ranks], Merged]:
    """The pair with the smallest `order(rank, its result, its place)` first, until no pair is left."""

    def by(symbols: str, ranks: Ranks) -> Merged:
        pieces, starts, applied = list(symbols), list(range(len(symbols))), list[int]()

        def able(at: int) -> tuple[Any, int, int] | None:
            pair = tuple(pieces[at : at + 2])
            rank = ranks.get(pair) if len(pair) == 2 else None
            return None if rank is None else (order(rank, "".join(pair), starts[at]), starts[at], rank)

        waiting = [able(at) for at in range(len(pieces))]
        while best := min(filter(None, waiting), default=None):
            at = waiting.index(best)
            pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
            del starts[at + 1], waiting[at + 1]
            for changed in (at - 1, at) if at else (at,):
                waiting[changed] = able(changed)
            applied.append(best[2])
        return pieces, applied

    return by


def _any_pair(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Two pieces merge when the vocabulary holds both together; the smallest id first, everywhere in one round."""
    rank_of = {left + right: rank for (left, right), rank in _ranks(tokenizer).items()}

    def by(symbols: str) -> Merged:
        pieces, applied = list(symbols), list[int]()
        while able := [pair for pair in map("".join, pairwise(pieces)) if pair in tokenizer.vocabulary]:
            best, at = min(able, key=tokenizer.vocabulary.__getitem__), 0
            while at + 1 < len(pieces):
                if pieces[at] + pieces[at + 1] == best:
                    pieces[at : at + 2] = [best]
                    applied.append(rank_of.get(best, tokenizer.vocabulary[best]))
                at += 1
        return pieces, applied

    return by


def _misread(piece: str) -> str:
    return piece.encode().decode("cp1252", errors="replace")


def _of_other_platform(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Merges and vocabulary in another character set; what the vocabulary then lacks is left out."""
    ranks = {(_misread(left), _misread(right)): rank for (left, right), rank in _ranks(tokenizer).items()}
    known = {_misread(piece) for piece in tokenizer.vocabulary}

    def by(symbols: str) -> Merged:
        pieces, applied = merge(symbols, ranks)
        return [piece for piece in pieces if piece in known], applied

    return by


def _nearest(pieces: Sequence[str | None], places: Iterable[int]) -> int | None:
    """The first of these places that still has a piece."""
    return next((at for at in places if pieces[at] is not None), None)


def _unchecked_heap(symbols: str, ranks: Ranks) -> Merged:
    """Lowest rank first; a place whose pieces have changed since is merged all the same, if that makes a piece."""
    known = {left + right for left, right in ranks}
    pieces: list[str | None] = list(symbols)
    waiting = sorted((rank, at) for at, pair in enumerate(pairwise(symbols)) if (rank := ranks.get(pair)) is not None)
    applied: list[int] = []
    while waiting:
        rank, at = waiting.pop(0)
        right, left_piece = _nearest(pieces, range(at + 1, len(pieces))), pieces[at]
        if right is None or left_piece is None or left_piece + str(pieces[right]) not in known:
            continue
        pieces[at], pieces[right] = left_piece + str(pieces[right]), None
        applied.append(rank)
        left, following = _nearest(pieces, reversed(range(at))), _nearest(pieces, range(right + 1, len(pieces)))
        for first, second in ((left, at), (at, following)):
            if first is not None and second is not None:
                new = ranks.get((str(pieces[first]), str(pieces[second])))
                waiting += [(new, first)] if new is not None else []
        waiting.sort()
    return [piece for piece in pieces if piece is not None], applied


def _dropout(symbols: str, ranks: Ranks) -> Merged:
    """Each merge of each pre-token is left out one time in ten."""
    draw = Random(len(symbols))
    able = {(left, right): rank for (left, right), rank in ranks.items() if left + right in symbols}
    return merge(symbols, {pair: rank for pair, rank in able.items() if draw.random() > 0.1})


def _whole_words(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
    """Merging that takes an entry of the vocabulary as it stands."""
    plain = tokenizer.merge
    return lambda symbols: ([symbols], plain(symbols)[1]) if symbols in tokenizer.vocabulary else plain(symbols)


MUTANTS = (
    wrong("TKM-04", "merges the leftmost pair first", _merging(best_first(lambda rank, piece, at: at)), "merges",
          "merges.left_to_right", "words"),
    # Ranks do not say where they were merged: where they happen to be right, the ids are not.
    wrong("TKM-04/right", "merges the rightmost pair first", _merging(best_first(lambda rank, piece, at: -at)),
          "merges ids", "merges.right_to_left", "words"),
    wrong("TKM-04/longest_pair", "merges the pair with the longest result first",
          _merging(best_first(lambda rank, piece, at: -len(piece))), "merges", "merges.longest_first", "words"),
    wrong("TKM-05/rebuilt", "rebuilds merges from the ids", swap("merge", _any_pair), "merges",
          "merges.rebuilt merges.rank_by_id", "words"),
    wrong("TKB-12", "reads its files in the platform's character set", swap("merge", _of_other_platform), "merges ids",
          "merges.wrong_charset ids.wrong_charset", "unicode"),
    wrong("own/tokenizer-merge-rightmost", "merges the rightmost of equal ranks first",
          _merging(best_first(lambda rank, piece, at: (rank, -at))), "merges ids", "merges.rightmost ids.rightmost",
          "merges"),
    wrong("own/tokenizer-merge-unchecked", "merges places that have changed since", _merging(_unchecked_heap), "merges",
          "merges.stale", "words"),
    wrong("own/tokenizer-merge-dropout", "leaves dropout on", _merging(_dropout), "merges", "merges.dropout", "words"),
    wrong("own/tokenizer-whole-words", "looks up whole words first", swap("merge", _whole_words), "ids",
          "ids.whole_word", "merges"),
)  # fmt: skip
