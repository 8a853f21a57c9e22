"""Bugs in byte symbols: characters instead of bytes, other encodings, holes in the map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, around, behind, both, made, put
from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS

UNICODE, SPACES, MERGES = "tokenization/unicode", "tokenization/whitespace", "tokenization/merges"
WHITE = {ord(" "): SYMBOLS[0x20], ord("\n"): SYMBOLS[0x0A], ord("\t"): SYMBOLS[0x09]}


def _of(data: bytes) -> str:
    return "".join(SYMBOLS[byte] for byte in data)


def _units(text: str) -> list[str]:
    """The UTF-16 units of a text, each as one character."""
    data = text.encode("utf-16-le")
    return [chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)]


def _lenient(tokenizer: Any) -> Callable[[str], tuple[list[str], list[int]]]:
    """A merge that leaves out what the vocabulary lacks, as Hugging Face's does without an unknown token."""
    plain = tokenizer.merge

    def merge(symbols: str) -> tuple[list[str], list[int]]:
        pieces, ranks = plain("".join(one for one in symbols if one in tokenizer.vocabulary))
        return pieces, ranks

    return merge


def _wrong(name: str, says: str, to_symbols: Callable[[str], str], named: str, case: str = UNICODE) -> Any:
    seed: Seed = both(made("merge", _lenient), put("to_symbols", to_symbols))
    return entry(name, says, seed, ["symbols"], named, [case])


def _behind(name: str, says: str, change: Callable[[str], str], named: str, case: str = UNICODE) -> Any:
    return entry(name, says, both(made("merge", _lenient), behind("to_symbols", change)), ["symbols"], named, [case])


MUTANTS = (
    _wrong("TKB-01", "starts from characters", lambda text: text.translate({32: "Ġ"}), "symbols.characters"),
    _wrong("TKB-01/latin1", "encodes as Latin-1", lambda text: _of(text.encode("latin-1", errors="replace")),
           "symbols.latin1"),
    _wrong("TKB-01/utf16", "encodes as UTF-16", lambda text: _of(text.encode("utf-16-le")), "symbols.utf16"),
    _wrong("TKB-02", "maps the space, the line feed and the tab alone",
           lambda text: text.encode().decode("latin-1").translate(WHITE), "symbols.white_space_alone"),
    _wrong("TOK-10", "encodes each half of a surrogate pair",
           lambda text: _of("".join(_units(text)).encode("utf-8", errors="surrogatepass")), "symbols.surrogate_halves"),
    _wrong("TOK-10/replaced", "replaces each half of a surrogate pair",
           lambda text: _of("".join("\ufffd" if "\ud800" <= one < "\ue000" else one for one in _units(text)).encode()),
           "symbols.surrogates_replaced"),
    _wrong("own/tokenizer-nul-modified", "writes NUL as C0 80, as Java does",
           lambda text: _of(text.encode().replace(b"\0", b"\xc0\x80")), "symbols.modified_utf8"),
    _behind("own/tokenizer-symbol-of-ad", "the byte AD stands for itself",
            lambda symbols: symbols.replace(SYMBOLS[0xAD], "\xad"), "symbols.soft_hyphen"),
    _behind("own/tokenizer-symbol-of-7f", "the symbols above 7E are late by one",
            lambda symbols: symbols.translate({ord(SYMBOLS[byte]): SYMBOLS[byte + 1] for byte in range(0x7F, 0xA0)}),
            "symbols.shifted"),
    _behind("own/tokenizer-metaspace", "a space is ▁", lambda symbols: symbols.replace(SYMBOLS[0x20], "▁"),
            "symbols.metaspace", SPACES),
    _behind("own/tokenizer-piece-255-bytes", "a pre-token holds 255 bytes at most", lambda symbols: symbols[:255],
            "symbols.truncated", MERGES),
    entry("TOK-09/pieces", "strips each pre-token",
          around("to_symbols", lambda plain, text: plain(text.strip(" ") or text)), ["symbols"], "symbols.stripped",
          [SPACES]),
)  # fmt: skip
