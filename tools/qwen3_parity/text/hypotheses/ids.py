"""Wrong ways to look up ids, and to put those of a text together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.merging import best_first, fewest, longest_from_left
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Ids, Oracle, State
from qwen3_parity.text.stages_of import TRUTH, replayed, woven

Lookup = Callable[[Oracle, Sequence[str], str], Sequence[int]]
"""From the pieces of a pre-token, and its symbols, to ids."""


def cuts(oracle: Oracle, state: State) -> list[tuple[str, ...]]:
    """The final pieces of each pre-token, as its merges tell."""
    pairs = zip(state["symbols"], state["merges"], strict=False)
    known = state.get("cut") or [replayed(oracle, symbols, ranks) for symbols, ranks in pairs]
    return [pieces or () for pieces in known]


def _each(look_up: Lookup) -> Compute:
    def compute(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
        pairs = zip(cuts(oracle, state), state["symbols"], strict=False)
        each = tuple(tuple(look_up(oracle, pieces, symbols)) for pieces, symbols in pairs)
        return Ids(each, woven(state, each))

    return compute


def _whole(change: Callable[[Oracle, tuple[int, ...]], Sequence[int]]) -> Compute:
    """The right ids of the text, changed as a whole."""

    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        right: Ids = TRUTH["ids"](oracle, given, state)
        return Ids(right.each, tuple(change(oracle, right.whole)))

    return compute


def _number(change: Callable[[Oracle, str, int], int | None]) -> Compute:
    """Each piece's id changed; None: left out."""

    def look_up(oracle: Oracle, pieces: Sequence[str], _: str) -> list[int]:
        new = [change(oracle, piece, oracle.vocabulary[piece]) for piece in pieces if piece in oracle.vocabulary]
        return [number for number in new if number is not None]

    return _each(look_up)


def _everywhere(change: Callable[[int], int]) -> Compute:
    """Every id changed, added tokens' too."""

    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        right: Ids = TRUTH["ids"](oracle, given, state)
        return Ids(tuple(tuple(map(change, ids)) for ids in right.each or ()), tuple(map(change, right.whole)))

    return compute


@cache
def _by_rank(oracle: Oracle) -> Mapping[str, int]:
    """256 bytes, then the merges in order."""
    single = sorted((piece for piece in oracle.vocabulary if len(piece) == 1), key=lambda one: oracle.vocabulary[one])
    results = dict.fromkeys("".join(pair) for pair in oracle.reference.merges.pairs)
    return {piece: number for number, piece in enumerate(dict.fromkeys([*single, *results]))}


@cache
def _last_rank(oracle: Oracle) -> Mapping[str, int]:
    return {"".join(pair): rank for rank, pair in enumerate(oracle.reference.merges.pairs)}


@cache
def _sorted(oracle: Oracle) -> Mapping[str, int]:
    return {piece: number for number, piece in enumerate(sorted(oracle.vocabulary))}


def _byte(oracle: Oracle, piece: str, number: int) -> int:
    if len(piece) > 1:
        return number
    return ord(piece) if ord(piece) < 256 else _unprintable(piece)


def _unprintable(symbol: str) -> int:
    """The byte of a symbol above U+00FF in GPT-2's map, whose symbols stand in the order of their bytes."""
    gaps = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    place = ord(symbol) - 0x100
    return gaps[place] if place < len(gaps) else place


def _token(role: str) -> Callable[[Oracle], int]:
    def find(oracle: Oracle) -> int:
        number = getattr(oracle.reference.tokenizer, f"{role}_token_id", None)
        if number is None:
            raise ValueError(f"the tokenizer has no {role} token")
        return int(number)

    return find


def _added(content: str) -> Callable[[Oracle], int]:
    return lambda oracle: next(int(one["id"]) for one in oracle.added if one["content"] == content)


def _beside(begin: Sequence[Callable[[Oracle], int]] = (), end: Sequence[Callable[[Oracle], int]] = ()) -> Compute:
    return _whole(lambda o, ids: [*(find(o) for find in begin), *ids, *(find(o) for find in end)])


def _misread(oracle: Oracle, pieces: Sequence[str], _: str) -> list[int]:
    """A vocabulary read in another charset has its ASCII pieces alone."""
    return [oracle.vocabulary[piece] for piece in pieces if piece.isascii() and piece in oracle.vocabulary]


def _rightmost(oracle: Oracle, _: Sequence[str], symbols: str) -> list[int]:
    pieces, _ranks = best_first(symbols, oracle.ranks.get, lambda rank, pair, at: (rank, -at))
    return [oracle.vocabulary[piece] for piece in pieces]


def _whole_word(oracle: Oracle, pieces: Sequence[str], symbols: str) -> list[int]:
    found = [symbols] if symbols in oracle.vocabulary else pieces
    return [oracle.vocabulary[piece] for piece in found]


def _from_left(oracle: Oracle, _: Sequence[str], symbols: str) -> list[int]:
    longest = max(map(len, oracle.vocabulary))
    return [oracle.vocabulary[piece] for piece in longest_from_left(symbols, oracle.vocabulary, longest)]


def _fewest(oracle: Oracle, _: Sequence[str], symbols: str) -> list[int]:
    longest = max(map(len, oracle.vocabulary))
    return [oracle.vocabulary[piece] for piece in fewest(symbols, oracle.vocabulary, longest)]


def _letters(oracle: Oracle, pieces: Sequence[str], symbols: str) -> list[int]:
    return [oracle.vocabulary[symbol] for symbol in symbols if symbol in oracle.vocabulary]


def _first(count: int) -> Compute:
    return _whole(lambda _, ids: ids[:count])


_PIECES = wrong_ways(
    "ids",
    "look each final piece up in the vocabulary; an id is neither a rank nor a byte",
    [
        ("by_rank", "numbers pieces by merges: 256 bytes, then ranks",
            _number(lambda o, piece, _: _by_rank(o).get(piece))),
        ("by_rank", "gives merge r the id 256 + r",
            _number(lambda o, piece, number: 256 + _last_rank(o).get(piece, number - 256))),
        ("bytes_by_value", "gives a byte's value as its id", _number(_byte)),
        ("renumbered", "numbers the vocabulary in alphabetical order", _number(lambda o, piece, _: _sorted(o)[piece])),
        ("shifted", "every id is one more", _everywhere(lambda number: number + 1)),
        ("shifted", "every id is one less", _everywhere(lambda number: number - 1)),
        ("shifted", "every piece's id is one more", _number(lambda o, piece, number: number + 1)),
        ("shifted", "every piece's id is one less", _number(lambda o, piece, number: number - 1)),
        ("behind_the_added", "numbers pieces behind the added tokens",
            _number(lambda o, piece, number: number + len(o.added))),
        ("sixteen_bits", "keeps 16 bits of an id", _everywhere(lambda number: number & 0xFFFF)),
        ("sixteen_bits", "keeps 15 bits of an id", _everywhere(lambda number: number & 0x7FFF)),
        ("wrong_charset", "reads the vocabulary in another charset than UTF-8: only ASCII pieces are found",
            _each(_misread)),
        ("whole_word", "looks up whole words first (ignore_merges)", _each(_whole_word)),
        ("longest_match", "takes the longest entry of the vocabulary from the left", _each(_from_left)),
        ("fewest_pieces", "takes the fewest entries of the vocabulary", _each(_fewest)),
        ("rightmost", "merges the rightmost of equal ranks first", _each(_rightmost)),
        ("of_symbols", "looks up the symbols, as if nothing had been merged", _each(_letters)),
        ("first_piece_only", "keeps the first piece of each pre-token",
            _each(lambda o, pieces, s: [o.vocabulary[p] for p in pieces[:1]])),
        ("last_piece_only", "keeps the last piece of each pre-token",
            _each(lambda o, pieces, s: [o.vocabulary[p] for p in pieces[-1:]])),
        ("long_dropped", "leaves out pieces of more than one symbol",
            _each(lambda o, pieces, s: [o.vocabulary[p] for p in pieces if len(p) == 1])),
        ("bytes_dropped", "leaves out pieces of one symbol",
            _each(lambda o, pieces, s: [o.vocabulary[p] for p in pieces if len(p) > 1])),
    ],
)  # fmt: skip

_WHOLE = wrong_ways(
    "ids",
    "put nothing in front, between or behind: the ids are those of the segments in order, all of them",
    [
        *(
            (f"{what}_added", f"adds the token {name} {where}", compute)
            for name, find in (
                ("that begins a text", _token("bos")), ("that ends a turn (eos)", _token("eos")),
                ("that pads", _token("pad")), ("<|endoftext|>", _added("<|endoftext|>")),
                ("<|im_start|>", _added("<|im_start|>")), ("<|im_end|>", _added("<|im_end|>")),
            )
            for what, where, compute in (
                ("bos", "in front", _beside(begin=[find])), ("eos", "behind", _beside(end=[find])),
                ("bos_and_eos", "in front and behind", _beside([find], [find])),
            )
        ),
        ("bos_and_eos_added", "adds <|im_start|> in front and <|im_end|> behind",
            _beside([_added("<|im_start|>")], [_added("<|im_end|>")])),
        ("bos_and_eos_added", "adds <|endoftext|> in front and the eos token behind",
            _beside([_added("<|endoftext|>")], [_token("eos")])),
        ("added_dropped", "leaves out added tokens",
            _whole(lambda o, ids: [n for n in ids if n not in o.reference.added])),
        ("special_dropped", "leaves out special tokens",
            _whole(lambda o, ids: [n for n in ids if n not in o.reference.special])),
        ("added_last", "puts added tokens behind everything else",
            _whole(lambda o, ids: sorted(ids, key=lambda n: n in o.reference.added))),
        ("repeats_dropped", "leaves out an id that stands twice in a row",
            _whole(lambda o, ids: [*ids[:1], *(b for a, b in pairwise(ids) if a != b)])),
        ("reversed", "gives the ids in reverse", _whole(lambda o, ids: ids[::-1])),
        ("last_missing", "loses the last id", _whole(lambda o, ids: ids[:-1])),
        ("first_missing", "loses the first id", _whole(lambda o, ids: ids[1:])),
        *(("truncated", f"ends after {n} ids",
            _first(n)) for n in (64, 128, 256, 512, 1024, 2048)),
    ],
)  # fmt: skip

WRONG: list[Wrong] = [*_PIECES, *_WHOLE]
"""Of the stage `ids`."""
