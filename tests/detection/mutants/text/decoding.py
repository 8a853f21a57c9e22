"""Bugs in decoding: the bytes of an id, and the text of all bytes together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, behind, put
from qwen3_encdec.tokenizer.byte_symbols import BYTES, SYMBOLS
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

DECODING = "tokenization/decoding"
WHITE = {SYMBOLS[byte]: bytes([byte]) for byte in b" \n\t"}


def _pieces(to_bytes: Callable[[str], bytes]) -> Seed:
    return put("to_bytes", to_bytes)


def _white_alone(piece: str) -> bytes:
    return b"".join(WHITE.get(one) or one.encode("latin-1", errors="replace") for one in piece)


def _masked(piece: str) -> bytes:
    """Symbols above U+00FF are made bytes by their lowest eight bits."""
    return bytes(ord(one) & 0xFF for one in piece)


def _decode(text_of: Callable[[bytes], str]) -> Seed:
    """The bytes become text in another way; what is skipped is right."""
    return _seen(lambda pieces: text_of(b"".join(pieces)))


def _seen(text_of: Callable[[list[bytes]], str], keep: Callable[[Any, bool], bool] | None = None) -> Seed:
    """The text of the ids' bytes; `keep(added token, skip)` says which added tokens are left in."""
    kept = keep or (lambda token, skip: not (skip and token.special))

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        added = {token.id: token for token in tokenizer.added_tokens}

        def decode(ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
            left = [one for one in ids if one not in added or kept(added[one], skip_special_tokens)]
            return text_of([tokenizer.token_bytes(one) for one in left])

        put("decode", decode)(tokenizer)

    return seed


def _plain(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")


def _each_alone(pieces: list[bytes]) -> str:
    return "".join(piece.decode(errors="replace") for piece in pieces)


def _clean_up(text: str) -> str:
    for old in (" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(old, old[1:])
    return text.replace(" ' ", "'")


def _per_byte(data: bytes) -> str:
    return "".join("\ufffd" if "\udc80" <= one <= "\udcff" else one for one in data.decode(errors="surrogateescape"))


def _per_run(data: bytes) -> str:
    return re.sub("[\udc80-\udcff]+", "\ufffd", data.decode(errors="surrogateescape"))


def _spaces_between(tokenizer: ByteLevelTokenizer) -> None:
    """Added tokens stand between spaces, as slow tokenizers had them."""
    added = {token.id for token in tokenizer.added_tokens}
    plain = tokenizer.decode

    def decode(ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        groups: list[list[int]] = []
        for one in ids:
            if not groups or one in added or groups[-1][-1] in added:
                groups.append([])
            groups[-1].append(one)
        texts = [plain(group, skip_special_tokens=skip_special_tokens) for group in groups]
        return " ".join(text for text in texts if text)

    put("decode", decode)(tokenizer)


def _until_end(tokenizer: ByteLevelTokenizer) -> None:
    """Nothing behind the first end of a turn."""
    end, plain = tokenizer.id_of(str(tokenizer.files.eos_token)), tokenizer.decode

    def decode(ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        some = list(ids)
        return plain(some[: some.index(end)] if end in some else some, skip_special_tokens=skip_special_tokens)

    put("decode", decode)(tokenizer)


def _wrong(name: str, says: str, seed: Seed, named: str, wrong: str = "decoded") -> Any:
    return entry(name, says, seed, wrong.split(), named, [DECODING])


MUTANTS = (
    _wrong("TKB-02/decode", "maps Ġ, Ċ and ĉ alone back to bytes", _pieces(_white_alone), "pieces.white_space_alone",
           "pieces"),
    _wrong("own/tokenizer-pieces-raw", "gives a piece's symbols for its bytes", _pieces(str.encode), "pieces.symbols",
           "pieces"),
    _wrong("own/tokenizer-pieces-masked", "keeps eight bits of each symbol", _pieces(_masked), "pieces.low_bits",
           "pieces"),
    _wrong("own/tokenizer-pieces-text", "gives a piece's bytes as whole characters",
           behind("to_bytes", lambda data: data.decode(errors="replace").encode()), "pieces.each_decoded", "pieces"),
    _wrong("TKB-08", "knows no piece with a character that stands for no byte",
           _pieces(lambda piece: bytes(BYTES[one] for one in piece)), "", "pieces"),
    _wrong("TKB-05", "decodes each id alone", _seen(_each_alone), "decoded.each_id_alone"),
    _wrong("TKB-10", "cleans up spaces before punctuation", behind("decode", _clean_up), "decoded.cleaned_up"),
    _wrong("TKB-10/none", "skips no special token", _seen(_plain, lambda token, skip: True), "decoded.skip_ignored"),
    _wrong("TKB-10/all", "skips every added token", _seen(_plain, lambda token, skip: not skip),
           "decoded.all_added_skipped"),
    _wrong("TKB-10/always", "leaves special tokens out unasked", _seen(_plain, lambda token, skip: not token.special),
           "decoded.always_skipped"),
    _wrong("TKB-13", "decodes strictly", _decode(bytes.decode), ""),
    _wrong("TKB-13/ignored", "drops bytes that are no character", _decode(lambda data: data.decode(errors="ignore")),
           "decoded.invalid_dropped"),
    _wrong("own/tokenizer-decode-latin1", "decodes Latin-1", _decode(lambda data: data.decode("latin-1")),
           "decoded.latin1"),
    _wrong("own/tokenizer-decode-per-byte", "one U+FFFD for each bad byte", _decode(_per_byte),
           "decoded.replacement_per_byte"),
    _wrong("own/tokenizer-decode-per-run", "one U+FFFD for a run of bad bytes", _decode(_per_run),
           "decoded.replacement_per_run"),
    _wrong("own/tokenizer-decode-mark", "drops a byte-order mark",
           _decode(lambda data: data.decode("utf-8-sig", errors="replace")), "decoded.bom_dropped"),
    _wrong("own/tokenizer-decode-stripped", "strips a leading space",
           behind("decode", lambda text: text.removeprefix(" ")), "decoded.lstripped"),
    _wrong("own/tokenizer-decode-nul", "ends the text at a NUL", behind("decode", lambda text: text.partition("\0")[0]),
           "decoded.cut_at_nul"),
    _wrong("own/tokenizer-byte-fallback", "reads <0x0A> in a text as a byte",
           behind("decode", lambda text: re.sub("<0x([0-9A-F]{2})>", lambda found: chr(int(found[1], 16)), text)),
           "decoded.byte_fallback"),
    _wrong("own/tokenizer-decode-overlong", "reads overlong UTF-8",
           _decode(lambda data: data.replace(b"\xc0\xaf", b"/").decode(errors="replace")), "decoded.overlong"),
    _wrong("own/tokenizer-decode-spaces", "puts spaces around added tokens", _spaces_between, "decoded.spaces_between"),
    _wrong("own/tokenizer-decode-end", "stops at the end of a turn", _until_end, "decoded.until_eos"),
)  # fmt: skip
