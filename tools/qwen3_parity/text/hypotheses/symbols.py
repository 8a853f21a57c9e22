"""Wrong ways to write a pre-token's bytes as printable characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import texts_of


@cache
def _map(oracle: Oracle) -> tuple[str, ...]:
    """The printable character of each byte, asked of Hugging Face: characters whose UTF-8 holds the byte."""
    table = [""] * 256
    for point in [*range(0x801), *range(0x1000, 0xD000, 0x1000), *range(0xE000, 0x110000, 0x1000)]:
        character = chr(point)
        for byte, symbol in zip(character.encode(), oracle.symbols(character), strict=True):
            table[byte] = symbol
    return tuple(symbol or chr(byte) for byte, symbol in enumerate(table))


def _each(change: Callable[[Oracle, str], str]) -> Compute:
    def compute(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
        return tuple(change(oracle, text) for text in texts_of(state))

    return compute


def _bytes(encode: Callable[[str], bytes]) -> Compute:
    """Hugging Face's map on other bytes."""
    return _each(lambda oracle, text: "".join(_map(oracle)[byte] for byte in encode(text)))


def _mapped(symbol: Callable[[int, str], str]) -> Compute:
    """Another map on the UTF-8 bytes: from a byte and its right symbol."""
    return _each(lambda oracle, text: "".join(symbol(byte, _map(oracle)[byte]) for byte in text.encode()))


def _named(text: str) -> str:
    return text.replace(" ", "Ġ").replace("\n", "Ċ").replace("\t", "ĉ").replace("\r", "č")


def _cesu8(text: str) -> bytes:
    """Characters above U+FFFF as two surrogates of three bytes each."""
    units = text.encode("utf-16-be")
    pairs = [chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2)]
    return "".join(pairs).encode("utf-8", "surrogatepass")


def _halves(text: str, put: str) -> str:
    return "".join(put if ord(character) > 0xFFFF else character for character in text)


def _first(count: int) -> Compute:
    return _each(lambda oracle, text: oracle.symbols(text)[:count])


WRONG: list[Wrong] = wrong_ways(
    "symbols",
    "encode the pre-token as UTF-8 and write each of its bytes as the character of GPT-2's map (space is Ġ)",
    [
        ("characters", "starts from characters, with Ġ for the space", _each(lambda o, t: t.replace(" ", "Ġ"))),
        ("characters", "starts from characters instead of bytes", _each(lambda o, t: t)),
        ("white_space_alone", "maps only space, newline and tab", _each(lambda o, t: _named(t))),
        ("white_space_alone", "maps only space and newline",
            _each(lambda o, t: t.replace(" ", "Ġ").replace("\n", "Ċ"))),
        ("white_space_alone", "maps only the space; other bytes are Latin-1",
            _mapped(lambda b, s: s if b == 32 else chr(b))),
        ("white_space_alone", "maps only space, newline and tab; other bytes are Latin-1",
            _mapped(lambda b, s: s if b in b" \n\t" else chr(b))),
        ("white_space_alone", "maps only white space; other bytes are Latin-1",
            _mapped(lambda b, s: s if b in b" \n\t\r" else chr(b))),
        ("raw_bytes", "writes bytes as Latin-1 characters, without the map", _mapped(lambda b, s: chr(b))),
        ("characters_mapped", "maps characters below 256 instead of UTF-8 bytes, keeps the others", _each(
            lambda o, t: "".join(_map(o)[ord(c)] if ord(c) < 256 else c for c in t))),
        ("characters_mapped", "maps characters below 256 instead of UTF-8 bytes, drops the others", _each(
            lambda o, t: "".join(_map(o)[ord(c)] if ord(c) < 256 else "" for c in t))),
        ("ascii_controls_only", "maps bytes below 0x21 only", _mapped(lambda b, s: s if b < 0x21 else chr(b))),
        ("upper_bytes_unmapped", "leaves bytes from 0x7F to 0xA0 unmapped",
            _mapped(lambda b, s: chr(b) if 0x7F <= b <= 0xA0 else s)),
        ("upper_bytes_unmapped", "leaves bytes from 0x80 unmapped", _mapped(lambda b, s: chr(b) if b >= 0x80 else s)),
        ("delete_unmapped", "leaves the byte 0x7F unmapped", _mapped(lambda b, s: chr(b) if b == 0x7F else s)),
        ("soft_hyphen", "leaves the byte 0xAD unmapped", _mapped(lambda b, s: chr(b) if b == 0xAD else s)),
        ("no_break_space_unmapped", "leaves the byte 0xA0 unmapped", _mapped(lambda b, s: chr(b) if b == 0xA0 else s)),
        ("no_break_space_unmapped", "counts the byte 0xA0 as printable: later symbols move", _mapped(
            lambda b, s: chr(b) if b == 0xA0 else chr(ord(s) - 1) if b == 0xAD else s)),
        ("shifted", "moves unprintable bytes by 256", _mapped(lambda b, s: s if s == chr(b) else chr(b + 256))),
        ("shifted", "moves every byte by 256", _mapped(lambda b, s: chr(b + 256))),
        ("shifted", "moves the symbols above 0x7E by one",
            _mapped(lambda b, s: chr(ord(s) + 1) if 0x7F <= b < 0xA0 else s)),
        ("shifted", "moves the symbols above 0x7E by one",
            _mapped(lambda b, s: chr(ord(s) + 1) if 0x7F <= b <= 0xA0 else s)),
        ("shifted", "moves unprintable bytes one place too far",
            _mapped(lambda b, s: s if s == chr(b) else chr(ord(s) + 1))),
        ("mapped_twice", "maps bytes that are mapped already", _each(lambda o, t: o.symbols(o.symbols(t)))),
        ("surrogate_halves", "encodes UTF-16 surrogates one by one (CESU-8, Java's modified UTF-8)", _bytes(_cesu8)),
        ("modified_utf8", "encodes U+0000 as two bytes", _bytes(lambda t: t.encode().replace(b"\0", b"\xc0\x80"))),
        ("modified_utf8", "encodes U+0000 as two bytes, and UTF-16 surrogates (Java's modified UTF-8)",
            _bytes(lambda t: _cesu8(t).replace(b"\0", b"\xc0\x80"))),
        ("surrogates_replaced", "replaces characters above U+FFFF", _bytes(lambda t: _halves(t, "??").encode())),
        ("surrogates_replaced", "replaces characters above U+FFFF", _bytes(lambda t: _halves(t, "?").encode())),
        ("surrogates_replaced", "replaces characters above U+FFFF",
            _bytes(lambda t: _halves(t, "\ufffd\ufffd").encode())),
        ("surrogates_replaced", "replaces characters above U+FFFF", _bytes(lambda t: _halves(t, "\ufffd").encode())),
        ("surrogates_replaced", "drops characters above U+FFFF", _bytes(lambda t: _halves(t, "").encode())),
        ("utf16", "takes the bytes of UTF-16", _bytes(lambda t: t.encode("utf-16-le"))),
        ("utf16", "takes the bytes of UTF-16, the high one first", _bytes(lambda t: t.encode("utf-16-be"))),
        ("latin1", "takes the bytes of Latin-1", _bytes(lambda t: t.encode("latin-1", "replace"))),
        ("latin1_bytes", "takes the bytes of Windows-1252", _bytes(lambda t: t.encode("cp1252", "replace"))),
        ("low_bytes", "keeps the low byte of each character", _bytes(lambda t: bytes(ord(c) & 0xFF for c in t))),
        ("ascii_only", "drops what is not ASCII", _bytes(lambda t: t.encode("ascii", "ignore"))),
        ("ascii_only", "replaces what is not ASCII", _bytes(lambda t: t.encode("ascii", "replace"))),
        ("decomposed", "takes the bytes of NFD", _bytes(lambda t: unicodedata.normalize("NFD", t).encode())),
        ("seven_bits", "drops the highest bit of bytes", _bytes(lambda t: bytes(b & 0x7F for b in t.encode()))),
        ("metaspace", "writes U+2581 for spaces, as SentencePiece does", _each(lambda o, t: t.replace(" ", "\u2581"))),
        ("metaspace", "writes U+2581 for spaces, the other bytes by the map",
            _mapped(lambda b, s: "\u2581" if b == 32 else s)),
        ("byte_fallback", "writes bytes as <0x0A>, as SentencePiece does",
            _mapped(lambda b, s: s if s == chr(b) and b < 128 else f"<0x{b:02X}>")),
        ("byte_fallback", "writes bytes as <0x0A>, as SentencePiece does",
            _mapped(lambda b, s: s if b < 128 else f"<0x{b:02X}>")),
        ("prefix_space", "puts a space in front of each pre-token",
            _each(lambda o, t: o.symbols(t if t.startswith(" ") else f" {t}"))),
        ("spaces_dropped", "drops spaces", _each(lambda o, t: o.symbols(t.replace(" ", "")))),
        ("spaces_dropped", "strips white space", _each(lambda o, t: o.symbols(t.strip()))),
        ("lower_case", "turns letters into lower case", _each(lambda o, t: o.symbols(t.lower()))),
        ("cut_at_nul", "ends at the byte 0, as a C string does", _bytes(lambda t: t.encode().split(b"\0")[0])),
        *(("truncated", f"ends after {n} symbols",
            _first(n)) for n in (64, 100, 127, 128, 255, 256, 512, 1024)),
        ("stripped", "strips spaces off each pre-token", _each(lambda o, t: o.symbols(t.strip(" ") or t))),
        ("stripped", "strips white space off each pre-token", _each(lambda o, t: o.symbols(t.strip() or t))),
        ("reversed", "writes the bytes of a character in reverse",
            _bytes(lambda t: b"".join(c.encode()[::-1] for c in t))),
    ],
)  # fmt: skip
"""Of the stage `symbols`."""
