"""The stage `segments`: a text cut at its added tokens. Its value: (begin, end, id or None for plain text) each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.view import View, Views, span

Tokens = list[tuple[int, int, int]]
"""Added tokens in a text: begin, end, id."""
_SENTINEL = re.compile(r"<extra_id_(\d+)>")


def plain(message: pb.Encoding) -> Iterator[pb.Segment]:
    """The segments that are no added tokens."""
    return (segment for segment in message.segment if not segment.HasField("added_token"))


def observed(message: pb.Encoding) -> Any:
    """What a message holds of the stage."""
    return tuple((s.begin, s.end, s.added_token if s.HasField("added_token") else None) for s in message.segment)


def _truth(oracle: Oracle, message: pb.Encoding, _: State) -> Any:
    return observed(oracle.encoding(message))


def _views(message: pb.Encoding) -> Views:
    text, rows = message.text, observed(message)

    def show(at: int) -> str:
        begin, end, token = rows[at]
        return span(text, begin, end) + ("" if token is None else f" = added token {token}")

    return {"segments": View(rows, show, places=[begin for begin, _, _ in rows])}


def _cut(text: str, tokens: Tokens, empty: bool = False) -> Any:
    """The segments of a text: added tokens and what stands between them, nothing too if `empty`."""
    out: list[tuple[int, int, int | None]] = []
    done = 0
    for begin, end, number in tokens:
        out += [(done, begin, None)] if begin > done or empty else []
        out.append((begin, end, number))
        done = end
    return (*out, (done, len(text), None)) if len(text) > done or empty else tuple(out)


def _tokens(oracle: Oracle, message: pb.Encoding) -> Tokens:
    return [segment for segment in _truth(oracle, message, {}) if segment[2] is not None]


def _changed(change: Callable[[Oracle, str, Tokens], Tokens]) -> Compute:
    """The added tokens that Hugging Face finds, changed."""
    return lambda oracle, message, _: _cut(message.text, change(oracle, message.text, _tokens(oracle, message)))


def _split(split: Callable[[bool], bool], keep: Callable[[bool, bool], bool] = lambda special, asked: True) -> Compute:
    """Another meaning of split_special_tokens; `keep(special, split_special_tokens)`: whether a token is found."""

    def compute(oracle: Oracle, message: pb.Encoding, _: State) -> Any:
        ids = {
            token["id"] for token in oracle.added_tokens if keep(bool(token["special"]), message.split_special_tokens)
        }
        asked = pb.Encoding(text=message.text, split_special_tokens=split(message.split_special_tokens))
        return _cut(message.text, [token for token in _tokens(oracle, asked) if token[2] in ids])

    return compute


def _search(pattern: Callable[[Sequence[str]], str], flags: int = 0, longest: bool = True) -> Compute:
    """A regex over the contents of the added tokens; the match, or its lower case, is looked up."""

    def compute(oracle: Oracle, message: pb.Encoding, _: State) -> Any:
        tokens = [token for token in oracle.added_tokens if not (message.split_special_tokens and token["special"])]
        ids = {token["content"].lower(): token["id"] for token in tokens}
        names = sorted((token["content"] for token in tokens), key=len, reverse=longest)
        matches = re.finditer(pattern(names), message.text, flags) if names else ()
        spans = [(match.span(), ids.get(match[0].lower(), ids.get(f"{match[0].lower()}>"))) for match in matches]
        return _cut(message.text, [(*span, number) for span, number in spans if number is not None])

    return compute


def _between(before: str = "", behind: str = "", flags: int = 0, longest: bool = True) -> Compute:
    return _search(lambda names: f"{before}(?:{'|'.join(map(re.escape, names))}){behind}", flags, longest)


def _prefixes(names: Sequence[str]) -> str:
    """Sentinels are known by one digit, with or without the bracket behind it."""
    others = [name for name in names if not _SENTINEL.fullmatch(name)]
    return "|".join([r"<extra_id_\d>?", *map(re.escape, others)])


def _strip(left: bool, right: bool) -> Callable[[Oracle, str, Tokens], Tokens]:
    def change(_: Oracle, text: str, tokens: Tokens) -> Tokens:
        out: Tokens = []
        for place, (begin, end, number) in enumerate(tokens):
            floor = out[-1][1] if out else 0
            limit = tokens[place + 1][0] if place + 1 < len(tokens) else len(text)
            begin = floor + len(text[floor:begin].rstrip()) if left and begin > floor else begin
            end = limit - len(text[end:limit].lstrip()) if right else end
            out.append((begin, end, number))
        return out

    return change


def _left_first(oracle: Oracle, text: str, tokens: Tokens) -> Tokens:
    """White space between two tokens goes to the right one, what is left of it to the left one."""
    left = _strip(True, False)(oracle, text, tokens)
    ends = [*(token[0] for token in left[1:]), len(text)]
    return [(b, end - len(text[e:end].lstrip()), n) for (b, e, n), end in zip(left, ends, strict=False)]


def _joined(_: Oracle, text: str, tokens: Tokens) -> Tokens:
    out: Tokens = []
    for begin, end, number in tokens:
        if out and out[-1][1:] == (begin, number):
            out[-1] = (out[-1][0], end, number)
        else:
            out.append((begin, end, number))
    return out


def _not_adjacent(_: Oracle, text: str, tokens: Tokens) -> Tokens:
    out: Tokens = []
    for token in tokens:
        out += [token] if not out or out[-1][1] < token[0] else []
    return out


def _of_normalized(oracle: Oracle, message: pb.Encoding, _: State) -> Any:
    normalizer = oracle.reference.backend.normalizer
    text = message.text if normalizer is None else normalizer.normalize_str(message.text)
    return _truth(oracle, pb.Encoding(text=text, split_special_tokens=message.split_special_tokens), {})


def _stripped(text: str, begin: int, end: int, number: int | None) -> tuple[int, int, int | None]:
    part = text[begin:end]
    if number is not None:
        return begin, end, number
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip()), None


_FOUND = wrong_ways("segments", directly,
    "cut the raw text first, at the longest added token that begins leftmost; special ones only if not split", [
    ("added_as_text", "finds no added tokens: their names are plain text", _split(bool, lambda *_: False)),
    ("special_as_text", "finds no special tokens: their names are plain text", _split(lambda split: True)),
    ("special_in_user_text", "ignores split_special_tokens: special tokens are found in a user's words",
        _split(lambda split: False)),
    ("split_inverted", "takes split_special_tokens for its contrary", _split(lambda split: not split)),
    ("user_defined_as_text", "finds special tokens alone: added tokens like <think> are plain text",
        _split(bool, lambda special, _: special)),
    ("split_hides_all", "split_special_tokens hides all added tokens, also those that are not special",
        _split(bool, lambda _, asked: not asked)),
    ("shortest_first", "takes the shortest of the tokens that begin at a place", _between(longest=False)),
    ("shortest_first", "knows sentinels by one digit: <extra_id_10> is <extra_id_1>, then 0>", _search(_prefixes)),
    ("any_case", "finds added tokens in any case", _between(flags=re.IGNORECASE)),
    ("between_spaces", "finds added tokens only between white space", _between(r"(?<!\S)", r"(?!\S)")),
    ("single_word", "finds added tokens only where no word touches them", _between(r"(?<!\w)", r"(?!\w)")),
    ("whole_text", "finds an added token only when it is the whole text", _between(r"\A", r"\Z")),
    ("at_the_start", "finds an added token only at the start", _between(r"\A")),
    ("first_only", "finds each added token once",
        _changed(lambda o, t, ts: [a for at, a in enumerate(ts) if a[2] not in {b[2] for b in ts[:at]}])),
    ("one_only", "finds the first added token alone", _changed(lambda o, t, tokens: tokens[:1])),
    ("joined", "takes equal neighbours for one", _changed(_joined)),
    ("not_adjacent", "misses an added token right behind another", _changed(_not_adjacent)),
    ("of_normalized", "normalises before it looks for added tokens, and counts in that text", _of_normalized),
    ("empty_kept", "keeps empty segments between tokens", lambda o, m, _: _cut(m.text, _tokens(o, m), empty=True)),
])  # fmt: skip

_SPACES = wrong_ways("segments", directly,
    "follow each added token's flags lstrip, rstrip and single_word; Qwen's have none: spaces beside them stay text", [
    ("lstrip", "takes the white space before an added token along", _changed(_strip(True, False))),
    ("rstrip", "takes the white space behind an added token along", _changed(_strip(False, True))),
    ("strip", "takes white space around an added token along", _changed(_strip(True, True)), _changed(_left_first)),
    ("lstrip", "takes one space before an added token along",
        _changed(lambda o, t, ts: [(b - (t[b - 1 : b] == " "), e, n) for b, e, n in ts])),
    ("plain_stripped", "strips white space from the plain text between added tokens",
        lambda o, m, s: tuple(p for segment in _truth(o, m, s) if (p := _stripped(m.text, *segment))[0] < p[1])),
])  # fmt: skip


def _ids(number: Callable[[Oracle, int], int]) -> Compute:
    return _changed(lambda oracle, _, tokens: [(begin, end, number(oracle, old)) for begin, end, old in tokens])


def _sentinel(number: Callable[[int, int, int, int], int]) -> Compute:
    """Sentinel i has the id `number(i, how many, the first one's id, entries before them)`."""

    def change(oracle: Oracle, old: int) -> int:
        matches = {token["id"]: _SENTINEL.fullmatch(token["content"]) for token in oracle.added_tokens}
        sentinels = {token: int(match[1]) for token, match in matches.items() if match}
        if old not in sentinels:
            return old
        below = 1 + max((token for token in oracle.pieces if token not in sentinels), default=-1)
        return number(sentinels[old], len(sentinels), min(sentinels), below)

    return _ids(change)


_MANY = 32
"""Added tokens that may share an id with a neighbour: more than Qwen's 26."""


def _shared(at: int, by: int, oracle: Oracle, old: int) -> int:
    """The id of the added token beside it for the token at a place in the order of ids; every other keeps its own."""
    order = sorted(oracle.added)
    return order[at + by] if old == order[min(at, len(order) - 1)] and 0 <= at + by < len(order) else old


_IDS = wrong_ways("segments", directly,
    "take the ids of added tokens from added_tokens_decoder or tokenizer.json; sentinel i is row padded size + i", [
    ("sentinels_descending", "numbers sentinels downwards, as T5 does",
        _sentinel(lambda i, n, first, below: first + n - 1 - i)),
    ("sentinels_off_by_one", "numbers sentinels from 1", _sentinel(lambda i, n, first, below: first + i + 1)),
    ("sentinels_off_by_one", "numbers sentinels from -1", _sentinel(lambda i, n, first, below: first + i - 1)),
    ("sentinels_compact", "numbers sentinels right behind the vocabulary, in the padding rows",
        _sentinel(lambda i, n, first, below: below + i)),
    ("sentinels_compact", "numbers sentinels downwards behind the vocabulary",
        _sentinel(lambda i, n, first, below: below + n - 1 - i)),
    ("ids_shifted", "gives each added token the next one's id", _ids(lambda o, old: old + 1)),
    ("ids_shifted", "gives each added token the id of the one before", _ids(lambda o, old: old - 1)),
    *(("shared_id", f"gives added token {at} the id of {at + by} too, counted from 0", _ids(partial(_shared, at, by)))
      for at in range(_MANY) for by in (-1, 1) if at + by >= 0),
    ("ids_from_zero", "numbers added tokens from 0", _ids(lambda o, old: sorted(o.added).index(old))),
])  # fmt: skip


def _spans(change: Callable[[str, int, int], tuple[int, int]]) -> Compute:
    """The right segments with begins and ends of another meaning."""
    return lambda o, message, s: tuple((*change(message.text, b, e), n) for b, e, n in _truth(o, message, s))


def _size(encoding: str, unit: int, text: str, begin: int, end: int) -> tuple[int, int]:
    return len(text[:begin].encode(encoding)) // unit, len(text[:end].encode(encoding)) // unit


COUNTED: Sequence[tuple[str, str, Callable[[str, int, int], tuple[int, int]]]] = [
    ("bytes", "counts bytes of UTF-8", partial(_size, "utf-8", 1)),
    ("utf16_units", "counts UTF-16 units", partial(_size, "utf-16-le", 2)),
    ("lengths_as_ends", "gives lengths where ends are asked for", lambda text, begin, end: (begin, end - begin)),
]  # fmt: skip
"""Other meanings of begin and end, from a text and the right ones: of segments, and of offsets."""

_UNITS = wrong_ways("segments", _spans, "count characters (code points) of the raw text", [
    *COUNTED, ("end_inclusive", "gives the last character as the end", lambda text, begin, end: (begin, end - 1)),
])  # fmt: skip

STAGE = Stage(
    _truth,
    observed,
    _views,
    [*_FOUND, *_SPACES, *_IDS, *_UNITS],
    holds=lambda rows: any(r != (0, 0, None) for r in rows),
)
