"""The stage `chunks`: a text given out id by id. Its value: a chunk for each id, and one more.

Giving text out earlier than Hugging Face's stream is as good; not later, nor before its bytes have come.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.stages import decoded
from qwen3_parity.text.stages.decoded import replaced, skipped
from qwen3_parity.text.view import Difference, around, escaped, view

_LETTERS = 24
Chunks = tuple[str, ...]


def late(expected: Sequence[str], actual: Sequence[str]) -> int | None:
    """The first chunk with which `actual` has given out fewer characters than `expected`; None when it never has."""
    sizes = zip(accumulate(map(len, expected)), accumulate(map(len, actual)), strict=False)
    return next((index for index, (expected_size, size) in enumerate(sizes) if size < expected_size), None)


def early(pieces: Sequence[bytes], actual: Sequence[str]) -> int | None:
    """The first chunk that gives out characters of which not every byte can have come; None where there is none.

    `pieces` are what the ids stand for: each brings its bytes, those of special ones too, which may be left out.
    """
    text = "".join(actual)
    decoder, come, out = getincrementaldecoder("utf-8")("replace"), 0, 0
    for index, (piece, chunk) in enumerate(zip(pieces, actual, strict=False)):
        come, out = come + len(decoder.decode(piece)), out + len(chunk)
        pending = len(replaced(decoder.getstate()[0]))  # broken as they stand, if nothing mends them
        if out > come + pending or text[come:out].strip("\ufffd"):
            return index
    return None


def _join(message: pb.Decoding, text: str) -> Chunks:
    """Chunks of which only the join counts."""
    return ("",) * len(message.id) + (text,)


def _truth(oracle: Oracle, message: pb.Decoding, state: State) -> Any:
    """Hugging Face's own; of another text only the join is known."""
    decoding = oracle.decoding(message)
    return tuple(decoding.chunk) if decoding.text == state["decoded"] else _join(message, state["decoded"])


def _same(actual: Chunks, expected: Chunks, state: State) -> bool:
    if actual == expected:
        return True
    if len(actual) != len(expected) or "".join(actual) != "".join(expected) or late(expected, actual) is not None:
        return False
    pieces = state.get("pieces") or ()  # where they are not the stream's text, nobody knows what has come
    return replaced(b"".join(pieces)) != "".join(actual) or early(pieces, actual) is None


def _allowed(oracle: Oracle, message: pb.Decoding, actual: Chunks, expected: Chunks, state: State) -> bool:
    """A stream does not go through the text of all ids: it may be right where that is wrong."""
    if "pieces" not in state or "".join(actual) == "".join(expected):
        return False
    return _same(actual, _join(message, decoded.truth(oracle, message, state)), state)


def _differs(expected: pb.Decoding, actual: pb.Decoding) -> Difference | None:
    """Its parts are whole and make the text, none later than the golden's."""
    text, ours = "".join(expected.chunk), "".join(actual.chunk)
    if len(actual.chunk) != len(expected.id) + 1:
        return "a chunk for each id and one at the end", f"{len(expected.id) + 1} chunks", str(len(actual.chunk))
    if ours != text:
        return _other_text(text, ours, actual.chunk)
    ahead, behind = early(expected.piece, actual.chunk), late(expected.chunk, actual.chunk)
    if ahead is not None:
        rule = f"a stream gave out what its ids had not brought, first at chunk {ahead} of {len(expected.chunk)}"
        brought = replaced(b"".join(expected.piece[: ahead + 1]))
        return rule, escaped(brought[-_LETTERS:]), escaped("".join(actual.chunk[: ahead + 1])[-_LETTERS:])
    if behind is None:
        return None
    expected_text, actual_text = ("".join(side[: behind + 1]) for side in (expected.chunk, actual.chunk))
    rule = f"whole characters are held back, first at chunk {behind} of {len(expected.chunk)}"
    return rule, f"…{escaped(expected_text[-_LETTERS:])}", f"…{escaped(actual_text[-_LETTERS:])}"


def _other_text(text: str, ours: str, chunks: Sequence[str]) -> Difference:
    at = next((i for i, (a, b) in enumerate(zip(text, ours, strict=False)) if a != b), min(len(text), len(ours)))
    rule = f"the chunks do not join to the text, first at {at} of {len(text)} characters"
    if ours[at : at + 1] == "�":
        rule = f"a stream gave out half a character, at {at} of {len(text)} characters"
    expected_text, actual_text = (around(decoded.letters(side), at) for side in (text, ours))
    index = sum(place <= at for place in accumulate(map(len, chunks[:-1]), initial=0)) - 1
    return f"{rule}, chunk {index}", expected_text, actual_text


Stream = Callable[[Oracle, list[tuple[int, bytes]]], Iterator[str]]
"""From ids with their bytes (none for those that are skipped) to a chunk for each, and one more."""


def _stream(stream: Stream, skip: Callable[[bool], bool] = bool) -> Compute:
    def compute(oracle: Oracle, message: pb.Decoding, state: State) -> Any:
        pieces = state.get("pieces") or [oracle.bytes_of(number) for number in message.id]
        gone = skipped(oracle, skip(message.skip_special_tokens))
        return tuple(stream(oracle, [(n, b"" if n in gone else p) for n, p in zip(message.id, pieces, strict=False)]))

    return compute


def _incremental(errors: str = "replace", end: bool = True) -> Stream:
    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        decoder = getincrementaldecoder("utf-8")(errors)
        yield from (decoder.decode(piece) for _, piece in parts)
        yield decoder.decode(b"", True) if end else ""

    return stream


def _ignored_inside(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")("ignore")
    yield from (decoder.decode(piece) for _, piece in parts)
    yield replaced(decoder.getstate()[0])


def _held(ready: Callable[[bytes], bool], end: Callable[[bytes], str] = replaced) -> Stream:
    """Bytes are held until they are `ready`."""

    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        held = b""
        for _number, piece in parts:
            held += piece
            yield replaced(held) if ready(held) else ""
            held = b"" if ready(held) else held
        yield end(held)

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


def _alone(charset: str, errors: str = "strict") -> Stream:
    return lambda _, parts: iter([*(piece.decode(charset, errors) for _, piece in parts), ""])


def _grown(whole: bool) -> Stream:
    """The text so far decoded again, and what is longer than before: a character that mends a U+FFFD is lost.

    `whole`: nothing is given out while the text ends in U+FFFD. The end is lost.
    """

    def stream(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
        data, before = b"", 0
        for _number, piece in parts:
            data += piece
            text = replaced(data)
            ready = not whole or not text.endswith("\ufffd")
            yield text[before:] if ready else ""
            before = before if not ready else len(text) if whole else max(before, len(text))
        yield ""

    return stream


def _cut_by_bytes(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    """What is new in the bytes of the text so far: a U+FFFD has three, and what mends it another number."""
    data, before = b"", 0
    for _number, piece in parts:
        data += piece
        text = replaced(data).encode()
        yield replaced(text[before:])
        before = len(text)
    yield ""


def _bytes_as_characters(_: Oracle, parts: list[tuple[int, bytes]]) -> Iterator[str]:
    """What is new in the characters of the text so far, from the number of bytes that were given out."""
    data, before = b"", 0
    for _number, piece in parts:
        data += piece
        yield replaced(data)[before:]
        before = len(data)
    yield ""


def _is_special(oracle: Oracle, number: int, _: bytes) -> bool:
    return number in oracle.special


def _is_added(oracle: Oracle, number: int, _: bytes) -> bool:
    return number in oracle.added


def _whole(data: bytes) -> bool:
    return not replaced(data).endswith("\ufffd")


def _valid(data: bytes) -> bool:
    return replaced(data).encode() == data


def _up_to(size: int) -> Stream:
    return _held(lambda data: _valid(data) or len(data) >= size)


_FIX = "keep the bytes of an unfinished character until they are whole or can never be; give the rest out at the end"

_STREAMS = wrong_ways("chunks", _stream, _FIX, [
    ("each_id_alone", "decodes each id alone: characters that stand in several ids break", _alone("utf-8", "replace")),
    ("invalid_dropped", "drops bytes that are no character", _incremental("ignore")),
    ("invalid_dropped", "decodes each id alone and drops what is no character", _alone("utf-8", "ignore")),
    ("invalid_dropped", "drops bytes that are no character, but not at the end", _ignored_inside),
    ("end_dropped", "drops what is held at the end", _incremental(end=False)),
    ("end_dropped", "holds back what ends in U+FFFD, and drops it at the end", _held(_whole, lambda b: "")),
    ("end_dropped", "waits until all held bytes are valid, and drops them at the end", _held(_valid, lambda b: "")),
    ("end_dropped", "drops at the end whatever is no character", _held(_whole, lambda b: b.decode(errors="ignore"))),
    ("end_dropped", "gives out how much longer the text has grown, never what ends in U+FFFD", _grown(whole=True)),
    ("replacement_dropped", "drops U+FFFD at the end", _held(_whole, lambda b: replaced(b).rstrip("\ufffd"))),
    ("broken", "gives out how much longer the text has grown: a broken character is never mended", _grown(whole=False)),
    ("cut_by_bytes", "gives out how many bytes longer the text has grown", _cut_by_bytes),
    ("cut_by_bytes", "counts what it gave out in bytes, and goes on there in the characters", _bytes_as_characters),
    *(("broken", f"gives up on a character when {n} bytes are held", _up_to(n)) for n in (2, 3, 4)),
    ("flushed_by_special", "skipped special tokens push a half character out", _flushed(_is_special, lost=False)),
    ("flushed_by_special", "added tokens push a half character out", _flushed(_is_added, lost=False)),
    ("flushed_by_special", "a half character before a special token is lost", _flushed(_is_special, lost=True)),
    ("flushed_by_special", "a half character before an added token is lost", _flushed(_is_added, lost=True)),
    ("flushed_by_space", "a half character before a space is lost",
        _flushed(lambda _, __, piece: piece.startswith(b" "), lost=True)),
    ("latin1", "decodes Latin-1", _alone("latin-1")),
])  # fmt: skip

_SKIPPED = wrong_ways("chunks", lambda skip: _stream(_incremental(), skip),
    "with skip_special_tokens leave out exactly the added tokens that are special, without it nothing", [
    ("skip_ignored", "gives special tokens out that are to be skipped", lambda skip: False),
    ("always_skipped", "skips special tokens unasked", lambda skip: True),
])  # fmt: skip


def _changed(change: Callable[[Chunks], Chunks]) -> Compute:
    """The right chunks, changed."""
    truth = _stream(_incremental())
    return lambda oracle, message, state: change(truth(oracle, message, state))


def _of_text(change: Callable[[str], str]) -> Compute:
    """Chunks whose join is the right text, changed."""

    def compute(oracle: Oracle, message: pb.Decoding, state: State) -> Any:
        text = state["decoded"] if "decoded" in state else decoded.truth(oracle, message, state)
        return _join(message, change(text))

    return compute


_CHANGED = wrong_ways("chunks", directly, _FIX, [
    ("replacement_dropped", "drops U+FFFD", _of_text(lambda text: text.replace("\ufffd", ""))),
    ("repeated", "gives all text so far out again each time", _changed(lambda c: tuple(accumulate(c)))),
    ("repeated", "gives all text out again, nothing at the end", _changed(lambda c: (*accumulate(c[:-1]), c[-1]))),
    ("stripped", "drops the space in front of each chunk", _changed(lambda c: tuple(x.removeprefix(" ") for x in c))),
    ("stripped", "drops the space in front of the text", _of_text(lambda text: text.removeprefix(" "))),
    ("stripped", "strips white space off each chunk", _changed(lambda c: tuple(chunk.strip() for chunk in c))),
    ("held_back", "gives everything out at the end only", _changed(lambda c: (*("" for _ in c[1:]), "".join(c)))),
    ("all_at_once", "gives everything out at the first id", _changed(lambda c: ("".join(c), *("" for _ in c[1:])))),
    ("end_missing", "gives one chunk for each id and none at the end", _changed(lambda c: c[:-1])),
    ("end_missing", "puts the end into the last id's chunk", _changed(lambda c: (*c[:-2], "".join(c[-2:])))),
    ("empty_left_out", "leaves out chunks with nothing in them", _changed(lambda c: tuple(x for x in c if x))),
    ("first_missing", "loses the first chunk", _changed(lambda c: ("", *c[1:]))),
    ("bom_dropped", "drops a byte order mark", _of_text(lambda text: text.removeprefix("\ufeff"))),
])  # fmt: skip

STAGE = Stage(
    _truth,
    lambda message: tuple(message.chunk),
    lambda message: view("chunks", list(message.chunk), escaped, "|"),
    [*_STREAMS, *_SKIPPED, *_CHANGED],
    differs=_differs,
    same=_same,
    allowed=_allowed,
)
