"""Wrong ways to cut pre-tokens by a pattern: other patterns, other classes, other rules of matching."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import pieces_of

Change = Callable[[str], str]


@cache
def _cutter(oracle: Oracle, pattern: str, behavior: str, invert: bool) -> Any:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    steps = [split, *oracle.settings["pre_tokenizer"]["pretokenizers"][1:]]
    try:
        return oracle.variant(pre_tokenizer={"type": "Sequence", "pretokenizers": steps}).pre_tokenizer
    except Exception as error:  # what the Rust part raises for a pattern that is none has no class of its own
        raise ValueError(f"no pattern: {pattern}") from error


def _by(change: Change, behavior: str = "Isolated", invert: bool = False) -> Compute:
    """The tokenizer's own pattern, changed; nothing to explain where the change does not change it."""

    def compute(oracle: Oracle, _: Any, state: State) -> Any:
        pattern = change(oracle.pattern)
        if (pattern, behavior, invert) == (oracle.pattern, "Isolated", False):
            raise ValueError("the pattern has no such part")
        cutter = _cutter(oracle, pattern, behavior, invert)
        spans = [[span for _, span in cutter.pre_tokenize_str(text)] for text in state["normalized"]]
        return tuple(pieces_of(text, one) for text, one in zip(state["normalized"], spans, strict=True))

    return compute


def _put(old: str, new: str) -> Change:
    return lambda pattern: pattern.replace(old, new)


def _always(pattern: str) -> Change:
    return lambda _: pattern


def _classes(letters: str, numbers: str = r"\p{N}", spaces: str = r"\s") -> Change:
    """Other classes, each the inside of a bracket, wherever the pattern names them."""
    new = {r"\p{L}": f"[{letters}]", r"\p{N}": f"[{numbers}]", r"\s": f"[{spaces}]", r"\S": f"[^{spaces}]"}
    return lambda pattern: re.sub(r"\\p\{[LN]\}|\\[sS]", lambda found: new[found[0]], pattern)


def _ranges(inside: Callable[[str], bool]) -> str:
    """The characters for which `inside` holds, as the inside of a bracket."""
    out, begin = [], -1
    for point in range(sys.maxunicode + 2):
        surrogate = 0xD800 <= point < 0xE000
        if point <= sys.maxunicode and not surrogate and inside(chr(point)):
            begin = point if begin < 0 else begin
        elif begin >= 0:
            out.append(f"\\x{{{begin:x}}}-\\x{{{point - 1:x}}}")
            begin = -1
    return "".join(out)


@cache
def _category(first: str) -> str:
    return _ranges(lambda character: unicodedata.category(character).startswith(first))


@cache
def _python(method: str) -> str:
    return _ranges(lambda character: bool(getattr(character, method)()))


_CONTRACTIONS = re.compile(r"\(\?i:'s\|[^)]*\)\|")
_ENDINGS = ("s", "t", "re", "ve", "m", "ll", "d")
_LATE = r"\s+(?!\S)|"
_ASCII = "a-zA-Z"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORD_FRONT = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS_FRONT = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"


def _contractions(new: str) -> Change:
    return lambda pattern: _CONTRACTIONS.sub(lambda _: new, pattern)


def _front(endings: Sequence[str], flag: str = "", quote: str = "'") -> str:
    return f"(?{flag}:" + "|".join(f"{quote}{ending}" for ending in endings) + ")|"


def _number(new: str) -> Change:
    return lambda pattern: pattern.replace(r"|\p{N}|", f"|{new}|")


_FIX = "take the pattern from tokenizer.json as it is, with an engine that has Unicode classes and look-ahead"

WRONG: list[Wrong] = wrong_ways(
    "pre_tokens",
    _FIX,
    [
        ("missing", "does not cut at all: merges run over the whole text", _by(_always(r"(?m:.+)"))),
        ("gpt2_pattern", "cuts by GPT-2's pattern", _by(_always(_GPT2))),
        ("digits_by_three", r"groups digits by three (\p{N}{1,3}) instead of one by one", _by(_number(r"\p{N}{1,3}"))),
        ("digits_grouped", r"groups digits (\p{N}+) instead of one by one", _by(_number(r"\p{N}+"))),
        ("digits_with_space", r"takes a space along with digits ( ?\p{N})", _by(_number(r" ?\p{N}"))),
        ("digits_with_space", r"takes a space along with grouped digits ( ?\p{N}+)", _by(_number(r" ?\p{N}+"))),
        ("digits_by_three_from_the_right", "groups digits by three from the right",
            _by(_number(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"))),
        ("word_characters", r"takes \w for \p{L}: digits, marks and _ are letters",
            _by(_classes(r"\p{L}\p{M}\p{Nd}\p{Pc}"))),
        ("word_characters", r"takes \w for \p{L}: digits and _ are letters", _by(_classes(r"\p{L}\p{N}_"))),
        ("word_characters", r"takes \w for \p{L}: ASCII letters, digits and _", _by(_classes(r"a-zA-Z0-9_"))),
        ("word_characters", r"takes \w for \p{L}, by newer Unicode tables",
            _by(lambda p: _classes(r"\p{L}" + _category("M") + r"\p{N}_")(p))),
        ("digits_in_words", "lets digits into words", _by(lambda p: _put(r"?\p{L}+", r"?[\p{L}\p{N}]+")(p))),
        ("no_look_ahead", r"lacks \s+(?!\S): the last of several spaces is not left to the word", _by(_put(_LATE, ""))),
        ("contractions_case", "knows contractions in lower case only", _by(_contractions(_front(_ENDINGS)))),
        ("no_contractions", "does not know contractions", _by(_contractions(""))),
        ("curly_apostrophe", "treats the curly apostrophe as a straight one",
            _by(_contractions(_front(_ENDINGS, "i", "['’]")))),
        ("contractions_ascii", "lets only ASCII letters match without case: not U+017F for s", _by(_contractions(
            "(?:" + "|".join("'" + "".join(f"[{c}{c.upper()}]" for c in ending) for ending in _ENDINGS) + ")|"))),
        ("contractions_upper_whole", "knows contractions in lower or in upper case, not mixed", _by(_contractions(
            _front((*_ENDINGS, *map(str.upper, _ENDINGS)))))),
        *((f"contractions_without_{ending}", f"does not know the contraction '{ending}", _by(_contractions(
            _front([one for one in _ENDINGS if one != ending], "i")))) for ending in _ENDINGS),
        ("ascii_letters", r"knows A-Z and a-z as letters instead of \p{L}", _by(_classes(_ASCII))),
        ("ascii_digits", r"knows 0-9 as numbers instead of \p{N}", _by(_classes(r"\p{L}", "0-9"))),
        ("decimal_digits", r"knows decimal digits (\d) as numbers instead of \p{N}",
            _by(_classes(r"\p{L}", r"\p{Nd}"))),
        ("bmp_letters", "knows no letters above U+FFFF", _by(_classes(r"\p{L}&&[\x{0}-\x{ffff}]"))),
        ("marks_are_letters", r"counts combining marks as letters ([\p{L}\p{M}])", _by(_classes(r"\p{L}\p{M}"))),
        ("marks_are_letters", "counts combining marks as letters (the class Alphabetic)",
            _by(_classes(r"\p{Alphabetic}"))),
        ("digit_before_letters", "lets a digit stand before a word",
            _by(_put(r"[^\r\n\p{L}\p{N}]?", r"[^\r\n\p{L}]?"))),
        ("lines", "cuts lines only", _by(_always(r"[^\n]+|\n+"))),
        ("lines", "cuts lines only", _by(_always(r"[^\n]*\n|[^\n]+"))),
        ("marks_are_letters", "counts combining marks as letters, by newer Unicode tables",
            _by(lambda p: _classes(r"\p{L}" + _category("M"))(p))),
        ("letters_missing", "knows letters with upper and lower case only", _by(_classes(r"\p{Lu}\p{Ll}\p{Lt}"))),
        ("letters_missing", "does not know letters without case (Lo: CJK, Arabic, …)",
            _by(_classes(r"\p{Lu}\p{Ll}\p{Lt}\p{Lm}"))),
        ("letters_missing", "does not know modifier letters (Lm)", _by(_classes(r"\p{Lu}\p{Ll}\p{Lt}\p{Lo}"))),
        ("letters_missing", "takes CJK characters for no letters", _by(_classes(r"\p{L}&&[^\p{Han}]"))),
        ("numbers_missing", "does not know letter-like numbers (Nl, Ⅷ)", _by(_classes(r"\p{L}", r"\p{Nd}\p{No}"))),
        ("numbers_missing", "does not know other numbers (No: ², ①, ½)", _by(_classes(r"\p{L}", r"\p{Nd}\p{Nl}"))),
        ("numbers_digits", "knows what str.isdigit knows as numbers",
            _by(lambda p: _classes(r"\p{L}", _python("isdigit"))(p))),
        ("other_unicode", "knows newer Unicode tables of letters and numbers than the reference", _by(
            lambda p: _classes(_category("L"), _category("N"))(p))),
        ("ascii_spaces", r"knows ASCII white space only for \s", _by(_classes(r"\p{L}", r"\p{N}", r"\x09-\x0d\x20"))),
        ("ascii_spaces", r"knows ASCII white space without U+000B only for \s",
            _by(_classes(r"\p{L}", r"\p{N}", r"\x09\x0a\x0c\x0d\x20"))),
        ("spaces_plain", "knows spaces alone as white space", _by(_classes(r"\p{L}", r"\p{N}", r"\x09\x0a\x0d\x20"))),
        ("python_spaces", "counts U+001C to U+001F as white space, as Python does",
            _by(_classes(r"\p{L}", r"\p{N}", r"\s\x1c-\x1f"))),
        ("zero_width_space", "counts U+200B as white space", _by(_classes(r"\p{L}", r"\p{N}", r"\s\x{200b}"))),
        ("javascript_spaces", "knows JavaScript's white space: U+FEFF, not U+0085", _by(_classes(
            r"\p{L}", r"\p{N}",
            r"\x09-\x0d\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"))),
        *(("spaces_missing", f"does not count U+{point:04X} as white space", _by(_classes(
            r"\p{L}", r"\p{N}", rf"\s&&[^\x{{{point:x}}}]")))
          for point in (0x0B, 0x0C, 0x85, 0xA0, 0x2028, 0x2029, 0x3000)),
        ("spaces_missing", "does not count no-break spaces as white space", _by(_classes(
            r"\p{L}", r"\p{N}", r"\s&&[^\x{a0}\x{202f}\x{2007}]"))),
        ("spaces_missing", "does not count U+2028 and U+2029 as white space", _by(_classes(
            r"\p{L}", r"\p{N}", r"\s&&[^\x{2028}\x{2029}]"))),
        ("space_before_letters_alone", "takes only a space along with a word, no other character",
            _by(_put(_WORD_FRONT, r" ?\p{L}+"))),
        ("word_front_missing", "takes nothing along with a word", _by(_put(_WORD_FRONT, r"\p{L}+"))),
        ("newline_before_letters", "takes also a newline along with a word",
            _by(_put(r"[^\r\n\p{L}\p{N}]?", r"[^\p{L}\p{N}]?"))),
        ("word_front_many", "takes several characters along with a word",
            _by(_put(r"[^\r\n\p{L}\p{N}]?", r"[^\r\n\p{L}\p{N}]*"))),
        ("words_by_letter", "cuts words into letters", _by(_put(r"?\p{L}+", r"?\p{L}"))),
        ("punctuation_split", "cuts each punctuation mark apart", _by(_put(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{N}]"))),
        ("punctuation_without_newlines", "does not take newlines along with punctuation",
            _by(_put(_MARKS_FRONT, r" ?[^\s\p{L}\p{N}]+"))),
        ("no_space_before_punctuation", "takes no space along with punctuation",
            _by(_put(_MARKS_FRONT, r"[^\s\p{L}\p{N}]+[\r\n]*"))),
        ("punctuation_with_spaces", "takes several spaces along with punctuation",
            _by(_put(_MARKS_FRONT, _MARKS_FRONT.replace("?", "*", 1)))),
        ("no_newlines", r"lacks \s*[\r\n]+", _by(_put(r"\s*[\r\n]+|", ""))),
        ("new_lines_one_by_one", "cuts newlines one by one", _by(_put(r"\s*[\r\n]+|", r"\s*?[\r\n]|"))),
        ("newlines_without_spaces", "leaves the white space before newlines to another piece",
            _by(_put(r"\s*[\r\n]+|", r"[\r\n]+|"))),
        ("no_carriage_return", "does not know CR as an end of line",
            _by(lambda p: p.replace(r"[\r\n]", r"[\n]").replace(r"[^\r\n", r"[^\n"))),
        ("no_carriage_return", "does not know CR as an end of line", _by(lambda p: p.replace(r"[\r\n]", r"[\n]"))),
        ("white_space_one_by_one", "cuts white space character by character",
            _by(lambda p: p.replace(_LATE, "").replace(r"|\s+", r"|\s"))),
        ("white_space_one_by_one", "cuts white space character by character",
            _by(lambda p: p.replace(r"|\s*[\r\n]+", "").replace(_LATE, "").replace(r"|\s+", r"|\s"))),
        ("words_and_spaces", r"cuts between white space and everything else (\S+|\s+)", _by(_always(r"\S+|\s+"))),
        ("words_and_spaces", r"cuts words with the space before them ( ?\S+|\s+)",
            _by(_always(r" ?\S+|\s+(?!\S)|\s+"))),
        ("words_and_signs", r"cuts by \w+|\W+", _by(_always(r"\w+|\W+"))),
        ("words_and_signs", r"cuts by \w+|[^\w\s]+ and white space", _by(_always(r"\w+|[^\w\s]+|\s+"))),
        ("characters", "cuts between all characters", _by(_always(r"(?m:.)"))),
        ("matches_removed", "keeps what stands between the matches", _by(lambda p: p, "Removed")),
        ("o200k_pattern", "cuts by the pattern of o200k (GPT-4o)", _by(_always(_O200K))),
        ("letters_and_numbers_ascii", "knows ASCII letters and digits only", _by(_classes(_ASCII, "0-9"))),
        ("classes_ascii", "knows ASCII letters, digits and white space only",
            _by(_classes(_ASCII, "0-9", r"\x09-\x0d\x20"))),
        ("classes_latin1", "knows letters, numbers and white space up to U+00FF only", _by(_classes(
            r"a-zA-Z\x{aa}\x{b5}\x{ba}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{ff}", r"0-9\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}",
            r"\x09-\x0d\x20\x{85}\x{a0}"))),
        ("classes_bmp", "knows no letters and numbers above U+FFFF", _by(_classes(
            r"\p{L}&&[\x{0}-\x{ffff}]", r"\p{N}&&[\x{0}-\x{ffff}]"))),
    ],
)  # fmt: skip
"""Of the stage `pre_tokens`, those that another pattern makes."""
