"""Bugs in streaming: broken characters, lost ends, text given twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, put
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

DECODING = "tokenization/decoding"


class Stream:
    """A stream that decodes what it has so far; `push` and `finish` are made from three wrong or right decisions."""

    def __init__(
        self,
        tokenizer: ByteLevelTokenizer,
        skip: bool,
        ready: Callable[[bytes], int],
        at_end: Callable[[bytes], str],
        of: Callable[[bytes], str],
    ) -> None:
        special = {token.id for token in tokenizer.added_tokens if token.special}
        self._bytes_of: Callable[[int], bytes] = lambda id: b"" if skip and id in special else tokenizer.token_bytes(id)
        self._held, self._ready, self._at_end, self._of = b"", ready, at_end, of

    def push(self, id: int) -> str:
        """The text of the held bytes that are `ready`."""
        self._held += self._bytes_of(id)
        size = self._ready(self._held)
        out, self._held = self._held[:size], self._held[size:]
        return self._of(out)

    def finish(self) -> str:
        """What `at_end` makes of what is left."""
        return self._at_end(self._held)


def _replaced(data: bytes) -> str:
    return data.decode(errors="replace")


def whole(data: bytes) -> int:
    """How many bytes can be given out: all but a beginning of a character that may yet be completed."""
    for size in range(1, min(4, len(data) + 1)):
        lead = data[-size]
        if lead >= 0xC0:
            tail = data[-size:]
            needed = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            open_ended = size < needed and len(tail.decode(errors="replace")) == 1 and 0xC2 <= lead <= 0xF4
            return len(data) - size if open_ended else len(data)
        if lead < 0x80:
            break
    return len(data)


def _stream(
    ready: Callable[[bytes], int] = whole,
    at_end: Callable[[bytes], str] = _replaced,
    of: Callable[[bytes], str] = _replaced,
    skips: bool = True,
) -> Seed:
    def seed(tokenizer: ByteLevelTokenizer) -> None:
        def stream(*, skip_special_tokens: bool = False) -> Any:
            return Stream(tokenizer, skip_special_tokens and skips, ready, at_end, of)

        put("stream", stream)(tokenizer)

    return seed


def _wrapped(push: Callable[[Any, int, ByteLevelTokenizer], str]) -> Seed:
    """`push(stream, id, tokenizer)` in the place of the stream's own."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        plain = tokenizer.stream

        class Wrapped:
            def __init__(self, skip: bool) -> None:
                self.plain = plain(skip_special_tokens=skip)
                self.finish = self.plain.finish
                self.before = ""

            def push(self, id: int) -> str:
                return push(self, id, tokenizer)

        put("stream", lambda *, skip_special_tokens=False: Wrapped(skip_special_tokens))(tokenizer)

    return seed


def _all_so_far(stream: Any, id: int, tokenizer: ByteLevelTokenizer) -> str:
    stream.before += stream.plain.push(id)
    return str(stream.before)


def _one_behind(stream: Any, id: int, tokenizer: ByteLevelTokenizer) -> str:
    ready, stream.before = str(stream.before), str(stream.plain.push(id))
    plain = stream.plain.finish
    stream.finish = lambda: stream.before + plain()
    return ready


def _flushed_by_special(stream: Any, id: int, tokenizer: ByteLevelTokenizer) -> str:
    special = {token.id for token in tokenizer.added_tokens if token.special}
    left = str(stream.plain.finish()) if id in special else ""
    return left + str(stream.plain.push(id))


def _end_of_replacement(text: str) -> str:
    return text.rstrip("\ufffd")


def _not_replaced(data: bytes) -> int:
    """Nothing as long as the text ends in U+FFFD, be it a real one."""
    return 0 if _replaced(data).endswith("\ufffd") else len(data)


def _up_to_four(data: bytes) -> int:
    """Bytes of a broken character are dropped four at a time."""
    return len(data) if (_replaced(data).isprintable() and "\ufffd" not in _replaced(data)) or len(data) >= 4 else 0


def _wrong(name: str, says: str, seed: Seed, named: str) -> Any:
    return entry(name, says, seed, ["chunks"], named, [DECODING])


MUTANTS = (
    _wrong("TKB-05/stream", "streams each id alone", _stream(ready=len), "chunks.each_id_alone"),
    _wrong("TKB-06", "decodes strictly at the end", _stream(at_end=bytes.decode), ""),
    _wrong("TKB-06/dropped", "drops the last bytes", _stream(at_end=lambda data: ""), "chunks.end_dropped"),
    _wrong("TKB-06/held", "waits while the text ends in U+FFFD, and drops it at the end",
           _stream(_not_replaced, lambda data: _end_of_replacement(_replaced(data))),
           "chunks.end_dropped chunks.replacement_dropped"),
    _wrong("TKB-06/ignored", "drops bytes that are no character", _stream(of=lambda data: data.decode(errors="ignore")),
           "chunks.invalid_dropped"),
    _wrong("TKB-06/late", "gives all text out at the end", _stream(lambda data: 0), "chunks.held_back"),
    _wrong("own/tokenizer-stream-one-behind", "gives each id's text out with the next", _wrapped(_one_behind),
           "chunks.held_back"),
    _wrong("own/tokenizer-stream-repeats", "gives all text so far again", _wrapped(_all_so_far), "chunks.repeated"),
    _wrong("own/tokenizer-stream-skips-none", "streams special tokens that were to be skipped", _stream(skips=False),
           "chunks.skip_ignored"),
    _wrong("own/tokenizer-stream-flushed", "special tokens flush half a character, though they are skipped",
           _wrapped(_flushed_by_special), "chunks.flushed_by_special"),
    _wrong("own/tokenizer-stream-stripped", "strips the space at the beginning of each chunk",
           _stream(of=lambda data: _replaced(data).removeprefix(" ")), "chunks.stripped"),
    _wrong("own/tokenizer-stream-four", "gives up on a character at four bytes held", _stream(_up_to_four),
           "chunks.each_id_alone chunks.broken"),
)  # fmt: skip
