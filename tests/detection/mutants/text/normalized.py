"""Bugs in normalisation: another form, another Unicode, half an algorithm, or a text that is tidied up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, around, put

UNICODE, WORDS, SPACES = "tokenization/unicode", "tokenization/words", "tokenization/whitespace"
Normalize = Callable[[str], str]


def _form(name: Any) -> Seed:
    return put("normalize", lambda text: unicodedata.normalize(name, text))


def _after(change: Normalize) -> Seed:
    """The right form, then changed."""
    return around("normalize", lambda plain, text: change(plain(text)))


def _without_accents(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def _without_hangul(plain: Normalize, text: str) -> str:
    return re.sub(r"[^\u1100-\u11ff\uac00-\ud7a3]+", lambda match: plain(match[0]), text)


def _neighbours(plain: Normalize, text: str) -> str:
    """Each character composed with the one before it; nothing is put in order first."""
    out: list[str] = []
    for one in "".join(map(plain, text)):
        if out and len(both := plain(out[-1] + one)) == 1:
            out[-1] = both
        else:
            out.append(one)
    return "".join(out)


def _unblocked(plain: Normalize, text: str) -> str:
    """A mark reaches its letter past any other mark."""
    out: list[str] = []
    starter = -1
    for one in unicodedata.normalize("NFD", text):
        if starter >= 0 and len(both := plain(out[starter] + one)) == 1 and unicodedata.combining(one):
            out[starter] = both
            continue
        if not unicodedata.combining(one):
            starter = len(out)
        out.append(one)
    return plain("".join(out))


@cache
def _excluded() -> dict[str, str]:
    """What must stay apart: two characters whose composition the standard excludes."""
    composed = [chr(code) for code in range(0x900, 0xFB50) if not 0xAC00 <= code < 0xE000]
    apart = {unicodedata.normalize("NFD", one): one for one in composed}
    return {two: one for two, one in apart.items() if len(two) == 2 and unicodedata.normalize("NFC", one) == two}


def _composes_excluded(text: str) -> str:
    return _replaced(text, _excluded())


def _replaced(text: str, table: Mapping[str, str]) -> str:
    for old, new in table.items():
        text = text.replace(old, new)
    return text


def _not_singletons(plain: Normalize, text: str) -> str:
    """Characters that are another spelling of a single one stay as they are."""
    spelt = {one for one in text if plain(one) != one and len(plain(one)) == 1}
    parts = re.split(f"([{re.escape(''.join(spelt))}])", text) if spelt else [text]
    return "".join(one if one in spelt else plain(one) for one in parts)


def _latin_marks(plain: Normalize, text: str) -> str:
    """Only the marks from U+0300 on are composed."""
    return re.sub(".[\u0300-\u036f]+", lambda match: plain(match[0]), text, flags=re.DOTALL)


UNICODE_16 = {
    "\U000105d2\u0307": "\U000105c9",
    "\U000105da\u0307": "\U000105e4",
    "\U00011382\U000113c9": "\U00011383",
    "\U00016d67\U00016d67": "\U00016d68",
}
"""Compositions that Unicode 16 brought."""


def _in_chunks(plain: Normalize, text: str) -> str:
    return "".join(plain(text[at : at + 8]) for at in range(0, len(text), 8))


def _wrong(name: str, says: str, seed: Seed, named: str, case: str = UNICODE) -> Any:
    return entry(name, says, seed, ["normalized"], named, [case])


MUTANTS = (
    _wrong("TKS-13", "does not normalise", put("normalize", lambda text: text), "normalized.missing"),
    _wrong("TKS-14", "NFKC for NFC", _form("NFKC"), "normalized.nfkc"),
    _wrong("TKS-14/nfd", "NFD for NFC", _form("NFD"), "normalized.nfd"),
    _wrong("TKS-14/nfkd", "NFKD for NFC", _form("NFKD"), "normalized.nfkd"),
    _wrong("TKS-14/accents", "drops accents", put("normalize", _without_accents), "normalized.accents_dropped"),
    _wrong("TOK-09", "puts a space before the text", _after(lambda text: " " + text), "normalized.prefix_space", WORDS),
    _wrong("TOK-09/strip", "strips the text", _after(str.strip), "normalized.stripped", WORDS),
    _wrong("TOK-09/right", "strips the end of the text", _after(str.rstrip), "normalized.stripped_right", WORDS),
    _wrong("TKS-10/collapsed", "collapses runs of spaces, as SentencePiece does",
           _after(lambda text: re.sub(" {2,}", " ", text)), "normalized.spaces_collapsed", WORDS),
    _wrong("TKS-10/added", "puts a space before plain text that has none",
           _after(lambda text: text if text.startswith(" ") else " " + text), "normalized.prefix_space_if_none",
           "tokenization/sentinels"),
    _wrong("own/tokenizer-nfc-newer", "NFC of Unicode 16", _after(lambda text: _replaced(text, UNICODE_16)),
           "normalized.other_unicode"),
    _wrong("own/tokenizer-nfc-hangul", "composes no Hangul", around("normalize", _without_hangul),
           "normalized.no_hangul"),
    _wrong("own/tokenizer-nfc-order", "composes neighbours without putting marks in order",
           around("normalize", _neighbours), "normalized.no_reordering"),
    _wrong("own/tokenizer-nfc-blocked", "composes past a mark that blocks", around("normalize", _unblocked),
           "normalized.blocking_ignored"),
    _wrong("own/tokenizer-nfc-excluded", "composes what the standard excludes", _after(_composes_excluded),
           "normalized.exclusions_composed"),
    _wrong("own/tokenizer-nfc-singletons", "leaves characters that have one other spelling, such as the Kelvin sign",
           around("normalize", _not_singletons), "normalized.singletons_kept"),
    _wrong("own/tokenizer-nfc-latin", "composes with the marks from U+0300 alone", around("normalize", _latin_marks),
           "normalized.latin_alone"),
    _wrong("own/tokenizer-nfc-chunks", "normalises eight characters at a time", around("normalize", _in_chunks),
           "normalized.in_chunks"),
    _wrong("own/tokenizer-byte-order-mark", "drops a byte-order mark at the start",
           _after(lambda text: text.removeprefix("\ufeff")), "normalized.bom_dropped"),
    _wrong("own/tokenizer-line-ends", "makes CR LF and CR a line feed",
           _after(lambda text: text.replace("\r\n", "\n").replace("\r", "\n")), "normalized.line_ends", SPACES),
    _wrong("own/tokenizer-nul", "ends the text at a NUL", _after(lambda text: text.partition("\0")[0]),
           "normalized.cut_at_nul"),
    _wrong("own/tokenizer-controls", "drops control characters",
           _after(lambda text: re.sub(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]", "", text)),
           "normalized.controls_dropped"),
    _wrong("own/tokenizer-lower-case", "lowers the case", _after(str.lower), "normalized.lower_case", WORDS),
    _wrong("own/tokenizer-quotes", "makes curly apostrophes straight",
           _after(lambda text: text.translate({0x2018: "'", 0x2019: "'"})), "normalized.quotes", WORDS),
    _wrong("own/tokenizer-replacement-dropped", "drops U+FFFD", _after(lambda text: text.replace("\ufffd", "")),
           "normalized.replacement_dropped"),
)  # fmt: skip
