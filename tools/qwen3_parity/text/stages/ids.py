"""The stage `ids`: the final pieces looked up, and put together. Its value: `Ids`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from qwen3_golden import pb
from qwen3_parity.text.bpe import best_first, fewest, longest_from_left
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.stages.merges import Match, longest_entry, replayed
from qwen3_parity.text.stages.pre_tokens import pre_tokens
from qwen3_parity.text.view import View, Views, escaped, printable, shortened

EACH = "ids of each pre-token"
"""Compared where pre-tokens are delivered at all."""


class Ids(NamedTuple):
    """Ids of each pre-token (None: not delivered), and of the whole text."""

    each: tuple[tuple[int, ...], ...] | None
    whole: tuple[int, ...]


def _woven(state: State, each: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The ids of the whole text: added tokens and pre-tokens in the order of the segments."""
    whole: list[int] = []
    counts = iter([len(pieces) for pieces in state["pre_tokens"]])
    rest = iter(each)
    for _, _, added in state["segments"]:
        whole += [added] if added is not None else [n for _ in range(next(counts, 0)) for n in next(rest, ())]
    return tuple(whole)


Look = Callable[[Oracle, Sequence[str], str], Sequence[int]]
"""From the pieces of a pre-token, and its symbols, to ids."""


def _each(look_up: Look) -> Compute:
    """Each pre-token's final pieces, as its merges have them, looked up."""

    def compute(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
        pairs = zip(state["symbols"], state["merges"], strict=False)
        cuts = state.get("cut") or [replayed(oracle, symbols, ranks) for symbols, ranks in pairs]
        ids = (look_up(oracle, pieces or (), symbols) for pieces, symbols in zip(cuts, state["symbols"], strict=False))
        each = tuple(map(tuple, ids))
        return Ids(each, _woven(state, each))

    return compute


def _known(oracle: Oracle, pieces: Sequence[str], _: str = "") -> list[int]:
    return [oracle.vocabulary[piece] for piece in pieces if piece in oracle.vocabulary]


_truth = _each(_known)


def _views(message: pb.Encoding) -> Views:
    text, ids = message.text, list(message.id)
    spans = [(offset.begin, offset.end) for offset in message.offset]
    rows = [(piece.symbols, tuple(piece.id), place + piece.begin) for place, _, piece in pre_tokens(message)]

    def show(at: int) -> str:
        if len(spans) != len(ids):
            return str(ids[at])
        begin, end = spans[at]
        return f"{ids[at]} '{shortened(escaped(text[begin:end]))}'"

    def show_each(at: int) -> str:
        return f"{printable(rows[at][0])[:24]}: {' '.join(map(str, rows[at][1]))}"

    return {
        "ids": View(ids, show, places=[begin for begin, _ in spans]),
        EACH: View(
            [numbers for _, numbers, _ in rows],
            show_each,
            places=[place for _, _, place in rows],
        ),
    }


def _allowed(oracle: Oracle, _: Any, actual: Ids, expected: Ids, state: State) -> bool:
    """Where merges are wrong, ranks do not say the pieces: ids are right that follow from some places."""
    if actual.each is None or "cut" in state or actual.whole != _woven(state, actual.each):
        return False
    rows = zip(actual.each, expected.each or (), state["symbols"], state["merges"], strict=False)
    for ids, expected_ids, symbols, ranks in rows:
        if ids != expected_ids and tuple(oracle.reference.merges.applied(oracle.cut(symbols))) == ranks:
            return False
    return _follow(oracle, actual.each, expected.each or (), state)


def _follow(oracle: Oracle, actual: Sequence[tuple[int, ...]], expected: Sequence[Any], state: State) -> bool:
    """Whether each pre-token's ids spell its symbols in as many pieces as its merges leave."""
    if len(actual) != len(state["symbols"]):
        return False
    for ids, expected_ids, symbols, ranks in zip(actual, expected, state["symbols"], state["merges"], strict=False):
        known = [symbol for symbol in symbols if symbol in oracle.vocabulary]
        pieces = [oracle.pieces.get(number, "") for number in ids]
        if ids != expected_ids and ("".join(pieces) != "".join(known) or len(pieces) != len(known) - len(ranks)):
            return False
    return True


def follow_from_merges(oracle: Oracle, actual: Ids, expected: Ids, state: State) -> bool:
    """Whether wrong ids may only be those of merges at other places, which ranks alone do not say."""
    if actual.each is None or actual.whole != _woven(state, actual.each):
        return False
    return _follow(oracle, actual.each, expected.each or (), state)


@cache
def _last_rank(oracle: Oracle) -> Mapping[str, int]:
    return {"".join(pair): rank for rank, pair in enumerate(oracle.reference.merges.pairs)}


@cache
def _by_rank(oracle: Oracle) -> Mapping[str, int]:
    """256 bytes, then the merges in order."""
    single = sorted((piece for piece in oracle.vocabulary if len(piece) == 1), key=lambda p: oracle.vocabulary[p])
    return {piece: number for number, piece in enumerate(dict.fromkeys([*single, *_last_rank(oracle)]))}


@cache
def _sorted(oracle: Oracle) -> Mapping[str, int]:
    return {piece: number for number, piece in enumerate(sorted(oracle.vocabulary))}


def _byte(piece: str, number: int) -> int:
    """A symbol's byte; those above U+00FF stand in GPT-2's map in the order of their bytes."""
    gaps = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    place = ord(piece[0]) - 0x100
    return number if len(piece) > 1 else ord(piece) if place < 0 else gaps[place] if place < len(gaps) else place


def _numbered(change: Callable[[Oracle, str, int], int | None]) -> Compute:
    """Each piece's id changed; None: left out."""

    def look_up(oracle: Oracle, pieces: Sequence[str], _: str) -> list[int]:
        new = [change(oracle, piece, oracle.vocabulary[piece]) for piece in pieces if piece in oracle.vocabulary]
        return [number for number in new if number is not None]

    return _each(look_up)


def _matched(match: Match) -> Compute:
    return _each(lambda o, _, symbols: [o.vocabulary[p] for p in match(symbols, o.vocabulary, longest_entry(o))])


def _rightmost(oracle: Oracle, _: Sequence[str], symbols: str) -> list[int]:
    pieces, _ranks = best_first(symbols, oracle.ranks.get, lambda rank, pair, at: (rank, -at))
    return [oracle.vocabulary[piece] for piece in pieces]


def _of_some(choose: Callable[[Sequence[str]], Sequence[str]]) -> Compute:
    return _each(lambda oracle, pieces, _: [oracle.vocabulary[piece] for piece in choose(pieces)])


def _everywhere(change: Callable[[int], int]) -> Compute:
    """Every id changed, added tokens' too."""

    def compute(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
        truth: Ids = _truth(oracle, message, state)
        return Ids(tuple(tuple(map(change, ids)) for ids in truth.each or ()), tuple(map(change, truth.whole)))

    return compute


_PIECES = wrong_ways("ids", directly,
    "look each final piece up in the vocabulary; an id is neither a rank nor a byte", [
    ("by_rank", "numbers pieces by merges: 256 bytes, then ranks", _numbered(lambda o, p, _: _by_rank(o).get(p))),
    ("by_rank", "gives merge r the id 256 + r", _numbered(lambda o, p, n: 256 + _last_rank(o).get(p, n - 256))),
    ("bytes_by_value", "gives a byte's value as its id", _numbered(lambda o, piece, n: _byte(piece, n))),
    ("renumbered", "numbers the vocabulary in alphabetical order", _numbered(lambda o, piece, _: _sorted(o)[piece])),
    ("shifted", "every id is one more", _everywhere(lambda number: number + 1)),
    ("shifted", "every id is one less", _everywhere(lambda number: number - 1)),
    ("shifted", "every piece's id is one more", _numbered(lambda o, piece, number: number + 1)),
    ("shifted", "every piece's id is one less", _numbered(lambda o, piece, number: number - 1)),
    ("behind_the_added", "numbers pieces behind the added tokens", _numbered(lambda o, _, n: n + len(o.added_tokens))),
    ("sixteen_bits", "keeps 16 bits of an id", _everywhere(lambda number: number & 0xFFFF)),
    ("sixteen_bits", "keeps 15 bits of an id", _everywhere(lambda number: number & 0x7FFF)),
    ("wrong_charset", "reads the vocabulary in another charset than UTF-8: only ASCII pieces are found",
        _numbered(lambda o, piece, n: n if piece.isascii() else None)),
    ("whole_word", "looks up whole words first (ignore_merges)",
        _each(lambda o, ps, symbols: [o.vocabulary[p] for p in ([symbols] if symbols in o.vocabulary else ps)])),
    ("longest_match", "takes the longest entry of the vocabulary from the left", _matched(longest_from_left)),
    ("fewest_pieces", "takes the fewest entries of the vocabulary", _matched(fewest)),
    ("rightmost", "merges the rightmost of equal ranks first", _each(_rightmost)),
    ("of_symbols", "looks up the symbols, as if nothing had been merged", _each(lambda o, _, s: _known(o, s))),
    ("first_piece_only", "keeps the first piece of each pre-token", _of_some(lambda pieces: pieces[:1])),
    ("last_piece_only", "keeps the last piece of each pre-token", _of_some(lambda pieces: pieces[-1:])),
    ("long_dropped", "leaves out pieces of more than one symbol", _of_some(lambda ps: [p for p in ps if len(p) == 1])),
    ("bytes_dropped", "leaves out pieces of one symbol", _of_some(lambda ps: [p for p in ps if len(p) > 1])),
])  # fmt: skip

Find = Callable[[Oracle], int]


def _whole(change: Callable[[Oracle, tuple[int, ...]], Sequence[int]]) -> Compute:
    """The right ids of the text, changed as a whole."""

    def compute(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
        truth: Ids = _truth(oracle, message, state)
        return Ids(truth.each, tuple(change(oracle, truth.whole)))

    return compute


def _token(role: str) -> Find:
    def find(oracle: Oracle) -> int:
        number = oracle.token(role)
        if number is None:
            raise ValueError(f"the tokenizer has no {role} token")
        return number

    return find


def _added(content: str) -> Find:
    return lambda oracle: next(int(token["id"]) for token in oracle.added_tokens if token["content"] == content)


def _beside(begin: Find | None, end: Find | None) -> Callable[[Oracle, tuple[int, ...]], Sequence[int]]:
    return lambda o, ids: [*([begin(o)] if begin else ()), *ids, *([end(o)] if end else ())]


_TEXT, _START, _TURN, _EOS = _added("<|endoftext|>"), _added("<|im_start|>"), _added("<|im_end|>"), _token("eos")
_TOKENS: tuple[tuple[str, Find], ...] = (
    *(("that begins a text", _token("bos")), ("that ends a turn (eos)", _EOS), ("that pads", _token("pad"))),
    *(("<|endoftext|>", _TEXT), ("<|im_start|>", _START), ("<|im_end|>", _TURN)),
)


def _ends() -> Iterator[tuple[str, str, Callable[[Oracle, tuple[int, ...]], Sequence[int]]]]:
    for name, find in _TOKENS:
        yield "bos_added", f"adds the token {name} in front", _beside(find, None)
        yield "eos_added", f"adds the token {name} behind", _beside(None, find)
        yield "bos_and_eos_added", f"adds the token {name} in front and behind", _beside(find, find)
    yield "bos_and_eos_added", "adds <|im_start|> in front and <|im_end|> behind", _beside(_START, _TURN)
    yield "bos_and_eos_added", "adds <|endoftext|> in front and the eos token behind", _beside(_TEXT, _EOS)


_WHOLE = wrong_ways("ids", _whole,
    "put nothing in front, between or behind: the ids are those of the segments in order, all of them", [
    *_ends(),
    ("added_dropped", "leaves out added tokens", lambda o, ids: [n for n in ids if n not in o.added]),
    ("special_dropped", "leaves out special tokens", lambda o, ids: [n for n in ids if n not in o.special]),
    ("added_last", "puts added tokens behind everything else", lambda o, ids: sorted(ids, key=lambda n: n in o.added)),
    ("repeats_dropped", "leaves out an id that stands twice in a row",
        lambda o, ids: [*ids[:1], *(b for a, b in pairwise(ids) if a != b)]),
    ("reversed", "gives the ids in reverse", lambda o, ids: ids[::-1]),
    ("last_missing", "loses the last id", lambda o, ids: ids[:-1]),
    ("first_missing", "loses the first id", lambda o, ids: ids[1:]),
])  # fmt: skip

_TRUNCATED = wrong_ways("ids", lambda count: _whole(lambda _, ids: ids[:count]),
    "give all ids of a text, however long it is", [
    ("truncated", f"ends after {n} ids", n) for n in (64, 128, 256, 512, 1024, 2048)
])  # fmt: skip


def _observed(message: pb.Encoding) -> Ids:
    return Ids(tuple(tuple(piece.id) for _, _, piece in pre_tokens(message)), tuple(message.id))


STAGE = Stage(
    _truth,
    _observed,
    _views,
    [*_PIECES, *_WHOLE, *_TRUNCATED],
    holds=lambda ids: bool(ids.whole) or any(ids.each or ()),
    same=lambda actual, expected, _: actual[actual.each is None :] == expected[actual.each is None :],
    allowed=_allowed,
)
