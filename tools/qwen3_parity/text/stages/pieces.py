"""The stage `pieces`: the bytes that an id stands for. Its value: bytes of each id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.view import view


def _each(change: Callable[[Oracle, int, str, bytes], bytes]) -> Compute:
    """From each id, its piece and its right bytes."""

    def compute(oracle: Oracle, message: pb.Decoding, _: State) -> Any:
        return tuple(change(oracle, n, oracle.pieces.get(n, ""), oracle.bytes_of(n)) for n in message.id)

    return compute


def _all(change: Callable[[str, bytes], bytes]) -> Compute:
    return _each(lambda oracle, number, piece, data: change(piece, data))


def _plain(change: Callable[[str, bytes], bytes]) -> Compute:
    """Added tokens are right."""
    return _each(lambda o, number, piece, data: data if number in o.added else change(piece, data))


def _white(symbols: str, charset: str) -> Compute:
    """Only these symbols (of white space) are mapped back."""
    known = {ord(symbol): white for symbol, white in zip("ĠĊĉč", " \n\t\r", strict=True) if symbol in symbols}
    return _plain(lambda piece, _: piece.translate(known).encode(charset, "replace"))


def _symbols(piece: str, _: bytes) -> bytes:
    return piece.encode()


def _latin1(_: str, data: bytes) -> bytes:
    return data.decode("latin-1").encode()


def _low(piece: str, _: bytes) -> bytes:
    return bytes(ord(symbol) & 0xFF for symbol in piece)


_WRONG = wrong_ways("pieces", directly,
    "map each symbol back to its byte; a piece with other characters, or an added token, is its own UTF-8", [
    ("symbols", "gives the symbols (Ġ) instead of the bytes that they stand for", _all(_symbols)),
    ("symbols", "gives the symbols (Ġ) instead of the bytes, but of added tokens", _plain(_symbols)),
    *(("white_space_alone", f"maps only {' '.join(symbols)} back to bytes",
        _white(symbols, "utf-8"), _white(symbols, "latin-1")) for symbols in ("Ġ", "ĠĊ", "ĠĊĉ", "ĠĊĉč")),
    ("each_decoded", "decodes the piece alone: bytes that are no character become U+FFFD",
        _all(lambda _, data: data.decode(errors="replace").encode())),
    ("invalid_dropped", "decodes the piece alone: bytes that are no character are lost",
        _all(lambda _, data: data.decode(errors="ignore").encode())),
    ("latin1", "takes bytes for Latin-1 characters", _all(_latin1)),
    ("latin1", "takes bytes for Latin-1 characters, but of added tokens", _plain(_latin1)),
    ("low_bits", "keeps eight bits of each symbol", _plain(_low), _all(_low)),
    ("added_empty", "has no bytes for added tokens", _each(lambda o, n, _, data: data * (n not in o.added))),
    ("special_empty", "has no bytes for special tokens", _each(lambda o, n, _, data: data * (n not in o.special))),
    ("raw_empty", "has no bytes for pieces with characters outside the map",
        _all(lambda piece, data: b"" if data == piece.encode() and not piece.isascii() else data)),
    ("byte_fallback", "takes <0x0A> for a byte, as SentencePiece does",
        _all(lambda p, data: bytes.fromhex(p[3:5]) if len(p) == 6 and p.startswith("<0x") else data)),
    ("leading_space_dropped", "drops a leading space", _all(lambda _, data: data.removeprefix(b" "))),
    ("stripped", "strips white space", _all(lambda _, data: data.strip())),
    ("metaspace", "writes U+2581 for spaces", _all(lambda _, data: data.replace(b" ", "\u2581".encode()))),
    ("cut_at_nul", "ends at the byte 0, as a C string does", _all(lambda _, data: data.partition(b"\0")[0])),
    ("shifted", "gives the next id's bytes", _each(lambda o, number, *_: o.bytes_of(number + 1))),
    ("shifted", "gives the bytes of the id before", _each(lambda o, number, *_: o.bytes_of(number - 1))),
    ("lower_case", "turns letters into lower case", _all(lambda _, data: data.lower())),
])  # fmt: skip

STAGE = Stage(
    _all(lambda _, data: data),
    lambda message: tuple(message.piece),
    lambda message: view("pieces", list(message.piece), repr, " "),
    _WRONG,
)
