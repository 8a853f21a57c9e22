"""What each stage holds, as a row of things that are compared one by one and shown to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qwen3_golden import pb


@dataclass(frozen=True)
class View:
    """`items` are compared one by one; `show(index)` is what a person sees of one, joined by `glue`.

    `places`: the character of the given text at which each item begins, where that is known.
    """

    items: Sequence[object]
    show: Callable[[int], str]
    glue: str = ", "
    places: Sequence[int] = field(default=())


_MOST = 64

Views = Mapping[str, View]
"""By what they hold, as a message names it."""


def escaped(text: str) -> str:
    """The text with everything but ASCII, control characters included, as escapes; without quotes."""
    return ascii(text)[1:-1]


def cut(text: str) -> str:
    """The text, or its beginning and end where it is long."""
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}…{text[-_MOST // 2 :]}"


def printable(text: str) -> str:
    """The text with what no screen shows as escapes."""
    return "".join(one if one.isprintable() else escaped(one) for one in text)


def _plain(item: pb.Encoding) -> Iterator[pb.Segment]:
    return (one for one in item.segment if not one.HasField("added_token"))


def _pre_tokens(item: pb.Encoding) -> Iterator[tuple[int, str, pb.PreToken]]:
    """Each with the place of its segment and the segment's normalised text, which is read once: reading decodes it."""
    for segment in _plain(item):
        normalized = segment.normalized
        for one in segment.pre_token:
            yield segment.begin, normalized, one


def _segments(item: pb.Encoding) -> Views:
    text = item.text
    rows = [(one.begin, one.end, one.added_token if one.HasField("added_token") else None) for one in item.segment]

    def show(at: int) -> str:
        begin, end, token = rows[at]
        return _span(text, begin, end) + ("" if token is None else f" = added token {token}")

    return {"segments": View(rows, show, places=[begin for begin, _, _ in rows])}


def _span(text: str, begin: int, end: int) -> str:
    return f"{begin}–{end} '{cut(escaped(text[begin:end]))}'"


def _normalized(item: pb.Encoding) -> Views:
    characters: list[str | None] = []
    places: list[int] = []
    for one in _plain(item):
        if one.normalized:
            characters += [*one.normalized, None]  # None: the end of a segment
            places += range(one.begin, one.begin + len(one.normalized) + 1)

    def show(at: int) -> str:
        character = characters[at]
        return escaped(character) if character is not None else " | " if at + 1 < len(characters) else ""

    return {"normalized characters": View(characters, show, "", places)}


def _pre_token_spans(item: pb.Encoding) -> Views:
    found = list(_pre_tokens(item))
    rows = [(one.begin, one.end, one.begin_byte, one.end_byte) for _, _, one in found]

    def show(at: int) -> str:
        begin, end, _, _ = rows[at]
        return cut(escaped(found[at][1][begin:end])) or f"{begin}–{end}"

    return {"pre-tokens": View(rows, show, "|", [place + one.begin for place, _, one in found])}


def _symbols(item: pb.Encoding) -> Views:
    found = list(_pre_tokens(item))
    symbols = [one.symbols for _, _, one in found]
    places = [place + one.begin for place, _, one in found]
    return {"symbols of pre-tokens": View(symbols, lambda at: cut(printable(symbols[at])), "|", places)}


def _merges(item: pb.Encoding) -> Views:
    ranks: list[int | None] = []  # None: a pre-token begins
    begun: dict[int, str] = {}
    places: list[int] = []
    for place, _, one in _pre_tokens(item):
        begun[len(ranks)] = one.symbols
        ranks += [None, *one.merge]
        places += [place + one.begin] * (len(one.merge) + 1)

    def show(at: int) -> str:
        return f"| {printable(begun[at])[:24]}:" if at in begun else str(ranks[at])

    return {"ranks of merges": View(ranks, show, " ", places)}


def _ids(item: pb.Encoding) -> Views:
    text, ids = item.text, list(item.id)
    spans = [(one.begin, one.end) for one in item.offset]

    def show(at: int) -> str:
        if len(spans) != len(ids):
            return str(ids[at])
        begin, end = spans[at]
        return f"{ids[at]} '{cut(escaped(text[begin:end]))}'"

    own = [(one.symbols, tuple(one.id), place + one.begin) for place, _, one in _pre_tokens(item)]
    of_each = View(
        [numbers for _, numbers, _ in own],
        lambda at: f"{printable(own[at][0])[:24]}: {' '.join(map(str, own[at][1]))}",
        places=[place for _, _, place in own],
    )
    return {"ids": View(ids, show, places=[begin for begin, _ in spans]), EACH: of_each}


EACH = "ids of each pre-token"
"""Compared where pre-tokens are delivered at all."""


def _offsets(item: pb.Encoding) -> Views:
    text = item.text
    spans = [(one.begin, one.end) for one in item.offset]
    return {"offsets": View(spans, lambda at: _span(text, *spans[at]), places=[begin for begin, _ in spans])}


def _plainly(what: str, items: Sequence[object], show: Callable[[Any], str] = str, glue: str = ", ") -> Views:
    return {what: View(items, lambda at: show(items[at]), glue)}


def _rows(item: pb.Batch) -> Views:
    views = dict(_plainly("rows", [None] * len(item.row), lambda _: "a row"))
    for index, row in enumerate(item.row):
        views |= _plainly(f"input_ids of row {index}", list(row.input_id))
        views |= _plainly(f"attention_mask of row {index}", list(row.attention_mask))
    return views


VIEWS: Mapping[str, Callable[[Any], Views]] = {
    "segments": _segments,
    "normalized": _normalized,
    "pre_tokens": _pre_token_spans,
    "symbols": _symbols,
    "merges": _merges,
    "ids": _ids,
    "offsets": _offsets,
    "pieces": lambda item: _plainly("pieces", list(item.piece), repr, " "),
    "decoded": lambda item: _plainly("decoded characters", item.text, escaped, ""),
    "chunks": lambda item: _plainly("chunks", list(item.chunk), escaped, "|"),
    "batch": _rows,
    "rendered": lambda item: _plainly("rendered characters", item.rendered, escaped, ""),
    "rendered_ids": lambda item: _plainly("ids", list(item.id)),
}
"""What each stage holds for one text, one list of ids, one batch, one conversation."""


HAS: Mapping[str, Callable[[Any], bool]] = {
    "segments": lambda item: any(one.begin or one.end or one.HasField("added_token") for one in item.segment),
    "normalized": lambda item: any(one.normalized for one in item.segment),
    "pre_tokens": lambda item: any(
        one.begin or one.end or one.begin_byte or one.end_byte for _, _, one in _pre_tokens(item)
    ),
    "symbols": lambda item: any(one.symbols for _, _, one in _pre_tokens(item)),
    "merges": lambda item: any(one.merge for _, _, one in _pre_tokens(item)),
    "ids": lambda item: len(item.id) > 0 or any(one.id for _, _, one in _pre_tokens(item)),
    "offsets": lambda item: len(item.offset) > 0,
    "pieces": lambda item: len(item.piece) > 0,
    "decoded": lambda item: item.text != "",
    "chunks": lambda item: len(item.chunk) > 0,
    "batch": lambda item: len(item.row) > 0,
    "rendered": lambda item: item.rendered != "",
    "rendered_ids": lambda item: len(item.id) > 0,
}
"""Whether anything is delivered of a stage, in one text, one list of ids, one batch, one conversation."""
