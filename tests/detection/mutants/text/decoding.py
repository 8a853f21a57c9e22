"""Bugs from ids to text: the bytes of an id, the text of all bytes together, the text of a stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from detection.mutants.text.seeds import Seed, behind, swap, wrong
from qwen3_encdec.tokenizer.byte_symbols import BYTES, SYMBOLS
from qwen3_encdec.tokenizer.decode import text_of
from qwen3_encdec.tokenizer.stream import StreamDecoder
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

WHITE = {SYMBOLS[byte]: bytes([byte]) for byte in b" \n\t"}


def _white_alone(piece: str) -> bytes:
    return b"".join(WHITE.get(character) or character.encode("latin-1", errors="replace") for character in piece)


def _decode(text: Callable[[list[bytes]], str]) -> Seed:
    """The text of the ids' bytes in another way; what is skipped is right."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[..., str]:
        def decode(ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
            bytes_of = tokenizer._visible_bytes_of if skip_special_tokens else tokenizer._bytes_of
            return text([bytes_of(token_id, at) for at, token_id in enumerate(ids)])

        return decode

    return swap("decode", make)


def _each_alone(pieces: list[bytes]) -> str:
    return "".join(map(text_of, pieces))


def _stream(kind: type[StreamDecoder]) -> Seed:
    """A stream of another kind."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[..., StreamDecoder]:
        return lambda *, skip_special_tokens=False: kind(
            tokenizer._visible_bytes_of if skip_special_tokens else tokenizer._bytes_of
        )

    return swap("stream", make)


class _EachAlone(StreamDecoder):
    def push(self, id: int) -> str:
        return text_of(self._bytes_of(id, 0))


class _Strict(StreamDecoder):
    def finish(self) -> str:
        return self._waiting.decode()


class _Repeats(StreamDecoder):
    _before = ""

    def push(self, id: int) -> str:
        self._before += super().push(id)
        return self._before


class _UpToFour(StreamDecoder):
    """Bytes of a broken character are given out four at a time."""

    def push(self, id: int) -> str:
        self._waiting += self._bytes_of(id, 0)
        text = text_of(self._waiting)
        if len(self._waiting) < 4 and ("\ufffd" in text or not text.isprintable()):
            return ""
        self._waiting = b""
        return text


MUTANTS = (
    wrong("TKB-02/decode", "maps Ġ, Ċ and ĉ alone back to bytes", swap("to_bytes", lambda _: _white_alone), "pieces",
          "pieces.white_space_alone", "decoding"),
    wrong("TKB-08", "knows no piece with a character that stands for no byte",
          swap("to_bytes", lambda _: lambda piece: bytes(BYTES[character] for character in piece)), "pieces", "",
          "decoding"),
    wrong("TKB-05", "decodes each id alone", _decode(_each_alone), "decoded", "decoded.each_id_alone", "decoding"),
    wrong("TKB-13", "decodes strictly", _decode(lambda pieces: b"".join(pieces).decode()), "decoded", "", "decoding"),
    wrong("own/tokenizer-byte-fallback", "reads <0x0A> in a text as a byte",
          behind("decode", lambda text: re.sub("<0x([0-9A-F]{2})>", lambda match: chr(int(match[1], 16)), text)),
          "decoded", "decoded.byte_fallback", "decoding"),
    wrong("TKB-05/stream", "streams each id alone", _stream(_EachAlone), "chunks", "chunks.each_id_alone", "decoding"),
    wrong("TKB-06", "decodes strictly at the end", _stream(_Strict), "chunks", "", "decoding"),
    wrong("own/tokenizer-stream-repeats", "gives all text so far again", _stream(_Repeats), "chunks", "chunks.repeated",
          "decoding"),
    wrong("own/tokenizer-stream-four", "gives up on a character at four bytes held", _stream(_UpToFour), "chunks",
          "chunks.each_id_alone chunks.broken", "decoding"),
)  # fmt: skip
