"""The stage `normalized`: each plain segment in NFC. Its value: a text for each plain segment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, wrong_ways
from qwen3_parity.text.stages.segments import plain
from qwen3_parity.text.view import View, Views, escaped


def normal(oracle: Oracle, text: str) -> str:
    """The text as Hugging Face normalises it."""
    normalizer = oracle.reference.backend.normalizer
    return text if normalizer is None else str(normalizer.normalize_str(text))


def _through(change: Callable[[Oracle, str], str]) -> Compute:
    """Each plain segment changed."""

    def compute(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
        texts = [message.text[begin:end] for begin, end, added in state["segments"] if added is None]
        return tuple(change(oracle, text) for text in texts)

    return compute


def _views(message: pb.Encoding) -> Views:
    characters: list[str | None] = []
    places: list[int] = []
    for segment in plain(message):
        if text := segment.normalized:
            characters += [*text, None]  # None: the end of a segment
            places += range(segment.begin, segment.begin + len(text) + 1)

    def show(at: int) -> str:
        character = characters[at]
        return escaped(character) if character is not None else " | " if at + 1 < len(characters) else ""

    return {"normalized characters": View(characters, show, "", places)}


_HANGUL = "[\u1100-\u11ff\uac00-\ud7a3]+"
_ASTRAL = "[\U00010000-\U0010ffff]"


@cache
def _of_type(oracle: Oracle, form: str) -> Any:
    return oracle.variant(normalizer={"type": form}).normalizer


def _form(form: str) -> Callable[[Oracle, str], str]:
    return lambda oracle, text: str(_of_type(oracle, form).normalize_str(text))


def _newer(form: str) -> Callable[[Oracle, str], str]:
    return lambda _, text: unicodedata.normalize(form, text)  # type: ignore[arg-type]


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _neighbours(compose: Callable[[str], str], text: str) -> str:
    """Each character composed with the one before it where that gives one character; nothing reordered."""
    out = ""
    for character in text:
        joined = compose(out[-1:] + character)
        out = out[:-1] + joined if len(joined) == 1 and out else out + character
    return out


def _unblocked(oracle: Oracle, text: str) -> str:
    """Each mark is composed with its letter, whatever stands between."""
    out: list[str] = []
    letter = -1
    for character in str(_of_type(oracle, "NFD").normalize_str(text)):
        mark = unicodedata.combining(character)
        joined = normal(oracle, out[letter] + character) if mark and letter >= 0 else ""
        if len(joined) == 1:
            out[letter] = joined
            continue
        letter = letter if mark else len(out)
        out.append(character)
    return normal(oracle, "".join(out))


@cache
def _excluded() -> tuple[re.Pattern[str], dict[str, str]]:
    """Two characters that a third decomposes into and that do not compose to it."""
    every = [chr(point) for point in range(0x900, 0xFB50) if not 0xAC00 <= point < 0xE000]
    pairs = {unicodedata.normalize("NFD", character): character for character in every}
    excluded = {two: third for two, third in pairs.items() if len(two) == 2 and _composed(third) == two}
    return re.compile("|".join(map(re.escape, excluded))), excluded


def _with_excluded(oracle: Oracle, text: str) -> str:
    pattern, excluded = _excluded()
    return pattern.sub(lambda match: excluded[match[0]], normal(oracle, text))


@cache
def _singletons(oracle: Oracle) -> str:
    every = [chr(point) for point in range(0x80, 0x30000) if not 0xAC00 <= point < 0xE000]
    same = [character for character in every if len(new := normal(oracle, character)) == 1 and new != character]
    return "[" + re.escape("".join(same)) + "]"


def _but(pattern: str, oracle: Oracle, text: str) -> str:
    """Everything normalised but what matches, which also cuts the text."""
    edges = [0, *(edge for match in re.finditer(pattern, text) for edge in match.span()), len(text)]
    parts = [text[begin:end] for begin, end in pairwise(edges)]
    return "".join(part if number % 2 else normal(oracle, part) for number, part in enumerate(parts))


def _only(pattern: str, oracle: Oracle, text: str) -> str:
    return re.sub(pattern, lambda match: normal(oracle, match[0]), text)


def _by(size: int) -> Callable[[Oracle, str], str]:
    return lambda o, text: "".join(normal(o, text[at : at + size]) for at in range(0, len(text), size))


def _after_cutting(oracle: Oracle, text: str) -> str:
    cut = oracle.reference.backend.pre_tokenizer.pre_tokenize_str(text)
    return "".join(normal(oracle, text[begin:end]) for _, (begin, end) in cut)


_FORMS = wrong_ways("normalized", _through,
    "normalise to NFC with the Unicode tables of the reference (canonical composition, nothing else)", [
    ("missing", "the text is not normalised", lambda _, t: t),
    ("nfd", "decomposes (NFD) instead of composing", _form("NFD")),
    ("nfkc", "folds compatibility characters too (NFKC)", _form("NFKC")),
    ("nfkd", "decomposes with compatibility folding (NFKD)", _form("NFKD")),
    ("other_unicode", "composes by newer Unicode tables than the reference's", _newer("NFC")),
    ("nfd", "decomposes (NFD) by newer Unicode tables", _newer("NFD")),
    ("nfkc", "folds compatibility characters (NFKC), by newer Unicode tables", _newer("NFKC")),
    ("nfkd", "decomposes with compatibility folding (NFKD), by newer Unicode tables", _newer("NFKD")),
    ("no_hangul", "leaves Hangul jamo and syllables as they are", lambda o, t: _but(_HANGUL, o, t)),
    ("after_cutting", "normalises each pre-token for itself, after cutting", _after_cutting),
    ("each_character_alone", "normalises each character alone, so that nothing composes", _by(1)),
    ("hangul_only", "composes Hangul and nothing else", lambda o, t: _only(_HANGUL, o, t)),
    ("bmp_only", "leaves characters above U+FFFF as they are", lambda o, t: _but(f"{_ASTRAL}+", o, t)),
    ("no_reordering", "composes neighbours without decomposing first", lambda _, t: _neighbours(_composed, t)),
    ("no_reordering", "composes neighbours without putting marks in order",
        lambda o, t: _neighbours(lambda pair: normal(o, pair), "".join(normal(o, c) for c in t))),
    ("blocking_ignored", "composes past a mark that blocks", _unblocked),
    ("exclusions_composed", "composes also what the standard excludes", _with_excluded),
    ("singletons_kept", "leaves characters with one other spelling (U+212A)", lambda o, t: _but(_singletons(o), o, t)),
    ("latin_alone", "composes marks from U+0300 to U+036F alone", lambda o, t: _only("(?s:.)[\u0300-\u036f]+", o, t)),
    *(("in_chunks", f"normalises {n} characters at a time", _by(n)) for n in (4, 8, 16, 32, 64)),
])  # fmt: skip

_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_SPACES = r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"


def _without(categories: tuple[str, ...], text: str, keep: str = "") -> str:
    """The text without characters of some general categories, but those to keep."""
    return "".join(c for c in text if c in keep or unicodedata.category(c) not in categories)


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _behind(change: Callable[[str], str]) -> Compute:
    return _through(lambda oracle, text: change(normal(oracle, text)))


def _instead(change: Callable[[str], str]) -> Compute:
    return _through(lambda _, text: change(text))


_TIDY = (
    "normalise to NFC and change nothing else: Qwen's tokenizer keeps every space, letter case and control character"
)
TIDIED: list[tuple[Any, ...]] = [
    ("stripped", "strips white space from both ends", str.strip, lambda t: t.strip(" \t\n\r\x0b\x0c")),
    ("stripped_left", "strips leading white space", str.lstrip),
    ("stripped_right", "strips trailing white space", str.rstrip),
    ("stripped_space", "strips spaces from both ends", lambda t: t.strip(" ")),
    ("prefix_space_if_none", "puts a space in front", lambda t: t if t[:1] in ("", " ") else f" {t}"),
    ("prefix_space", "puts a space in front, also of a space", lambda t: f" {t}"),
    ("suffix_space", "puts a space behind", lambda t: f"{t} "),
    ("spaces_collapsed", "makes one of several spaces", lambda t: re.sub(" +", " ", t)),
    ("white_space_collapsed", "makes one space of a run of white space", lambda t: re.sub(r"\s+", " ", t)),
    ("white_space_collapsed", "makes one space of a run of white space and strips", lambda t: " ".join(t.split())),
    ("line_ends", "turns CR LF into LF", lambda t: t.replace("\r\n", "\n")),
    ("line_ends", "turns CR LF and CR into LF", lambda t: t.replace("\r\n", "\n").replace("\r", "\n")),
    ("carriage_returns_removed", "removes CR", lambda t: t.replace("\r", "")),
    ("tabs_expanded", "turns tabs into spaces", lambda t: t.replace("\t", " ")),
    ("tabs_expanded", "turns tabs into four spaces", lambda t: t.replace("\t", "    ")),
    ("lower_case", "turns letters into lower case", str.lower),
    ("lower_case", "folds the case of letters", str.casefold),
    ("upper_case", "turns letters into upper case", str.upper),
    ("accents_dropped", "removes accents and other marks", lambda t: _without(("Mn",), _nfd(t))),
    ("accents_dropped", "drops combining marks", lambda t: "".join(c for c in _nfd(t) if not unicodedata.combining(c))),
    ("bom_dropped", "removes U+FEFF at the start", lambda t: t.removeprefix("\ufeff")),
    ("bom_dropped", "removes U+FEFF", lambda t: t.replace("\ufeff", "")),
    ("replacement_dropped", "drops U+FFFD", lambda t: t.replace("\ufffd", "")),
    ("controls_dropped", "removes control characters", lambda t: _without(("Cc",), t)),
    ("controls_dropped", "removes control and format characters", lambda t: _without(("Cc", "Cf"), t, "\t\n\r")),
    ("controls_dropped", "removes control characters and U+FFFD, as BERT does",
        lambda t: _without(("Cc", "Cf"), t, "\t\n\r").replace("\ufffd", "")),
    ("controls_dropped", "removes control characters but tab and newlines", lambda t: _without(("Cc",), t, "\t\n\r")),
    ("controls_dropped", "removes control characters but tab and newlines, and U+FFFD",
        lambda t: _without(("Cc",), t, "\t\n\r").replace("\ufffd", "")),
    ("format_removed", "removes format characters (joiners, soft hyphens)", lambda t: _without(("Cf",), t)),
    ("zero_removed", "removes U+0000", lambda t: t.replace("\0", "")),
    ("cut_at_nul", "ends at U+0000, as a C string does", lambda t: t.split("\0")[0]),
    ("no_break_space", "turns U+00A0 into a space", lambda t: t.replace("\xa0", " ")),
    ("unicode_spaces", "turns Unicode's spaces into plain ones", lambda t: re.sub(_SPACES, " ", t)),
    ("quotes", "turns curly quotes into straight ones", lambda t: t.translate(_QUOTES)),
    ("metaspace", "writes U+2581 for spaces, as SentencePiece does", lambda t: t.replace(" ", "\u2581")),
    ("ascii_only", "drops what is not ASCII", lambda t: t.encode("ascii", "ignore").decode()),
    ("ascii_only", "replaces what is not ASCII", lambda t: t.encode("ascii", "replace").decode()),
    ("read_as_latin1", "reads the UTF-8 bytes as Latin-1 characters",
        lambda t: t.encode("utf-8", "surrogatepass").decode("latin-1")),
    ("read_as_latin1", "reads UTF-8 as Windows-1252 characters", lambda t: t.encode().decode("cp1252", "replace")),
    ("utf16_units", "turns characters above U+FFFF into two U+FFFD: their UTF-16 halves",
        lambda t: re.sub(_ASTRAL, "\ufffd\ufffd", t)),
    ("utf16_units", "turns characters above U+FFFF into U+FFFD", lambda t: re.sub(_ASTRAL, "\ufffd", t)),
    ("utf16_units", "drops characters above U+FFFF", lambda t: re.sub(_ASTRAL, "", t)),
    ("utf16_units", "keeps the lower 16 bits of characters above U+FFFF",
        lambda t: "".join(c if 0xD800 <= ord(c) & 0xFFFF < 0xE000 else chr(ord(c) & 0xFFFF) for c in t)),
    ("full_width", "turns full-width into ASCII", lambda t: re.sub("[！-～]", lambda m: chr(ord(m[0]) - 0xFEE0), t)),
]  # fmt: skip
"""What is done to a text, here or where ids are decoded."""


STAGE = Stage(
    _through(normal),
    lambda message: tuple(s.normalized for s in plain(message)),
    _views,
    [*_FORMS, *(w for how in (_behind, _instead) for w in wrong_ways("normalized", how, _TIDY, TIDIED))],
    holds=any,
)
