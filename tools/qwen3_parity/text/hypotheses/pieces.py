"""Wrong ways to tell the bytes that an id stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_reference.tokenization.decoding import piece_bytes

Change = Callable[[Oracle, int, str, bytes], bytes]
"""From an id, its piece and its right bytes."""


def _each(change: Change) -> Compute:
    def compute(oracle: Oracle, given: pb.Decoding, _: State) -> Any:
        pieces = [(number, oracle.pieces.get(number, "")) for number in given.id]
        return tuple(change(oracle, number, piece, piece_bytes(piece)) for number, piece in pieces)

    return compute


def _plain(change: Callable[[str, bytes], bytes]) -> Compute:
    """Added tokens are right."""
    return _each(lambda o, number, piece, data: data if number in o.reference.added else change(piece, data))


def _white(symbols: str) -> Callable[[str, bytes], bytes]:
    """Only these symbols (of white space) are mapped back."""
    known = {"Ġ": " ", "Ċ": "\n", "ĉ": "\t", "č": "\r"}
    return lambda piece, _: "".join(known[one] if one in symbols else one for one in piece).encode()


def _white_latin1(symbols: str) -> Callable[[str, bytes], bytes]:
    known = {"Ġ": b" ", "Ċ": b"\n", "ĉ": b"\t", "č": b"\r"}
    latin1 = str.maketrans({one: known[one].decode() for one in symbols})
    return lambda piece, _: piece.translate(latin1).encode("latin-1", "replace")


def _shifted(by: int) -> Compute:
    return _each(lambda o, number, piece, data: piece_bytes(o.pieces.get(number + by, "")))


WRONG: list[Wrong] = wrong_ways(
    "pieces",
    "map each symbol of the piece back to its byte; a piece with other characters, or an added token, is its own UTF-8",
    [
        ("symbols", "gives the symbols (Ġ) instead of the bytes that they stand for",
            _each(lambda o, n, piece, data: piece.encode())),
        ("symbols", "gives the symbols (Ġ) instead of the bytes, but of added tokens",
            _plain(lambda piece, data: piece.encode())),
        *(("white_space_alone", f"maps only {' '.join(some)} back to bytes",
            _plain(of(some))) for some in ("Ġ", "ĠĊ", "ĠĊĉ", "ĠĊĉč") for of in (_white, _white_latin1)),
        ("each_decoded", "decodes the piece alone: bytes that are no character become U+FFFD",
            _each(lambda o, n, p, data: data.decode(errors="replace").encode())),
        ("invalid_dropped", "decodes the piece alone: bytes that are no character are lost",
            _each(lambda o, n, p, data: data.decode(errors="ignore").encode())),
        ("latin1", "takes bytes for Latin-1 characters", _each(lambda o, n, p, data: data.decode("latin-1").encode())),
        ("latin1", "takes bytes for Latin-1 characters, but of added tokens",
            _plain(lambda p, data: data.decode("latin-1").encode())),
        ("low_bits", "keeps eight bits of each symbol", _plain(lambda p, data: bytes(ord(one) & 0xFF for one in p))),
        ("low_bits", "keeps eight bits of each symbol",
            _each(lambda o, n, p, data: bytes(ord(one) & 0xFF for one in p))),
        ("added_empty", "has no bytes for added tokens",
            _each(lambda o, n, p, data: b"" if n in o.reference.added else data)),
        ("special_empty", "has no bytes for special tokens",
            _each(lambda o, n, p, data: b"" if n in o.reference.special else data)),
        ("raw_empty", "has no bytes for pieces with characters outside the map",
            _each(lambda o, n, p, data: b"" if data == p.encode() and not p.isascii() else data)),
        ("byte_fallback", "takes <0x0A> for a byte, as SentencePiece does",
            _each(lambda o, n, p, data: bytes.fromhex(p[3:5]) if len(p) == 6 and p.startswith("<0x") else data)),
        ("leading_space_dropped", "drops a leading space", _each(lambda o, n, p, data: data.removeprefix(b" "))),
        ("stripped", "strips white space", _each(lambda o, n, p, data: data.strip())),
        ("metaspace", "writes U+2581 for spaces", _each(lambda o, n, p, data: data.replace(b" ", b"\xe2\x96\x81"))),
        ("cut_at_nul", "ends at the byte 0, as a C string does", _each(lambda o, n, p, data: data.partition(b"\0")[0])),
        ("shifted", "gives the next id's bytes", _shifted(1)),
        ("shifted", "gives the bytes of the id before", _shifted(-1)),
        ("lower_case", "turns letters into lower case", _each(lambda o, n, p, data: data.lower())),
    ],
)  # fmt: skip
"""Of the stage `pieces`."""
