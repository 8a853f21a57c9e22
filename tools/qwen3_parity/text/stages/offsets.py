"""The stage `offsets`: which characters of the text an id stands for. Its value: (begin, end) of each id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, wrong_ways
from qwen3_parity.text.stages.normalized import normal
from qwen3_parity.text.stages.segments import COUNTED
from qwen3_parity.text.view import View, Views, span

Span = tuple[int, int]
Spans = Sequence[Span]


def _observed(message: pb.Encoding) -> tuple[Span, ...]:
    return tuple((offset.begin, offset.end) for offset in message.offset)


def _truth(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
    """Hugging Face maps ids of its own alone: None where the ids are others."""
    encoding = oracle.encoding(message)
    return _observed(encoding) if tuple(encoding.id) == state["ids"].whole else None


def _views(message: pb.Encoding) -> Views:
    text, spans = message.text, _observed(message)
    return {"offsets": View(spans, lambda at: span(text, *spans[at]), places=[begin for begin, _ in spans])}


def _changed(change: Callable[[Oracle, str, State, Spans], Spans]) -> Compute:
    """Hugging Face's spans of a text, changed."""

    def compute(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
        return tuple(change(oracle, message.text, state, _truth(oracle, message, state)))

    return compute


def _each(change: Callable[[str, int, int], Span]) -> Compute:
    """Each span by itself."""
    return _changed(lambda _, text, __, spans: [change(text, begin, end) for begin, end in spans])


def _trimmed(text: str, begin: int, end: int) -> Span:
    return end - len(text[begin:end].lstrip()), end


def _of_prefixes(oracle: Oracle, text: str, _: State, spans: Spans) -> Spans:
    """As many characters as what stands before it has when it is normalised."""
    sizes = {at: len(normal(oracle, text[:at])) for both in spans for at in both}
    return [(sizes[begin], sizes[end]) for begin, end in spans]


def _of_normalized(oracle: Oracle, _: str, state: State, __: Spans) -> Spans:
    """Counted in the normalised segments put together."""
    out, done, each = list[Span](), 0, iter(state["ids"].each or ())
    plain = zip(state["normalized"], state["pre_tokens"], strict=False)
    for begin, end, added in state["segments"]:
        text, pieces = next(plain, ("", ())) if added is None else ("", ())
        out += [] if added is None else [(done, done + end - begin)]
        for piece in pieces:
            out += _in_bytes(oracle, text, piece.begin_byte, next(each, ()), done)
        done += len(text) if added is None else end - begin
    return out


def _in_bytes(oracle: Oracle, text: str, byte: int, numbers: Sequence[int], before: int) -> list[Span]:
    data, out = text.encode(), list[Span]()
    for number in numbers:
        size = len(oracle.bytes_of(number))
        begin, end = (len(data[:at].decode(errors="ignore")) for at in (byte, byte + size))
        out.append((before + begin, before + max(end, begin + 1)))
        byte += size
    return out


def _of_decoded(oracle: Oracle, _: str, state: State, __: Spans) -> Spans:
    """The lengths of what each id decodes to alone, added up."""
    sizes = [len(oracle.bytes_of(number).decode(errors="replace")) for number in state["ids"].whole]
    return list(pairwise(accumulate(sizes, initial=0)))


def _of_pre_tokens(_: Oracle, __: str, state: State, spans: Spans) -> Spans:
    """Every id has the span of its whole pre-token."""
    each, pieces = iter(state["ids"].each or ()), iter(state["pre_tokens"])
    out, at = list[Span](), 0
    for *_segment, added in state["segments"]:
        for ids in [(added,)] if added is not None else [next(each, ()) for _piece in next(pieces, ())]:
            part = spans[at : at + len(ids)]
            out += [(part[0][0], part[-1][1])] * len(ids) if part else []
            at += len(ids)
    return out


def _first_takes_it(_: Oracle, __: str, ___: State, spans: Spans) -> Spans:
    out, done = list[Span](), 0
    for begin, end in spans:
        begin = max(begin, done)
        done = max(end, begin)
        out.append((begin, done))
    return out


def _last_takes_it(_: Oracle, text: str, __: State, spans: Spans) -> Spans:
    out, limit = list[Span](), len(text)
    for begin, end in reversed(spans):
        end = min(end, limit)
        limit = min(begin, end)
        out.append((limit, end))
    return out[::-1]


def _in_segment(_: Oracle, __: str, state: State, spans: Spans) -> Spans:
    starts = [next((begin for begin, end, _ in state["segments"] if begin <= at < end), 0) for at, _ in spans]
    return [(begin - start, end - start) for start, (begin, end) in zip(starts, spans, strict=True)]


def _no_special(oracle: Oracle, _: str, state: State, spans: Spans) -> Spans:
    pairs = zip(state["ids"].whole, spans, strict=True)
    return [(0, 0) if number in oracle.added else id_span for number, id_span in pairs]


_FIX = "map ids to characters (code points) of the raw text as Hugging Face does: every id of a character has all of it"

_EACH = wrong_ways("offsets", _each, _FIX, [
    *COUNTED,
    ("trimmed", "leaves the white space in front of a word out (trim_offsets)",
        lambda t, b, e: _trimmed(t, b, e) if t[b:e].strip() else (b, e)),
    ("trimmed", "leaves leading white space out, also where there is nothing else", _trimmed),
    ("trimmed", "leaves white space out on both sides (trim_offsets)",
        lambda t, b, e: (_trimmed(t, b, e)[0], b + len(t[b:e].rstrip())) if t[b:e].strip() else (b, e)),
    ("inclusive", "gives the last character as the end", lambda _, begin, end: (begin, end - 1)),
    ("zero", "gives no spans", lambda *_: (0, 0)),
    ("from_one", "counts from 1", lambda _, begin, end: (begin + 1, end + 1)),
])  # fmt: skip

_TEXT = wrong_ways("offsets", _changed, _FIX, [
    ("of_normalized", "counts in the normalised text", _of_normalized, _of_prefixes),
    ("of_segment", "counts from the start of the segment", _in_segment),
    ("of_pre_tokens", "gives every id the span of its pre-token", _of_pre_tokens),
    ("of_decoded", "adds up the lengths of what each id decodes to alone", _of_decoded),
    ("marks_included", "counts combining marks to the character that they composed with",
        lambda _, t, __, spans: [(b, max(e, n)) for (b, e), (n, _) in pairwise([*spans, (len(t), 0)])]),
    ("joined", "lets each span reach to the next",
        lambda _, t, __, spans: [(b, n) for (b, _), (n, _) in pairwise([*spans, (len(t), 0)])]),
    ("first_of_a_character", "gives a character to the first of its ids", _first_takes_it),
    ("partial_characters", "gives a character to the last of its ids", _last_takes_it),
    ("partial_characters", "of the ids inside a character only the last has it",
        lambda _, __, ___, spans: [(a[0], a[0]) if a == b else a for a, b in pairwise([*spans, (-1, -1)])]),
    ("partial_characters", "of the ids inside a character only the first has it",
        lambda _, __, ___, spans: [(b[1], b[1]) if a == b else b for a, b in pairwise([(-1, -1), *spans])]),
    ("shifted", "gives each id the span of the one before", lambda _, __, ___, r: [(0, 0), *r][: len(r)]),
    ("shifted", "gives each id the span of the next", lambda _, t, __, spans: [*spans[1:], (len(t), len(t))]),
    ("no_special", "gives added tokens no span", _no_special),
])  # fmt: skip

STAGE = Stage(_truth, _observed, _views, [*_EACH, *_TEXT])
