"""Wrong ways to normalise a segment: another form, other Unicode tables, half an algorithm."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State

_HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7a3]+")


def normal(oracle: Oracle, text: str) -> str:
    """The text as Hugging Face normalises it."""
    normalizer = oracle.reference.backend.normalizer
    return text if normalizer is None else str(normalizer.normalize_str(text))


def through(change: Callable[[Oracle, str], str]) -> Compute:
    """Each plain segment changed, in the place of being normalised."""

    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        plain = [given.text[begin:end] for begin, end, added in state["segments"] if added is None]
        return tuple(change(oracle, text) for text in plain)

    return compute


@cache
def _of_type(oracle: Oracle, form: str) -> Any:
    return oracle.variant(normalizer={"type": form}).normalizer


def _form(form: str) -> Compute:
    return through(lambda oracle, text: str(_of_type(oracle, form).normalize_str(text)))


def _newer(form: str) -> Compute:
    return through(lambda _, text: unicodedata.normalize(form, text))  # type: ignore[arg-type]


def _pairwise(text: str) -> str:
    """Each character composed with the one behind it where that gives one character; nothing reordered."""
    out = ""
    for character in text:
        joined = unicodedata.normalize("NFC", out[-1:] + character)
        out = out[:-1] + joined if len(joined) == 1 and out else out + character
    return out


_LATIN = re.compile("(?s:.)[\u0300-\u036f]+")


def _neighbours(oracle: Oracle, text: str) -> str:
    """Each character normalised, then composed with the one before it."""
    out: list[str] = []
    for character in "".join(normal(oracle, one) for one in text):
        joined = normal(oracle, out[-1] + character) if out else ""
        out = [*out[:-1], joined] if len(joined) == 1 else [*out, character]
    return "".join(out)


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
def _excluded() -> re.Pattern[str]:
    """Two characters that a third decomposes into and that do not compose to it."""
    return re.compile("|".join(map(re.escape, _apart())))


@cache
def _apart() -> dict[str, str]:
    every = [chr(point) for point in range(0x900, 0xFB50) if not 0xAC00 <= point < 0xE000]
    pairs = {unicodedata.normalize("NFD", one): one for one in every}
    return {two: one for two, one in pairs.items() if len(two) == 2 and unicodedata.normalize("NFC", one) == two}


def _with_excluded(oracle: Oracle, text: str) -> str:
    return _excluded().sub(lambda found: _apart()[found[0]], normal(oracle, text))


def _without_singletons(oracle: Oracle, text: str) -> str:
    parts = re.split("([" + re.escape("".join(_singletons(oracle))) + "])", text)
    return "".join(part if number % 2 else normal(oracle, part) for number, part in enumerate(parts))


@cache
def _singletons(oracle: Oracle) -> tuple[str, ...]:
    every = [chr(point) for point in range(0x80, 0x30000) if not 0xAC00 <= point < 0xE000]
    return tuple(one for one in every if len(new := normal(oracle, one)) == 1 and new != one)


def _no_hangul(oracle: Oracle, text: str) -> str:
    ends = [0, *(edge for found in _HANGUL.finditer(text) for edge in found.span()), len(text)]
    parts = [text[begin:end] for begin, end in pairwise(ends)]
    return "".join(part if number % 2 else normal(oracle, part) for number, part in enumerate(parts))


def _by(size: int) -> Compute:
    return through(lambda o, t: "".join(normal(o, t[i : i + size]) for i in range(0, len(t), size)))


WRONG: list[Wrong] = wrong_ways(
    "normalized",
    "normalise to NFC with the Unicode tables of the reference (canonical composition, nothing else)",
    [
        ("missing", "the text is not normalised", through(lambda _, t: t)),
        ("nfd", "decomposes (NFD) instead of composing", _form("NFD")),
        ("nfkc", "folds compatibility characters too (NFKC)", _form("NFKC")),
        ("nfkd", "decomposes with compatibility folding (NFKD)", _form("NFKD")),
        ("other_unicode", "composes by newer Unicode tables than the reference's", _newer("NFC")),
        ("nfd", "decomposes (NFD) by newer Unicode tables", _newer("NFD")),
        ("nfkc", "folds compatibility characters (NFKC), by newer Unicode tables", _newer("NFKC")),
        ("nfkd", "decomposes with compatibility folding (NFKD), by newer Unicode tables", _newer("NFKD")),
        ("no_hangul", "leaves Hangul jamo and syllables as they are", through(_no_hangul)),
        (
            "each_character_alone",
            "normalises each character alone, so that nothing composes",
            through(lambda o, t: "".join(normal(o, c) for c in t)),
        ),
        (
            "hangul_only",
            "composes Hangul and nothing else",
            through(lambda o, t: _HANGUL.sub(lambda found: normal(o, found[0]), t)),
        ),
        (
            "bmp_only",
            "leaves characters above U+FFFF as they are",
            through(
                lambda o, t: "".join(
                    normal(o, p) if n % 2 == 0 else p for n, p in enumerate(re.split("([\U00010000-\U0010ffff]+)", t))
                )
            ),
        ),
        ("no_reordering", "composes neighbours without decomposing first", through(lambda _, t: _pairwise(t))),
        ("no_reordering", "composes neighbours without putting marks in order", through(_neighbours)),
        ("blocking_ignored", "composes past a mark that blocks", through(_unblocked)),
        ("exclusions_composed", "composes also what the standard excludes", through(_with_excluded)),
        ("singletons_kept", "leaves characters that have one other spelling (U+212A)", through(_without_singletons)),
        (
            "latin_alone",
            "composes marks from U+0300 to U+036F alone",
            through(lambda o, t: _LATIN.sub(lambda f: normal(o, f[0]), t)),
        ),
        *(
            (
                "in_chunks",
                f"normalises {n} characters at a time",
                _by(n),
            )
            for n in (4, 8, 16, 32, 64)
        ),
    ],
)
"""Of the stage `normalized`: forms, tables, and half an algorithm. Rows of one name are one mistake in several ways."""
