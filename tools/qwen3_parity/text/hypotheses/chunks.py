"""Wrong ways to give a text out id by id."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH
from qwen3_reference.tokenization.decoding import piece_bytes

Stream = Callable[[Oracle, list[tuple[int, bytes]]], Iterator[str]]
"""From ids with their bytes (none for those that are skipped) to a chunk for each, and one more."""


def _stream(stream: Stream, skip: Callable[[bool], bool] = bool) -> Compute:
    def compute(oracle: Oracle, given: pb.Decoding, state: State) -> Any:
        pieces = state.get("pieces") or [piece_bytes(oracle.pieces.get(number, "")) for number in given.id]
        gone = oracle.reference.special if skip(given.skip_special_tokens) else frozenset()
        return tuple(stream(oracle, [(n, b"" if n in gone else p) for n, p in zip(given.id, pieces, strict=False)]))

    return compute


def _chunks(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Compute:
    """The right chunks, changed."""
    right = _stream(_incremental("replace"))
    return lambda oracle, given, state: change(right(oracle, given, state))


def _of_text(change: Callable[[str], str]) -> Compute:
    """Chunks whose join is the right text, changed."""
    return lambda oracle, given, state: ("",) * len(given.id) + (change(_decoded(oracle, given, state)),)


def _decoded(oracle: Oracle, given: pb.Decoding, state: State) -> str:
    text: str = state["decoded"] if "decoded" in state else TRUTH["decoded"](oracle, given, state)
    return text


def _incremental(errors: str, end: bool = True) -> Stream:
    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        decoder = getincrementaldecoder("utf-8")(errors)
        for _number, piece in parts:
            yield decoder.decode(piece)
        yield decoder.decode(b"", True) if end else ""

    return stream


def _ignored_inside(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")("ignore")
    for _number, piece in parts:
        yield decoder.decode(piece)
    yield decoder.getstate()[0].decode(errors="replace")


def _held(ready: Callable[[bytes], bool], end: Callable[[bytes], str]) -> Stream:
    """Bytes are held until they are `ready`."""

    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        waiting = b""
        for _number, piece in parts:
            waiting += piece
            yield waiting.decode(errors="replace") if ready(waiting) else ""
            waiting = b"" if ready(waiting) else waiting
        yield end(waiting)

    return stream


def _flushed(flush: Callable[[Oracle, int, bytes], bool], lost: bool) -> Stream:
    """What is held is given out broken, or lost, when such an id comes."""

    def stream(oracle: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        decoder = getincrementaldecoder("utf-8")("replace")
        for number, piece in parts:
            left = ""
            if flush(oracle, number, piece):
                left = "" if lost else decoder.decode(b"", True)
                decoder.reset()
            yield left + decoder.decode(piece)
        yield decoder.decode(b"", True)

    return stream


def _alone(errors: str) -> Stream:
    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        yield from (piece.decode(errors=errors) for _, piece in parts)
        yield ""

    return stream


def _grown(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    """The text so far decoded again, and what is longer than before: a character that mends a U+FFFD is lost."""
    data, before = b"", 0
    for _number, piece in parts:
        data += piece
        text = data.decode(errors="replace")
        yield text[before:]
        before = max(before, len(text))
    yield ""


def _grown_whole(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    """The same, but nothing is given out while the text ends in U+FFFD; the end is lost."""
    data, before = b"", 0
    for _number, piece in parts:
        data += piece
        text = data.decode(errors="replace")
        ready = not text.endswith("\ufffd")
        yield text[before:] if ready else ""
        before = len(text) if ready else before
    yield ""


def _is_space(oracle: Oracle, number: int, piece: bytes) -> bool:
    return piece.startswith(b" ")


def _is_special(oracle: Oracle, number: int, piece: bytes) -> bool:
    return number in oracle.reference.special


def _is_added(oracle: Oracle, number: int, piece: bytes) -> bool:
    return number in oracle.reference.added


def _so_far(chunks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("".join(chunks[: place + 1]) for place in range(len(chunks)))


def _whole(data: bytes) -> bool:
    return not data.decode(errors="replace").endswith("\ufffd")


def _valid(data: bytes) -> bool:
    return data.decode(errors="replace").encode() == data


def _up_to(size: int) -> Callable[[bytes], bool]:
    return lambda data: _valid(data) or len(data) >= size


def _replaced(data: bytes) -> str:
    return data.decode(errors="replace")


WRONG: list[Wrong] = wrong_ways(
    "chunks",
    "keep the bytes of an unfinished character until they are whole or can never be; give the rest out at the end",
    [
        ("each_id_alone", "decodes each id alone: characters that stand in several ids break",
            _stream(_alone("replace"))),
        ("invalid_dropped", "drops bytes that are no character", _stream(_incremental("ignore"))),
        ("invalid_dropped", "decodes each id alone and drops what is no character", _stream(_alone("ignore"))),
        ("invalid_dropped", "drops bytes that are no character, but not at the end", _stream(_ignored_inside)),
        ("end_dropped", "drops what is held at the end", _stream(_incremental("replace", end=False))),
        ("end_dropped", "holds back what ends in U+FFFD, and drops it at the end",
            _stream(_held(_whole, lambda data: ""))),
        ("end_dropped", "waits until all held bytes are valid, and drops them at the end",
            _stream(_held(_valid, lambda data: ""))),
        ("end_dropped", "drops at the end whatever is no character",
            _stream(_held(_whole, lambda data: data.decode(errors="ignore")))),
        ("end_dropped", "gives out how much longer the text has grown, never what ends in U+FFFD",
            _stream(_grown_whole)),
        ("replacement_dropped", "drops U+FFFD at the end",
            _stream(_held(_whole, lambda data: _replaced(data).rstrip("\ufffd")))),
        ("replacement_dropped", "drops U+FFFD", _of_text(lambda t: t.replace("\ufffd", ""))),
        ("broken", "gives out how much longer the text has grown: a broken character is never mended", _stream(_grown)),
        *(("broken", f"gives up on a character when {n} bytes are held",
            _stream(_held(_up_to(n), _replaced))) for n in (2, 3, 4)),
        ("flushed_by_special", "special tokens push a half character out, though they are skipped",
            _stream(_flushed(_is_special, lost=False))),
        ("flushed_by_special", "added tokens push a half character out", _stream(_flushed(_is_added, lost=False))),
        ("flushed_by_special", "a half character before a special token is lost",
            _stream(_flushed(_is_special, lost=True))),
        ("flushed_by_special", "a half character before an added token is lost",
            _stream(_flushed(_is_added, lost=True))),
        ("flushed_by_space", "a half character before a space is lost", _stream(_flushed(_is_space, lost=True))),
        ("skip_ignored", "gives special tokens out that are to be skipped",
            _stream(_incremental("replace"), lambda skip: False)),
        ("always_skipped", "skips special tokens unasked", _stream(_incremental("replace"), lambda skip: True)),
        ("repeated", "gives all text so far out again each time", _chunks(_so_far)),
        ("repeated", "gives all text so far out again, and nothing at the end",
            _chunks(lambda c: (*_so_far(c)[:-1], c[-1]))),
        ("stripped", "drops the space in front of each chunk",
            _chunks(lambda c: tuple(one.removeprefix(" ") for one in c))),
        ("stripped", "drops the space in front of the text", _of_text(lambda t: t.removeprefix(" "))),
        ("stripped", "strips white space off each chunk", _chunks(lambda c: tuple(one.strip() for one in c))),
        ("held_back", "gives everything out at the end only",
            _chunks(lambda c: (*("" for _ in c[1:]), "".join(c)))),
        ("all_at_once", "gives everything out at the first id",
            _chunks(lambda c: ("".join(c), *("" for _ in c[1:])))),
        ("end_missing", "gives one chunk for each id and none at the end", _chunks(lambda c: c[:-1])),
        ("end_missing", "puts the end into the last id's chunk", _chunks(lambda c: (*c[:-2], "".join(c[-2:])))),
        ("empty_left_out", "leaves out chunks with nothing in them", _chunks(lambda c: tuple(one for one in c if one))),
        ("first_missing", "loses the first chunk", _chunks(lambda c: ("", *c[1:]))),
        ("latin1", "decodes Latin-1", _stream(lambda o, ps: iter([*(p.decode("latin-1") for _, p in ps), ""]))),
        ("bom_dropped", "drops a byte order mark", _of_text(lambda t: t.removeprefix("\ufeff"))),
    ],
)  # fmt: skip
"""Of the stage `chunks`."""
