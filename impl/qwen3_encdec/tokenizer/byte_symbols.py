"""Byte-level BPE writes each byte as one printable character, a *symbol*, so that vocabularies are readable text.

A printable byte of Latin-1 (0x21–0x7E, 0xA1–0xAC, 0xAE–0xFF) is its own symbol. The other 68, in ascending order, are
the characters from U+0100 on: the space, 0x20, is the 33rd of them, "Ġ".
"""

from collections.abc import Mapping

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

SYMBOLS: tuple[str, ...] = tuple(
    chr(byte if byte in _PRINTABLE else 0x100 + _OTHERS.index(byte)) for byte in range(256)
)
"""The symbol of each byte."""

BYTES: Mapping[str, int] = {symbol: byte for byte, symbol in enumerate(SYMBOLS)}
"""The byte of each symbol."""

_TRANSLATION = dict(enumerate(SYMBOLS))


def to_symbols(text: str) -> str:
    """The symbols of a text's bytes in UTF-8; `UnicodeEncodeError` for a lone surrogate."""
    return text.encode().decode("latin-1").translate(_TRANSLATION)


def to_bytes(piece: str) -> bytes:
    """The bytes that a vocabulary's piece stands for; a piece with a character that is no symbol is its own UTF-8."""
    try:
        return bytes([BYTES[symbol] for symbol in piece])
    except KeyError:
        return piece.encode()
