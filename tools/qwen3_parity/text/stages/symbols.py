"""The stage `symbols`: a pre-token's bytes, one printable character each. Its value: symbols of each pre-token."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, wrong_ways
from qwen3_parity.text.stages.normalized import normal
from qwen3_parity.text.stages.pre_tokens import cut_by, pre_tokens, texts
from qwen3_parity.text.view import View, Views, printable, shortened


def _each(change: Callable[[Oracle, str], str]) -> Compute:
    return lambda oracle, _, state: tuple(change(oracle, text) for text in texts(state))


def _views(message: pb.Encoding) -> Views:
    rows = [(piece.symbols, place + piece.begin) for place, _, piece in pre_tokens(message)]
    symbols, places = [symbols for symbols, _ in rows], [place for _, place in rows]
    return {"symbols of pre-tokens": View(symbols, lambda at: shortened(printable(symbols[at])), "|", places)}


def _of_some_reading(oracle: Oracle, _: Any, actual: Sequence[str], __: Any, state: State) -> bool:
    """Wrong spans are the pre-tokens' fault: symbols are right for the characters, the bytes, or the true cut."""
    readings = []
    for text, pieces in zip(state["normalized"], state["pre_tokens"], strict=False):
        data, true = text.encode(), cut_by(oracle.reference.backend.pre_tokenizer, text)
        for number, piece in enumerate(pieces):
            spellings = {
                text[piece.begin : piece.end],
                data[piece.begin_byte : piece.end_byte].decode(errors="replace"),
            }
            if len(true) == len(pieces):
                spellings.add(text[true[number].begin : true[number].end])
            readings.append(set(map(oracle.symbols, spellings)))
    return len(actual) == len(readings) and all(
        symbols in allowed for symbols, allowed in zip(actual, readings, strict=True)
    )


@cache
def _map(oracle: Oracle) -> tuple[str, ...]:
    """The printable character of each byte, asked of Hugging Face: characters whose UTF-8 holds the byte."""
    table = [""] * 256
    for point in [*range(0x801), *range(0x1000, 0xD000, 0x1000), *range(0xE000, 0x110000, 0x1000)]:
        character = chr(point)
        for byte, symbol in zip(character.encode(), oracle.symbols(character), strict=True):
            table[byte] = symbol
    return tuple(symbol or chr(byte) for byte, symbol in enumerate(table))


def _mapped(symbol: Callable[[int, str], str]) -> Compute:
    """Another map on the UTF-8 bytes: from a byte and its right symbol."""
    return _each(lambda oracle, text: "".join(symbol(byte, _map(oracle)[byte]) for byte in text.encode()))


def _bytes(encode: Callable[[str], bytes]) -> Compute:
    """Hugging Face's map on other bytes."""
    return _each(lambda oracle, text: "".join(_map(oracle)[byte] for byte in encode(text)))


def _below_256(oracle: Oracle, text: str, keep: bool) -> str:
    return "".join(_map(oracle)[ord(c)] if ord(c) < 256 else c * keep for c in text)


def _cesu8(text: str) -> bytes:
    """Characters above U+FFFF as two surrogates of three bytes each."""
    units = text.encode("utf-16-be")
    pairs = [chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2)]
    return "".join(pairs).encode("utf-8", "surrogatepass")


def _astral(put: str) -> Callable[[str], bytes]:
    return lambda text: "".join(put if ord(character) > 0xFFFF else character for character in text).encode()


_FIX = "encode the pre-token as UTF-8 and write each of its bytes as the character of GPT-2's map (space is Ġ)"

_MAP = wrong_ways("symbols", _mapped, _FIX, [
    ("white_space_alone", "maps only the space; rest is Latin-1", lambda b, s: s if b == 32 else chr(b)),
    ("white_space_alone", "maps only space, newline, tab; rest is Latin-1",
        lambda b, s: s if b in b" \n\t" else chr(b)),
    ("white_space_alone", "maps only white space; rest is Latin-1", lambda b, s: s if b in b" \n\t\r" else chr(b)),
    ("raw_bytes", "writes bytes as Latin-1 characters, without the map", lambda b, s: chr(b)),
    ("ascii_controls_only", "maps bytes below 0x21 only", lambda b, s: s if b < 0x21 else chr(b)),
    ("upper_bytes_unmapped", "leaves bytes 0x7F to 0xA0 unmapped", lambda b, s: chr(b) if 0x7F <= b <= 0xA0 else s),
    ("upper_bytes_unmapped", "leaves bytes from 0x80 unmapped", lambda b, s: chr(b) if b >= 0x80 else s),
    ("delete_unmapped", "leaves the byte 0x7F unmapped", lambda b, s: chr(b) if b == 0x7F else s),
    ("soft_hyphen", "leaves the byte 0xAD unmapped", lambda b, s: chr(b) if b == 0xAD else s),
    ("no_break_space_unmapped", "leaves the byte 0xA0 unmapped", lambda b, s: chr(b) if b == 0xA0 else s),
    ("no_break_space_unmapped", "counts the byte 0xA0 as printable: later symbols move",
        lambda b, s: chr(b) if b == 0xA0 else chr(ord(s) - 1) if b == 0xAD else s),
    ("shifted", "moves unprintable bytes by 256", lambda b, s: s if s == chr(b) else chr(b + 256)),
    ("shifted", "moves every byte by 256", lambda b, s: chr(b + 256)),
    ("shifted", "moves the symbols above 0x7E by one", lambda b, s: chr(ord(s) + (0x7F <= b < 0xA0)),
        lambda b, s: chr(ord(s) + (0x7F <= b <= 0xA0))),
    ("shifted", "moves unprintable bytes one place too far", lambda b, s: s if s == chr(b) else chr(ord(s) + 1)),
    *(("space_mapped", f"writes {put!r} for the space, the other bytes by the map",
        lambda b, s, put=put: put if b == 32 else s) for put in " !_"),
    ("metaspace", "writes U+2581 for spaces, the other bytes by the map", lambda b, s: "\u2581" if b == 32 else s),
    ("byte_fallback", "writes bytes as <0x0A>, as SentencePiece does",
        lambda b, s: s if s == chr(b) and b < 128 else f"<0x{b:02X}>", lambda b, s: s if b < 128 else f"<0x{b:02X}>"),
])  # fmt: skip

_BYTES = wrong_ways("symbols", _bytes, _FIX, [
    ("surrogate_halves", "encodes UTF-16 surrogates one by one (CESU-8, Java's modified UTF-8)", _cesu8),
    ("modified_utf8", "encodes U+0000 as two bytes", lambda t: t.encode().replace(b"\0", b"\xc0\x80")),
    ("modified_utf8", "encodes U+0000 as two bytes, and UTF-16 surrogates (Java's modified UTF-8)",
        lambda t: _cesu8(t).replace(b"\0", b"\xc0\x80")),
    ("surrogates_replaced", "replaces characters above U+FFFF", *map(_astral, ("??", "?", "\ufffd\ufffd", "\ufffd"))),
    ("surrogates_replaced", "drops characters above U+FFFF", _astral("")),
    ("utf16", "takes the bytes of UTF-16", lambda t: t.encode("utf-16-le")),
    ("utf16", "takes the bytes of UTF-16, the high one first", lambda t: t.encode("utf-16-be")),
    ("latin1", "takes the bytes of Latin-1", lambda t: t.encode("latin-1", "replace")),
    ("latin1_bytes", "takes the bytes of Windows-1252", lambda t: t.encode("cp1252", "replace")),
    ("low_bytes", "keeps the low byte of each character", lambda t: bytes(ord(c) & 0xFF for c in t)),
    ("ascii_only", "drops what is not ASCII", lambda t: t.encode("ascii", "ignore")),
    ("ascii_only", "replaces what is not ASCII", lambda t: t.encode("ascii", "replace")),
    ("decomposed", "takes the bytes of NFD", lambda t: unicodedata.normalize("NFD", t).encode()),
    ("seven_bits", "drops the highest bit of bytes", lambda t: bytes(b & 0x7F for b in t.encode())),
    ("cut_at_nul", "ends at the byte 0, as a C string does", lambda t: t.encode().split(b"\0")[0]),
    ("reversed", "writes the bytes of a character in reverse", lambda t: b"".join(c.encode()[::-1] for c in t)),
    ("spaces_dropped", "drops spaces", lambda t: t.replace(" ", "").encode()),
    ("spaces_dropped", "strips white space", lambda t: t.strip().encode()),
    ("lower_case", "turns letters into lower case", lambda t: t.lower().encode()),
    ("prefix_space", "puts a space in front of each pre-token", lambda t: (" " * (t[:1] != " ") + t).encode()),
    ("stripped", "strips spaces off each pre-token", lambda t: (t.strip(" ") or t).encode()),
    ("stripped", "strips white space off each pre-token", lambda t: (t.strip() or t).encode()),
])  # fmt: skip

_CHARACTERS = wrong_ways("symbols", _each, _FIX, [
    ("characters", "starts from characters, with Ġ for the space", lambda o, t: t.replace(" ", "Ġ")),
    ("characters", "starts from characters instead of bytes", lambda o, t: t),
    ("white_space_alone", "maps only white space", lambda o, t: t.translate({32: "Ġ", 10: "Ċ", 9: "ĉ", 13: "č"})),
    ("white_space_alone", "maps only space and newline", lambda o, t: t.translate({32: "Ġ", 10: "Ċ"})),
    ("characters_mapped", "maps characters below 256 instead of UTF-8 bytes, keeps the others",
        lambda o, t: _below_256(o, t, keep=True)),
    ("characters_mapped", "maps characters below 256 instead of UTF-8 bytes, drops the others",
        lambda o, t: _below_256(o, t, keep=False)),
    ("normalized", "normalises (NFC) each pre-token for itself", lambda o, t: o.symbols(normal(o, t))),
    ("mapped_twice", "maps bytes that are mapped already", lambda o, t: o.symbols(o.symbols(t))),
    ("metaspace", "writes U+2581 for spaces, as SentencePiece does", lambda o, t: t.replace(" ", "\u2581")),
])  # fmt: skip

_TRUNCATED = wrong_ways("symbols", lambda size: _each(lambda oracle, text: oracle.symbols(text)[:size]),
    _FIX, [("truncated", f"ends after {n} symbols", n) for n in (64, 100, 127, 128, 255, 256, 512, 1024)])  # fmt: skip

STAGE = Stage(
    _each(lambda oracle, text: oracle.symbols(text)),
    lambda message: tuple(piece.symbols for _, _, piece in pre_tokens(message)),
    _views,
    [*_CHARACTERS, *_MAP, *_BYTES, *_TRUNCATED],
    holds=any,
    allowed=_of_some_reading,
)
