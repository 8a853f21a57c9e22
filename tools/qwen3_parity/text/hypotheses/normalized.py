"""Wrong ways to tidy a text up while it is normalised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from qwen3_parity.text.hypotheses.composition import normal, through
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways

_WHITE = " \t\n\r\x0b\x0c"


def _each(change: Callable[[str], str]) -> Compute:
    """The segments' own texts through a function, no NFC."""
    return through(lambda _, text: change(text))


def _nfc(change: Callable[[str], str]) -> Compute:
    """The same behind Hugging Face's normaliser."""
    return through(lambda oracle, text: change(normal(oracle, text)))


def _without(categories: tuple[str, ...], text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) not in categories)


def _no_controls(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or unicodedata.category(c) not in ("Cc", "Cf"))


def _no_plain_controls(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or unicodedata.category(c) != "Cc")


def _prefix(text: str) -> str:
    return text if text.startswith(" ") or not text else f" {text}"


_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def _narrow(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - 0xFEE0)


WRONG: list[Wrong] = wrong_ways(
    "normalized",
    "normalise to NFC and change nothing else: Qwen's tokenizer keeps every space, letter case and control character",
    [
        (name, says, of(change))
        for name, says, change in (
            ("stripped", "strips white space from both ends", str.strip),
            ("stripped", "strips white space from both ends", lambda t: t.strip(_WHITE)),
            ("stripped_left", "strips leading white space", str.lstrip),
            ("stripped_right", "strips trailing white space", str.rstrip),
            ("stripped_space", "strips spaces from both ends", lambda t: t.strip(" ")),
            ("prefix_space_if_none", "puts a space in front", _prefix),
            ("prefix_space", "puts a space in front, also of a space", lambda t: f" {t}"),
            ("suffix_space", "puts a space behind", lambda t: f"{t} "),
            ("spaces_collapsed", "makes one of several spaces", lambda t: re.sub(" +", " ", t)),
            ("white_space_collapsed", "makes one space of a run of white space", lambda t: re.sub(r"\s+", " ", t)),
            (
                "white_space_collapsed",
                "makes one space of a run of white space and strips",
                lambda t: " ".join(t.split()),
            ),
            ("line_ends", "turns CR LF into LF", lambda t: t.replace("\r\n", "\n")),
            ("line_ends", "turns CR LF and CR into LF", lambda t: t.replace("\r\n", "\n").replace("\r", "\n")),
            ("carriage_returns_removed", "removes CR", lambda t: t.replace("\r", "")),
            ("tabs_expanded", "turns tabs into spaces", lambda t: t.replace("\t", " ")),
            ("tabs_expanded", "turns tabs into four spaces", lambda t: t.replace("\t", "    ")),
            ("lower_case", "turns letters into lower case", str.lower),
            ("lower_case", "folds the case of letters", str.casefold),
            ("upper_case", "turns letters into upper case", str.upper),
            (
                "accents_dropped",
                "removes accents and other marks",
                lambda t: _without(("Mn",), unicodedata.normalize("NFD", t)),
            ),
            ("bom_dropped", "removes U+FEFF at the start", lambda t: t.removeprefix("\ufeff")),
            ("bom_dropped", "removes U+FEFF", lambda t: t.replace("\ufeff", "")),
            ("replacement_dropped", "drops U+FFFD", lambda t: t.replace("\ufffd", "")),
            ("controls_dropped", "removes control characters", lambda t: _without(("Cc",), t)),
            ("controls_dropped", "removes control and format characters", _no_controls),
            (
                "controls_dropped",
                "removes control characters and U+FFFD, as BERT does",
                lambda t: _no_controls(t).replace("\ufffd", ""),
            ),
            ("controls_dropped", "removes control characters but tab and newlines", _no_plain_controls),
            (
                "controls_dropped",
                "removes control characters but tab and newlines, and U+FFFD",
                lambda t: _no_plain_controls(t).replace("\ufffd", ""),
            ),
            (
                "accents_dropped",
                "removes combining marks",
                lambda t: "".join(c for c in unicodedata.normalize("NFD", t) if not unicodedata.combining(c)),
            ),
            ("format_removed", "removes format characters (joiners, soft hyphens)", lambda t: _without(("Cf",), t)),
            ("zero_removed", "removes U+0000", lambda t: t.replace("\0", "")),
            ("cut_at_nul", "ends at U+0000, as a C string does", lambda t: t.split("\0")[0]),
            ("no_break_space", "turns U+00A0 into a space", lambda t: t.replace("\xa0", " ")),
            ("unicode_spaces", "turns Unicode's spaces into plain ones", lambda t: _SPACES.sub(" ", t)),
            ("quotes", "turns curly quotes into straight ones", lambda t: t.translate(_QUOTES)),
            ("metaspace", "writes U+2581 for spaces, as SentencePiece does", lambda t: t.replace(" ", "\u2581")),
            ("ascii_only", "drops what is not ASCII", lambda t: t.encode("ascii", "ignore").decode()),
            ("ascii_only", "replaces what is not ASCII", lambda t: t.encode("ascii", "replace").decode()),
            (
                "read_as_latin1",
                "reads the UTF-8 bytes as Latin-1 characters",
                lambda t: t.encode("utf-8", "surrogatepass").decode("latin-1"),
            ),
            (
                "read_as_latin1",
                "reads the UTF-8 bytes as Windows-1252 characters",
                lambda t: t.encode().decode("cp1252", "replace"),
            ),
            (
                "utf16_units",
                "turns characters above U+FFFF into two U+FFFD: their UTF-16 halves",
                lambda t: re.sub("[\U00010000-\U0010ffff]", "\ufffd\ufffd", t),
            ),
            (
                "utf16_units",
                "turns characters above U+FFFF into U+FFFD",
                lambda t: re.sub("[\U00010000-\U0010ffff]", "\ufffd", t),
            ),
            (
                "utf16_units",
                "drops characters above U+FFFF",
                lambda t: re.sub("[\U00010000-\U0010ffff]", "", t),
            ),
            (
                "utf16_units",
                "keeps the lower 16 bits of characters above U+FFFF",
                lambda t: "".join(chr(ord(c) & 0xFFFF) if not 0xD800 <= ord(c) & 0xFFFF < 0xE000 else c for c in t),
            ),
            ("full_width", "turns full-width ASCII into ASCII", lambda t: re.sub("[！-～]", _narrow, t)),
        )
        for of in (_nfc, _each)
    ],
)


"""Of the stage `normalized`. Several rows with one name are one mistake made in several ways."""
