"""The stage `merges`: which pairs of a pre-token were merged. Its value: the ranks applied in each pre-token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text import bpe
from qwen3_parity.text.bpe import Merged, Pair, Ranks, best_first
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, wrong_ways
from qwen3_parity.text.stages.pre_tokens import pre_tokens
from qwen3_parity.text.view import View, Views, printable

Merge = Callable[[Oracle, str], Merged]


def _truth(oracle: Oracle, symbols: str) -> Merged:
    pieces = oracle.cut(symbols)
    return pieces, tuple(oracle.reference.merges.applied(pieces))


def _each(merge: Merge) -> Compute:
    """The merges of each pre-token; their pieces go on to the stage of ids."""
    once = cache(merge)

    def compute(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
        merged = [once(oracle, symbols) for symbols in state["symbols"]]
        state["cut"] = tuple(pieces for pieces, _ in merged)
        return tuple(ranks for _, ranks in merged)

    return compute


def _views(message: pb.Encoding) -> Views:
    ranks: list[int | None] = []  # None: a pre-token begins
    begun: dict[int, str] = {}
    places: list[int] = []
    for place, _, piece in pre_tokens(message):
        begun[len(ranks)] = piece.symbols
        ranks += [None, *piece.merge]
        places += [place + piece.begin] * (len(piece.merge) + 1)

    def show(at: int) -> str:
        return f"| {printable(begun[at])[:24]}:" if at in begun else str(ranks[at])

    return {"ranks of merges": View(ranks, show, " ", places)}


def replayed(oracle: Oracle, symbols: str, ranks: Sequence[int]) -> tuple[str, ...] | None:
    """The pieces after these merges, each at the leftmost place that has its pair; None where it has none."""
    pieces, table = [symbol for symbol in symbols if symbol in oracle.vocabulary], oracle.reference.merges.pairs
    at = 0
    for number, rank in enumerate(ranks):
        pair = tuple(table[rank]) if 0 <= rank < len(table) else ()
        at = at if number and ranks[number - 1] == rank else 0
        while at + 1 < len(pieces) and (pieces[at], pieces[at + 1]) != pair:
            at += 1
        if at + 1 >= len(pieces):
            return None
        pieces[at : at + 2] = ["".join(pair)]
    return tuple(pieces)


def _table(change: Callable[[list[Pair]], list[Pair]], *, old_numbers: bool = False) -> Merge:
    """Another table; ranks are its own, or the numbers that its pairs have in the right one."""

    @cache
    def ranks(oracle: Oracle) -> tuple[Ranks, Sequence[Pair]]:
        pairs = change(list(oracle.reference.merges.pairs))
        return {pair: rank for rank, pair in enumerate(pairs)}, pairs

    def merge(oracle: Oracle, symbols: str) -> Merged:
        table, pairs = ranks(oracle)
        pieces, applied = best_first(symbols, table.get, lambda rank, pair, at: rank)
        return pieces, tuple(oracle.ranks[pairs[rank]] for rank in applied) if old_numbers else applied

    return merge


def _filtered(keep: Callable[[str, str], bool], *, old_numbers: bool = False) -> Merge:
    return _table(lambda pairs: [pair for pair in pairs if keep(*pair)], old_numbers=old_numbers)


def _part(count: Callable[[int], int]) -> Merge:
    return _table(lambda pairs: pairs[: count(len(pairs))])


def _shifted(by: int) -> Merge:
    def merge(oracle: Oracle, symbols: str) -> Merged:
        pieces, ranks = _truth(oracle, symbols)
        return pieces, tuple(rank + by for rank in ranks)

    return merge


_READ = wrong_ways("merges", _each,
    "read every line of merges.txt but a first line #version as a pair, as UTF-8; its rank is its number from 0", [
    ("missing", "merges nothing: the table is empty, or pairs are not found", lambda o, s: (tuple(s), ())),
    ("header_counted", "counts the header of merges.txt: every rank is one more", _shifted(1)),
    ("ranks_off_by_one", "every rank is one less", _shifted(-1)),
    ("first_line_dropped", "drops the first merge as if it were a header", _table(lambda t: t[1:])),
    ("first_line_dropped", "drops the first merge", _table(lambda t: t[1:], old_numbers=True)),
    ("hash_lines_dropped", "drops the merges that begin with #", _filtered(lambda a, b: a[0] != "#"),
        _filtered(lambda a, b: a[0] != "#", old_numbers=True)),
    ("hash_lines_dropped", "drops the merges that hold a #", _filtered(lambda a, b: "#" not in a + b)),
    ("truncated", "lacks the last line of merges.txt", _part(lambda n: n - 1)),
    ("truncated", "reads half of the merges", _part(lambda n: n // 2)),
    ("truncated", "reads a quarter of the merges", _part(lambda n: n // 4)),
    ("truncated", "reads three quarters of the merges", _part(lambda n: n * 3 // 4)),
    ("wrong_charset", "reads the merges in another charset than UTF-8: only ASCII ones apply",
        _filtered(lambda a, b: (a + b).isascii(), old_numbers=True)),
    ("wrong_charset", "drops the merges that are not ASCII", _filtered(lambda a, b: (a + b).isascii())),
    ("raw_bytes", "reads the pairs as raw bytes: only printable ones apply",
        _filtered(lambda a, b: max(a + b) < "\u0100", old_numbers=True)),
    ("without_spaces", "lacks the merges with a space (Ġ)", _filtered(lambda a, b: "Ġ" not in a + b, old_numbers=True)),
    ("reversed_table", "numbers the merges from the end", _table(lambda t: t[::-1])),
    ("pairs_exchanged", "reads left and right of a pair exchanged", _table(lambda t: [(b, a) for a, b in t])),
])  # fmt: skip


def _ordered(order: Callable[[Oracle, int, Pair, int], Any]) -> Merge:
    """The table's pairs in another order."""
    return lambda o, symbols: best_first(symbols, o.ranks.get, lambda rank, pair, at: order(o, rank, pair, at))


def _by_result(numbers: Callable[[Oracle], Mapping[str, int]]) -> Merge:
    """Any two pieces merge whose concatenation has a number, the lowest first."""
    return lambda o, symbols: best_first(symbols, lambda p: numbers(o).get(p[0] + p[1]), lambda rank, pair, at: rank)


@cache
def _of_result(oracle: Oracle) -> Mapping[str, int]:
    return {piece: min(ranks) for piece, ranks in oracle.reference.merges.makers.items()}


def _ids_as_ranks(oracle: Oracle, symbols: str) -> Merged:
    pieces, ids = _by_result(lambda o: o.vocabulary)(oracle, symbols)
    return pieces, tuple(_of_result(oracle).get(oracle.pieces[number], number) for number in ids)


Match = Callable[[str, Mapping[str, int], int], tuple[str, ...]]


@cache
def longest_entry(oracle: Oracle) -> int:
    """The length of the longest entry of the vocabulary."""
    return max(map(len, oracle.vocabulary), default=1)


def _matched(match: Match, *, with_ranks: bool = False) -> Merge:
    """Entries of the vocabulary, with the merges that make them or without any."""

    def merge(oracle: Oracle, symbols: str) -> Merged:
        pieces = match(symbols, oracle.vocabulary, longest_entry(oracle))
        reached = [piece for piece in pieces if oracle.cut(piece) == (piece,)]
        return pieces, tuple(oracle.reference.merges.applied(reached)) if with_ranks else ()

    return merge


def _by_ranks(merge: Callable[[str, Ranks], Merged]) -> Merge:
    return lambda oracle, symbols: merge(symbols, oracle.ranks)


def _up_to(size: int) -> Merge:
    return lambda o, symbols: (tuple(symbols), ()) if len(symbols) > size else _truth(o, symbols)


def _most(count: int) -> Merge:
    return lambda oracle, symbols: bpe.at_most(symbols, oracle.ranks, count)


_ORDER = wrong_ways("merges", _each,
    "merge the pair of the lowest rank, the leftmost of equals, then look at new neighbours, until none can merge", [
    ("left_to_right", "merges the leftmost pair that can merge", _ordered(lambda o, rank, pair, at: at)),
    ("left_to_right", "merges from left to right, pass by pass", _by_ranks(bpe.left_to_right)),
    ("right_to_left", "merges the rightmost pair that can merge", _ordered(lambda o, rank, pair, at: -at)),
    ("highest_first", "merges the highest rank first", _ordered(lambda o, rank, pair, at: -rank)),
    ("highest_first", "merges the highest rank first, everywhere at once", _by_ranks(bpe.highest_in_rounds)),
    ("longest_first", "merges the pair with the longest result first",
        _ordered(lambda o, rank, pair, at: (-len(pair[0] + pair[1]), rank))),
    ("ranks_as_text", "compares ranks as text, 10 before 9", _ordered(lambda o, rank, pair, at: str(rank))),
    ("alphabetical", "merges in the order of the alphabet", _ordered(lambda o, rank, pair, at: pair)),
    ("longest_match", "takes the longest entry of the vocabulary from the left",
        _matched(bpe.longest_from_left), _matched(bpe.longest_from_left, with_ranks=True)),
    ("longest_match_from_the_right", "takes the longest entry from the right", _matched(bpe.longest_from_right)),
    ("fewest_pieces", "takes the fewest entries of the vocabulary", _matched(bpe.fewest)),
    ("rank_by_id", "ranks merges by their results' ids", _ordered(lambda o, _, pair, at: o.vocabulary["".join(pair)])),
    ("rebuilt", "rebuilds merges from ids: any two pieces merge that are one in the vocabulary", _ids_as_ranks),
    ("rebuilt", "rebuilds merges from ids, and gives ids for ranks", _by_result(lambda o: o.vocabulary)),
    ("joined_keys", "looks up what a pair joins to: any two pieces merge that make a result", _by_result(_of_result)),
    ("rightmost", "merges the rightmost of equal ranks first", _ordered(lambda o, rank, pair, at: (rank, -at))),
    ("first_only", "merges a rank at its first place alone", _by_ranks(bpe.once_each)),
    ("not_refreshed", "does not look up the new neighbours of a merged pair", _by_ranks(bpe.initial_pairs_alone)),
    ("whole_word", "looks up whole words first (ignore_merges)",
        lambda o, symbols: ((symbols,), ()) if symbols in o.vocabulary else _truth(o, symbols)),
    *(("limited", f"does not merge in long words (more than {n} bytes)", _up_to(n)) for n in (32, 64, 128, 256, 1024)),
    *(("limited", f"merges {n} times at most", _most(n)) for n in (1, 2, 3, 4, 5, 6, 8, 10, 16, 32)),
])  # fmt: skip

STAGE = Stage(
    _each(_truth),
    lambda message: tuple(tuple(piece.merge) for _, _, piece in pre_tokens(message)),
    _views,
    [*_READ, *_ORDER],
    holds=any,
)
