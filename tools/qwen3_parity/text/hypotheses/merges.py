"""Wrong ways to merge the symbols of a pre-token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.merging import (
    Merged,
    Pair,
    Ranks,
    best_first,
    fewest,
    highest_in_rounds,
    initial_pairs_alone,
    left_to_right,
    longest_from_left,
    longest_from_right,
    once_each,
)
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH

Merge = Callable[[Oracle, str], Merged]


def _each(merge: Merge) -> Compute:
    """The merges of each pre-token; their pieces go on to the stage of ids."""
    known: dict[tuple[int, str], Merged] = {}

    def once(oracle: Oracle, symbols: str) -> Merged:
        key = id(oracle), symbols
        if key not in known:
            known[key] = merge(oracle, symbols)
        return known[key]

    def compute(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
        found = [once(oracle, symbols) for symbols in state["symbols"]]
        state["cut"] = tuple(pieces for pieces, _ in found)
        return tuple(ranks for _, ranks in found)

    return compute


def _ordered(order: Callable[[Oracle, int, Pair, int], Any]) -> Compute:
    """The table's pairs in another order."""
    return _each(
        lambda oracle, symbols: best_first(symbols, oracle.ranks.get, lambda r, pair, at: order(oracle, r, pair, at))
    )


def _lowest(symbols: str, ranks: Ranks) -> Merged:
    return best_first(symbols, ranks.get, lambda rank, pair, at: rank)


def _table(change: Callable[[list[Pair]], list[Pair]], *, told_as_in_the_file: bool = False) -> Compute:
    """Another table; ranks are told as its own, or as the right one's."""

    @cache
    def ranks(oracle: Oracle) -> Ranks:
        return {pair: rank for rank, pair in enumerate(change(list(oracle.reference.merges.pairs)))}

    def merge(oracle: Oracle, symbols: str) -> Merged:
        pieces, applied = _lowest(symbols, ranks(oracle))
        if told_as_in_the_file:
            pairs = {rank: pair for pair, rank in ranks(oracle).items()}
            applied = tuple(oracle.ranks[pairs[rank]] for rank in applied)
        return pieces, applied

    return _each(merge)


def _shifted(by: int) -> Compute:
    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        return tuple(tuple(rank + by for rank in ranks) for ranks in TRUTH["merges"](oracle, given, state))

    return compute


@cache
def _of_result(oracle: Oracle) -> Mapping[str, int]:
    return {piece: min(ranks) for piece, ranks in oracle.reference.merges.makers.items()}


def _any_pair(oracle: Oracle, symbols: str) -> Merged:
    known = _of_result(oracle)
    return best_first(symbols, lambda pair: known.get(pair[0] + pair[1]), lambda rank, pair, at: rank)


def _any_pair_by_id(oracle: Oracle, symbols: str) -> Merged:
    known, told = oracle.vocabulary, _of_result(oracle)
    pieces, ids = best_first(symbols, lambda pair: known.get(pair[0] + pair[1]), lambda number, pair, at: number)
    return pieces, tuple(told.get(oracle.pieces[number], number) for number in ids)


def _ids_for_ranks(oracle: Oracle, symbols: str) -> Merged:
    known = oracle.vocabulary
    return best_first(symbols, lambda pair: known.get(pair[0] + pair[1]), lambda number, pair, at: number)


@cache
def _longest(oracle: Oracle) -> int:
    return max(map(len, oracle.vocabulary), default=1)


def _from_vocabulary(match: Callable[[str, Mapping[str, int], int], tuple[str, ...]], *, merges_told: bool) -> Compute:
    def merge(oracle: Oracle, symbols: str) -> Merged:
        pieces = match(symbols, oracle.vocabulary, _longest(oracle))
        made = [piece for piece in pieces if oracle.cut(piece) == (piece,)]
        return pieces, tuple(oracle.reference.merges.applied(made)) if merges_told else ()

    return _each(merge)


def _whole_first(oracle: Oracle, symbols: str) -> Merged:
    return ((symbols,), ()) if symbols in oracle.vocabulary else _right(oracle, symbols)


def _right(oracle: Oracle, symbols: str) -> Merged:
    pieces = oracle.cut(symbols)
    return pieces, tuple(oracle.reference.merges.applied(pieces))


def _up_to(size: int) -> Compute:
    return _each(lambda oracle, symbols: (tuple(symbols), ()) if len(symbols) > size else _right(oracle, symbols))


def _ascii(pair: Pair) -> bool:
    return "".join(pair).isascii()


def _printable(pair: Pair) -> bool:
    return all(ord(one) < 0x100 for one in "".join(pair))


def _at_most(count: int) -> Compute:
    return _each(lambda oracle, symbols: _limited(oracle, symbols, count))


_READ = wrong_ways(
    "merges",
    "read every line of merges.txt but a first line #version as a pair, as UTF-8; its rank is its number from 0",
    [
        ("missing", "merges nothing: the table is empty, or pairs are not found", _each(lambda o, s: (tuple(s), ()))),
        ("header_counted", "counts the header of merges.txt: every rank is one more", _shifted(1)),
        ("ranks_off_by_one", "every rank is one less", _shifted(-1)),
        ("first_line_dropped", "drops the first merge as if it were a header", _table(lambda t: t[1:])),
        ("first_line_dropped", "drops the first merge", _table(lambda t: t[1:], told_as_in_the_file=True)),
        ("hash_lines_dropped", "drops the merges that begin with #",
            _table(lambda t: [p for p in t if p[0][0] != "#"])),
        ("hash_lines_dropped", "drops the merges that begin with #",
            _table(lambda t: [p for p in t if p[0][0] != "#"], told_as_in_the_file=True)),
        ("hash_lines_dropped", "drops the merges that hold a #",
            _table(lambda t: [p for p in t if "#" not in p[0] + p[1]])),
        ("truncated", "lacks the last line of merges.txt", _table(lambda t: t[:-1])),
        ("truncated", "reads half of the merges", _table(lambda t: t[: len(t) // 2])),
        ("truncated", "reads a quarter of the merges", _table(lambda t: t[: len(t) // 4])),
        ("truncated", "reads three quarters of the merges", _table(lambda t: t[: len(t) * 3 // 4])),
        ("wrong_charset", "reads the merges in another charset than UTF-8: only ASCII ones apply",
            _table(lambda t: [p for p in t if _ascii(p)], told_as_in_the_file=True)),
        ("wrong_charset", "drops the merges that are not ASCII", _table(lambda t: [p for p in t if _ascii(p)])),
        ("raw_bytes", "reads the pairs as raw bytes: only printable ones apply",
            _table(lambda t: [p for p in t if _printable(p)], told_as_in_the_file=True)),
        ("without_spaces", "lacks the merges that begin with a space (Ġ)",
            _table(lambda t: [p for p in t if "Ġ" not in p[0] + p[1]], told_as_in_the_file=True)),
        ("reversed_table", "numbers the merges from the end", _table(lambda t: t[::-1])),
        ("pairs_exchanged", "reads left and right of a pair exchanged",
            _table(lambda t: [(right, left) for left, right in t])),
    ],
)  # fmt: skip

_ORDER = wrong_ways(
    "merges",
    "merge the pair of the lowest rank, the leftmost of equals, then look at its new neighbours, until none can merge",
    [
        ("left_to_right", "merges the leftmost pair that can merge", _ordered(lambda o, rank, pair, at: at)),
        ("left_to_right", "merges from left to right, pass by pass", _each(lambda o, s: left_to_right(s, o.ranks))),
        ("right_to_left", "merges the rightmost pair that can merge", _ordered(lambda o, rank, pair, at: -at)),
        ("highest_first", "merges the highest rank first", _ordered(lambda o, rank, pair, at: -rank)),
        ("highest_first", "merges the highest rank first, everywhere at once",
            _each(lambda o, s: highest_in_rounds(s, o.ranks))),
        ("longest_first", "merges the pair with the longest result first",
            _ordered(lambda o, rank, pair, at: (-len(pair[0] + pair[1]), rank))),
        ("ranks_as_text", "compares ranks as text, 10 before 9", _ordered(lambda o, rank, pair, at: str(rank))),
        ("alphabetical", "merges in the order of the alphabet", _ordered(lambda o, rank, pair, at: pair)),
        ("longest_match", "takes the longest entry of the vocabulary from the left",
            _from_vocabulary(longest_from_left, merges_told=False)),
        ("longest_match", "takes the longest entry of the vocabulary from the left",
            _from_vocabulary(longest_from_left, merges_told=True)),
        ("longest_match_from_the_right", "takes the longest entry of the vocabulary from the right",
            _from_vocabulary(longest_from_right, merges_told=False)),
        ("fewest_pieces", "takes the fewest entries of the vocabulary", _from_vocabulary(fewest, merges_told=False)),
        ("rank_by_id", "ranks merges by the id of what they make",
            _ordered(lambda o, rank, pair, at: o.vocabulary["".join(pair)])),
        ("rebuilt", "rebuilds merges from ids: any two pieces merge that are one in the vocabulary",
            _each(_any_pair_by_id)),
        ("rebuilt", "rebuilds merges from ids, and tells them as ranks", _each(_ids_for_ranks)),
        ("joined_keys", "looks up the pair's concatenation: any two pieces merge that make a merge's result",
            _each(_any_pair)),
        ("rightmost", "merges the rightmost of equal ranks first", _ordered(lambda o, rank, pair, at: (rank, -at))),
        ("first_only", "merges a rank at its first place alone", _each(lambda o, s: once_each(s, o.ranks))),
        ("not_refreshed", "does not look up the new neighbours of a merged pair",
            _each(lambda o, s: initial_pairs_alone(s, o.ranks))),
        ("whole_word", "looks up whole words first (ignore_merges)", _each(_whole_first)),
        ("limited", "does not merge in long words (more than 32 bytes)", _up_to(32)),
        ("limited", "does not merge in long words (more than 64 bytes)", _up_to(64)),
        ("limited", "does not merge in long words (more than 128 bytes)", _up_to(128)),
        ("limited", "does not merge in long words (more than 256 bytes)", _up_to(256)),
        ("limited", "does not merge in long words (more than 1024 bytes)", _up_to(1024)),
        *(("limited", f"merges {n} times at most",
            _at_most(n)) for n in (1, 2, 3, 4, 5, 6, 8, 10, 16, 32)),
    ],
)  # fmt: skip


def _limited(oracle: Oracle, symbols: str, most: int) -> Merged:
    pieces, applied = list(symbols), list[int]()
    while len(applied) < most:
        able = [(oracle.ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in oracle.ranks]
        if not able:
            break
        rank, at = min(able)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
        applied.append(rank)
    return tuple(pieces), tuple(applied)


WRONG: list[Wrong] = [*_READ, *_ORDER]
"""Of the stage `merges`."""
