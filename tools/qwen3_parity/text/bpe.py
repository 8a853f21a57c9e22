"""Byte-pair encoding by any order of merges: what mistakes of merging are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

Pair = tuple[str, str]
Ranks = Mapping[Pair, int]
Merged = tuple[tuple[str, ...], tuple[int, ...]]
"""The final pieces and the ranks applied, in order."""


def best_first(
    symbols: Sequence[str], rank: Callable[[Pair], int | None], order: Callable[[int, Pair, int], Any]
) -> Merged:
    """Merge the pair with the smallest `order(rank, pair, place)` while there is one; `rank` None: never."""
    pieces: list[str | None] = list(symbols)
    before, behind = list(range(-1, len(pieces) - 1)), list(range(1, len(pieces) + 1))
    queue: list[tuple[Any, int, Pair, int]] = []

    def entries(at: int) -> list[tuple[Any, int, Pair, int]]:
        following = behind[at] if at >= 0 else len(pieces)
        if following >= len(pieces):
            return []
        pair = str(pieces[at]), str(pieces[following])
        number = rank(pair)
        return [] if number is None else [(order(number, pair, at), at, pair, number)]

    queue += [entry for at in range(len(pieces)) for entry in entries(at)]
    heapify(queue)
    applied: list[int] = []
    while queue:
        _, at, pair, number = heappop(queue)
        following = behind[at]
        if pieces[at] != pair[0] or following >= len(pieces) or pieces[following] != pair[1]:
            continue
        pieces[at], pieces[following] = pair[0] + pair[1], None
        behind[at] = behind[following]
        if behind[at] < len(pieces):
            before[behind[at]] = at
        applied.append(number)
        for entry in (*entries(before[at]), *entries(at)):
            heappush(queue, entry)
    return tuple(piece for piece in pieces if piece is not None), tuple(applied)


def _pass(pieces: Sequence[str], ranks: Ranks, rank: int, most: int) -> tuple[list[str], list[int]]:
    """One pass from left to right that merges a rank at `most` places."""
    out, applied = list[str](), list[int]()
    fresh = False  # whether the last piece was merged in this pass
    for piece in pieces:
        fresh = bool(out) and not fresh and len(applied) < most and ranks.get((out[-1], piece)) == rank
        if fresh:
            out[-1] += piece
            applied.append(rank)
        else:
            out.append(piece)
    return out, applied


def once_each(symbols: Sequence[str], ranks: Ranks) -> Merged:
    """Each rank has one turn, at its first place alone."""
    pieces, applied = list(symbols), list[int]()
    while able := {ranks[pair] for pair in pairwise(pieces) if pair in ranks} - set(applied):
        pieces, new = _pass(pieces, ranks, min(able), 1)
        applied += new
    return tuple(pieces), tuple(applied)


def initial_pairs_alone(symbols: Sequence[str], ranks: Ranks) -> Merged:
    """Only pairs of the beginning are ever looked up; what merging brings together is not."""
    pieces, applied = list(symbols), list[int]()
    for rank in sorted({ranks[pair] for pair in pairwise(pieces) if pair in ranks}):
        pieces, new = _pass(pieces, ranks, rank, len(pieces))
        applied += new
    return tuple(pieces), tuple(applied)


def highest_in_rounds(symbols: Sequence[str], ranks: Ranks) -> Merged:
    """The highest rank first, at all its places at once."""
    pieces, applied = list(symbols), list[int]()
    while able := [ranks[pair] for pair in pairwise(pieces) if pair in ranks]:
        pieces, new = _pass(pieces, ranks, max(able), len(pieces))
        applied += new
    return tuple(pieces), tuple(applied)


def left_to_right(symbols: Sequence[str], ranks: Ranks) -> Merged:
    """Each symbol joins what stands before it where that is a merge, passes over the word until none does."""
    pieces, applied = list(symbols), list[int]()
    while True:
        out: list[str] = []
        for piece in pieces:
            if out and (out[-1], piece) in ranks:
                applied.append(ranks[out[-1], piece])
                out[-1] += piece
            else:
                out.append(piece)
        if len(out) == len(pieces):
            return tuple(out), tuple(applied)
        pieces = out


def at_most(symbols: Sequence[str], ranks: Ranks, most: int) -> Merged:
    """The right order, but so many merges at most."""
    pieces, applied = list(symbols), list[int]()
    while len(applied) < most:
        able = [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]
        if not able:
            break
        rank, at = min(able)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
        applied.append(rank)
    return tuple(pieces), tuple(applied)


def longest_from_left(symbols: str, vocabulary: Mapping[str, int], longest: int) -> tuple[str, ...]:
    """The longest entry that begins here, again and again; a symbol that is none stands alone."""
    pieces, at = list[str](), 0
    while at < len(symbols):
        ends = range(min(at + longest, len(symbols)), at, -1)
        end = next((end for end in ends if symbols[at:end] in vocabulary), at + 1)
        pieces.append(symbols[at:end])
        at = end
    return tuple(pieces)


def longest_from_right(symbols: str, vocabulary: Mapping[str, int], longest: int) -> tuple[str, ...]:
    """The same from the end."""
    mirrored = {piece[::-1]: number for piece, number in vocabulary.items()}
    return tuple(piece[::-1] for piece in reversed(longest_from_left(symbols[::-1], mirrored, longest)))


def fewest(symbols: str, vocabulary: Mapping[str, int], longest: int) -> tuple[str, ...]:
    """The fewest entries that spell the word, of equals the one that ends in the longest."""
    best: list[tuple[int, int]] = [(0, 0)]
    for end in range(1, len(symbols) + 1):
        begins = range(max(0, end - longest), end)
        able = [(best[begin][0] + 1, begin) for begin in begins if symbols[begin:end] in vocabulary]
        best.append(min(able, default=(best[end - 1][0] + 1, end - 1)))
    pieces, end = list[str](), len(symbols)
    while end:
        pieces.append(symbols[best[end][1] : end])
        end = best[end][1]
    return tuple(reversed(pieces))
