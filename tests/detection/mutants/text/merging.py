"""Ways to merge that are wrong, over symbols and ranks; each gives pieces and the ranks it applied, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from detection.mutants.text.seeds import Seed, made
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Ranks = Mapping[tuple[str, str], int]
Merged = tuple[list[str], list[int]]
Merge = Callable[[str, Ranks], Merged]


def merging(merge: Merge, ranks: Callable[[ByteLevelTokenizer], Ranks] | None = None) -> Seed:
    """Merge in another way, or by other ranks than those of the file."""
    make = ranks or of_file

    def seed(tokenizer: ByteLevelTokenizer) -> Callable[[str], Merged]:
        table = make(tokenizer)
        return lambda symbols: merge(symbols, table)

    return made("merge", seed)


def of_file(tokenizer: ByteLevelTokenizer) -> Ranks:
    """The ranks as they are."""
    return {pair: rank for rank, pair in enumerate(tokenizer.files.merges)}


def best_first(order: Callable[[int, str, int], Any]) -> Merge:
    """The pair with the smallest `order(rank, its result, its place)` first, until no pair is left."""

    def merge(symbols: str, ranks: Ranks) -> Merged:
        pieces, applied = list(symbols), list[int]()
        while True:
            able = [
                (order(rank, left + right, at), at, rank)
                for at, (left, right) in enumerate(pairwise(pieces))
                if (rank := ranks.get((left, right))) is not None
            ]
            if not able:
                return pieces, applied
            _, at, rank = min(able)
            pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
            applied.append(rank)

    return merge


def rounds(
    pick: Callable[[Sequence[int]], int] = min,
    again: bool = True,
    once: bool = False,
    right: bool = False,
    limit: int = 0,
) -> Merge:
    """Each round merges the picked rank everywhere, or `once`, from the left or `right`; then others, or it `again`."""

    def merge(symbols: str, ranks: Ranks) -> Merged:
        pieces, applied, done = list(symbols), list[int](), set[int]()
        while True:
            pairs = pairwise(pieces)
            able = [rank for pair in pairs if (rank := ranks.get(pair)) is not None and rank not in done]
            if not able or (limit and len(applied) >= limit):
                return pieces, applied
            best = pick(able)
            pieces, count = (_from_right if right else _everywhere)(pieces, ranks, best, 1 if once else len(pieces))
            applied += [best] * count
            if not again:
                done.add(best)

    return merge


def _everywhere(pieces: list[str], ranks: Ranks, best: int, most: int) -> tuple[list[str], int]:
    out: list[str] = []
    at = count = 0
    while at < len(pieces):
        if count < most and at + 1 < len(pieces) and ranks.get((pieces[at], pieces[at + 1])) == best:
            out.append(pieces[at] + pieces[at + 1])
            at, count = at + 2, count + 1
        else:
            out.append(pieces[at])
            at += 1
    return out, count


def _from_right(pieces: list[str], ranks: Ranks, best: int, most: int) -> tuple[list[str], int]:
    out: list[str] = []
    at, count = len(pieces) - 1, 0
    while at >= 0:
        if count < most and at and ranks.get((pieces[at - 1], pieces[at])) == best:
            out.append(pieces[at - 1] + pieces[at])
            at, count = at - 2, count + 1
        else:
            out.append(pieces[at])
            at -= 1
    return out[::-1], count


lowest = rounds()
"""The right way, slowly."""


def first_ranks_alone(symbols: str, ranks: Ranks) -> Merged:
    """Ranks are looked up once, between bytes; what merging brings together is never looked at."""
    pieces, applied = list(symbols), list[int]()
    for best in sorted({rank for pair in pairwise(pieces) if (rank := ranks.get(pair)) is not None}):
        pieces, count = _everywhere(pieces, ranks, best, len(pieces))
        applied += [best] * count
    return pieces, applied


def unchecked_heap(symbols: str, ranks: Ranks) -> Merged:
    """Lowest rank first; a place whose pieces have changed since is merged all the same, if that makes a piece."""
    known = {left + right for left, right in ranks}
    pieces: list[str | None] = list(symbols)
    waiting = sorted((rank, at) for at, pair in enumerate(pairwise(symbols)) if (rank := ranks.get(pair)) is not None)
    applied: list[int] = []
    while waiting:
        rank, at = waiting.pop(0)
        right = next((other for other in range(at + 1, len(pieces)) if pieces[other] is not None), None)
        left_piece, right_piece = pieces[at], pieces[right] if right is not None else None
        if right is None or left_piece is None or right_piece is None or left_piece + right_piece not in known:
            continue
        pieces[at], pieces[right] = left_piece + right_piece, None
        applied.append(rank)
        left = next((other for other in reversed(range(at)) if pieces[other] is not None), None)
        behind = next((other for other in range(right + 1, len(pieces)) if pieces[other] is not None), None)
        for first, second in ((left, at), (at, behind)):
            if first is not None and second is not None:
                new = ranks.get((str(pieces[first]), str(pieces[second])))
                waiting += [(new, first)] if new is not None else []
        waiting.sort()
    return [one for one in pieces if one is not None], applied


def longest_match(vocabulary: Mapping[str, int]) -> Callable[[str], Merged]:
    """The longest entry of the vocabulary from the left; no merges."""
    longest = max(map(len, vocabulary))

    def merge(symbols: str) -> Merged:
        pieces: list[str] = []
        at = 0
        while at < len(symbols):
            sizes = range(min(longest, len(symbols) - at), 0, -1)
            size = next(size for size in sizes if symbols[at : at + size] in vocabulary)
            pieces.append(symbols[at : at + size])
            at += size
        return pieces, []

    return merge


def dropout(symbols: str, ranks: Ranks) -> Merged:
    """Each merge of each pre-token is left out one time in ten."""
    draw = Random(len(symbols))
    return lowest(symbols, {pair: rank for pair, rank in _present(symbols, ranks).items() if draw.random() > 0.1})


def _present(symbols: str, ranks: Ranks) -> Ranks:
    """The pairs that may come to stand in the symbols."""
    return {(left, right): rank for (left, right), rank in ranks.items() if left + right in symbols}
