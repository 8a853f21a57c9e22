"""The merges that Hugging Face applied, found by asking it, against the definition of BPE written out here."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from tokenizers.models import BPE

from qwen3_golden import ParityError
from qwen3_reference.tokenization.merges import merge_table

Pairs = list[tuple[str, str]]


def lowest_rank_first(symbols: str, pairs: Pairs) -> tuple[list[str], list[int]]:
    """Pieces and applied ranks: the lowest rank anywhere, its leftmost place, one place at a time."""
    pieces, applied = list(symbols), []
    while True:
        ranks = {i: pairs.index(pair) for i, pair in enumerate(pairwise(pieces)) if pair in pairs}
        if not ranks:
            return pieces, applied
        place = min(ranks, key=lambda i: (ranks[i], i))
        applied.append(ranks[place])
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]


def random_pairs(draw: Random) -> Pairs:
    """Merges over a few letters, each of parts that are there already; no two of them make the same piece."""
    pieces, pairs = list("abcd")[: draw.randrange(1, 5)], Pairs()
    for _ in range(draw.randrange(1, 40)):
        pair = draw.choice(pieces), draw.choice(pieces)
        if "".join(pair) not in pieces and len("".join(pair)) < 12:
            pairs.append(pair)
            pieces.append("".join(pair))
    return pairs


def hugging_face(symbols: str, pairs: Pairs) -> list[str]:
    entries = dict.fromkeys([*"abcd", *(part for pair in pairs for part in (*pair, "".join(pair)))])
    return [token.value for token in BPE({entry: i for i, entry in enumerate(entries)}, pairs).tokenize(symbols)]


@pytest.mark.parametrize("seed", range(60))
def test_the_ranks_are_those_of_the_lowest_rank_loop(seed: int) -> None:
    draw = Random(seed)
    pairs = random_pairs(draw)
    table = merge_table("random", pairs)
    letters = sorted({letter for pair in pairs for part in pair for letter in part} or {"a"})
    for _ in range(10):
        text = "".join(draw.choices(letters, k=draw.randrange(1, 40)))
        pieces, applied = lowest_rank_first(text, pairs)
        assert hugging_face(text, pairs) == pieces, (seed, text)
        assert table.applied(pieces) == applied, (seed, text)


def test_a_rank_stands_once_for_every_place() -> None:
    table = merge_table("here", [("a", "b"), ("ab", "ab"), ("abab", "ab")])
    assert table.applied(["ababab"]) == [0, 0, 0, 1, 2]


def test_overlapping_places_are_counted_once() -> None:
    assert merge_table("here", [("a", "a"), ("aa", "a")]).applied(["aaa"]) == [0, 1]


def test_two_ways_to_one_piece_are_told_apart() -> None:
    pairs = [("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")]
    assert merge_table("here", pairs).applied(["abc"]) == [0, 2] == lowest_rank_first("abc", pairs)[1]


def test_a_merge_before_the_makers_of_its_parts_is_refused() -> None:
    with pytest.raises(ParityError, match=r"merge 0, ab \+ c, stands before.*\n.*\n.*merge 1, a \+ b"):
        merge_table("here", [("ab", "c"), ("a", "b")])


def test_a_second_late_maker_of_a_part_is_refused() -> None:
    with pytest.raises(ParityError, match="merge 2"):
        merge_table("here", [("a", "b"), ("b", "c"), ("ab", "cd"), ("c", "d")])


def test_what_is_no_piece_is_a_harness_bug() -> None:
    with pytest.raises(ParityError, match="harness bug"):
        merge_table("here", [("a", "b")]).applied(["aba"])
