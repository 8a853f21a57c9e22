"""The stage `pre_tokens`: the pieces within which merges happen. Its value: `Piece`s for each plain segment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.regex import category, classes, longest_matches, ranges
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.stages.segments import plain
from qwen3_parity.text.view import View, Views, escaped, shortened


class Piece(NamedTuple):
    """Where a pre-token stands in its normalised segment: characters, bytes of UTF-8."""

    begin: int
    end: int
    begin_byte: int
    end_byte: int


Pieces = Sequence[Piece]


def pre_tokens(message: pb.Encoding) -> Iterator[tuple[int, str, pb.PreToken]]:
    """Each with the place of its segment and the segment's normalised text, which is read once: reading decodes it."""
    for segment in plain(message):
        normalized = segment.normalized
        for piece in segment.pre_token:
            yield segment.begin, normalized, piece


def texts(state: State) -> list[str]:
    """The text of each pre-token, in order."""
    pairs = zip(state["normalized"], state["pre_tokens"], strict=False)
    return [text[piece.begin : piece.end] for text, pieces in pairs for piece in pieces]


def _pieces(text: str, ends: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """Spans in characters with their bytes beside them."""
    starts = list(accumulate((len(character.encode()) for character in text), initial=0))
    return tuple(Piece(begin, end, starts[begin], starts[end]) for begin, end in ends)


def cut_by(pre_tokenizer: Any, text: str) -> tuple[Piece, ...]:
    """The pieces of a normalised text by one of Hugging Face's pre-tokenizers."""
    return _pieces(text, [span for _, span in pre_tokenizer.pre_tokenize_str(text)])


def _truth(oracle: Oracle, _: Any, state: State) -> Any:
    return tuple(cut_by(oracle.reference.backend.pre_tokenizer, text) for text in state["normalized"])


def _piece(piece: pb.PreToken) -> Piece:
    return Piece(piece.begin, piece.end, piece.begin_byte, piece.end_byte)


def _observed(message: pb.Encoding) -> Any:
    return tuple(tuple(map(_piece, segment.pre_token)) for segment in plain(message))


def _views(message: pb.Encoding) -> Views:
    rows = [(tuple(_piece(piece)), place + piece.begin, text) for place, text, piece in pre_tokens(message)]

    def show(at: int) -> str:
        (begin, end, *_), _, text = rows[at]
        return shortened(escaped(text[begin:end])) or f"{begin}–{end}"

    return {"pre-tokens": View([piece for piece, _, _ in rows], show, "|", [place for _, place, _ in rows])}


@cache
def _cutter(oracle: Oracle, pattern: str, behavior: str) -> Any:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}
    steps = [split, *oracle.settings["pre_tokenizer"]["pretokenizers"][1:]]
    try:
        return oracle.variant(pre_tokenizer={"type": "Sequence", "pretokenizers": steps}).pre_tokenizer
    except Exception as error:  # what the Rust part raises for a pattern that is none has no class of its own
        raise ValueError(f"no pattern: {pattern}") from error


Change = Callable[[str], str]


def _by(change: Change, behavior: str = "Isolated") -> Compute:
    """The tokenizer's own pattern, changed; nothing to explain where the change does not change it."""

    def compute(oracle: Oracle, _: Any, state: State) -> Any:
        pattern = change(oracle.pattern)
        if (pattern, behavior) == (oracle.pattern, "Isolated"):
            raise ValueError("the pattern has no such part")
        return tuple(cut_by(_cutter(oracle, pattern, behavior), text) for text in state["normalized"])

    return compute


def _put(old: str, new: str) -> Change:
    return lambda pattern: pattern.replace(old, new)


def _always(pattern: str) -> Change:
    return lambda _: pattern


_CONTRACTIONS = re.compile(r"\(\?i:'s\|[^)]*\)\|")
_ENDINGS = ("s", "t", "re", "ve", "m", "ll", "d")
_LATE, _NEWLINES = r"\s+(?!\S)|", r"\s*[\r\n]+|"
_FRONT, _WORD = r"[^\r\n\p{L}\p{N}]?", r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS, _SIGNS_FRONT = r"[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_ASCII, _BMP = "a-zA-Z", r"&&[\x{0}-\x{ffff}]"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"{_FRONT}{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|{_FRONT}{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LATIN1 = r"a-zA-Z\x{aa}\x{b5}\x{ba}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{ff}"
_JAVASCRIPT = r"\x09-\x0d\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"


def _endings(endings: Sequence[str], flag: str = "", quote: str = "'") -> Change:
    """Other contractions."""
    new = f"(?{flag}:" + "|".join(f"{quote}{ending}" for ending in endings) + ")|" if endings else ""
    return lambda pattern: _CONTRACTIONS.sub(lambda _: new, pattern)


def _number(new: str) -> Change:
    return _put(r"|\p{N}|", f"|{new}|")


_PATTERNS = wrong_ways("pre_tokens", _by,
    "take the pattern from tokenizer.json as it is, with an engine that has Unicode classes and look-ahead", [
    ("missing", "does not cut at all: merges run over the whole text", _always(r"(?m:.+)")),
    ("gpt2_pattern", "cuts by GPT-2's pattern", _always(_GPT2)),
    ("digits_by_three", r"groups digits by three (\p{N}{1,3}) instead of one by one", _number(r"\p{N}{1,3}")),
    ("digits_grouped", r"groups digits (\p{N}+) instead of one by one", _number(r"\p{N}+")),
    ("digits_with_space", r"takes a space along with digits ( ?\p{N})", _number(r" ?\p{N}")),
    ("digits_with_space", r"takes a space along with grouped digits ( ?\p{N}+)", _number(r" ?\p{N}+")),
    ("digits_by_three_from_the_right", "groups digits by three from the right",
        _number(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))")),
    ("word_characters", r"takes \w for \p{L}: digits, marks and _ are letters", classes(r"\p{L}\p{M}\p{Nd}\p{Pc}")),
    ("word_characters", r"takes \w for \p{L}: digits and _ are letters", classes(r"\p{L}\p{N}_")),
    ("word_characters", r"takes \w for \p{L}: ASCII letters, digits and _", classes(r"a-zA-Z0-9_")),
    ("word_characters", r"takes \w for \p{L}, by newer Unicode tables",
        lambda p: classes(r"\p{L}" + category("M") + r"\p{N}_")(p)),
    ("digits_in_words", "lets digits into words", _put(r"?\p{L}+", r"?[\p{L}\p{N}]+")),
    ("no_look_ahead", r"lacks \s+(?!\S): the last of several spaces is not left to the word", _put(_LATE, "")),
    ("contractions_case", "knows contractions in lower case only", _endings(_ENDINGS)),
    ("no_contractions", "does not know contractions", _endings(())),
    ("curly_apostrophe", "treats the curly apostrophe as a straight one", _endings(_ENDINGS, "i", "['’]")),
    ("contractions_ascii", "lets only ASCII letters match without case: not U+017F for s",
        _endings(["".join(f"[{c}{c.upper()}]" for c in ending) for ending in _ENDINGS])),
    ("contractions_upper_whole", "knows contractions in lower or in upper case, not mixed",
        _endings((*_ENDINGS, *map(str.upper, _ENDINGS)))),
    *((f"contractions_without_{ending}", f"does not know the contraction '{ending}",
        _endings([e for e in _ENDINGS if e != ending], "i")) for ending in _ENDINGS),
    ("ascii_letters", r"knows A-Z and a-z as letters instead of \p{L}", classes(_ASCII)),
    ("ascii_digits", r"knows 0-9 as numbers instead of \p{N}", classes(numbers="0-9")),
    ("decimal_digits", r"knows decimal digits (\d) as numbers instead of \p{N}", classes(numbers=r"\p{Nd}")),
    ("bmp_letters", "knows no letters above U+FFFF", classes(r"\p{L}" + _BMP)),
    ("marks_are_letters", r"counts combining marks as letters ([\p{L}\p{M}])", classes(r"\p{L}\p{M}")),
    ("marks_are_letters", "counts combining marks as letters (the class Alphabetic)", classes(r"\p{Alphabetic}")),
    ("digit_before_letters", "lets a digit stand before a word", _put(_FRONT, r"[^\r\n\p{L}]?")),
    ("lines", "cuts lines only", _always(r"[^\n]+|\n+"), _always(r"[^\n]*\n|[^\n]+")),
    ("marks_are_letters", "counts combining marks as letters, by newer Unicode tables",
        lambda p: classes(r"\p{L}" + category("M"))(p)),
    ("letters_missing", "knows letters with upper and lower case only", classes(r"\p{Lu}\p{Ll}\p{Lt}")),
    ("letters_missing", "does not know letters without case (Lo: CJK, …)", classes(r"\p{Lu}\p{Ll}\p{Lt}\p{Lm}")),
    ("letters_missing", "does not know modifier letters (Lm)", classes(r"\p{Lu}\p{Ll}\p{Lt}\p{Lo}")),
    ("letters_missing", "takes CJK characters for no letters", classes(r"\p{L}&&[^\p{Han}]")),
    ("numbers_missing", "does not know letter-like numbers (Nl, Ⅷ)", classes(numbers=r"\p{Nd}\p{No}")),
    ("numbers_missing", "does not know other numbers (No: ², ①, ½)", classes(numbers=r"\p{Nd}\p{Nl}")),
    ("numbers_digits", "knows what str.isdigit knows as numbers", lambda p: classes(numbers=ranges(str.isdigit))(p)),
    ("other_unicode", "knows newer Unicode tables of letters and numbers than the reference",
        lambda p: classes(category("L"), category("N"))(p)),
    ("ascii_spaces", r"knows ASCII white space only for \s", classes(spaces=r"\x09-\x0d\x20")),
    ("ascii_spaces", r"knows ASCII white space without U+000B only for \s", classes(spaces=r"\x09\x0a\x0c\x0d\x20")),
    ("spaces_plain", "knows spaces alone as white space", classes(spaces=r"\x09\x0a\x0d\x20")),
    ("python_spaces", "counts U+001C to U+001F as white space, as Python does", classes(spaces=r"\s\x1c-\x1f")),
    ("zero_width_space", "counts U+200B as white space", classes(spaces=r"\s\x{200b}")),
    ("javascript_spaces", "knows JavaScript's white space: U+FEFF, not U+0085", classes(spaces=_JAVASCRIPT)),
    *(("spaces_missing", f"does not count U+{point:04X} as white space",
        classes(spaces=rf"\s&&[^\x{{{point:x}}}]")) for point in (0x0B, 0x0C, 0x85, 0xA0, 0x2028, 0x2029, 0x3000)),
    ("spaces_missing", "counts no-break spaces as no white space", classes(spaces=r"\s&&[^\x{a0}\x{202f}\x{2007}]")),
    ("spaces_missing", "does not count U+2028 and U+2029 as white space", classes(spaces=r"\s&&[^\x{2028}\x{2029}]")),
    ("space_before_letters_alone", "takes only a space along with a word", _put(_WORD, r" ?\p{L}+")),
    ("word_front_missing", "takes nothing along with a word", _put(_WORD, r"\p{L}+")),
    ("newline_before_letters", "takes also a newline along with a word", _put(_FRONT, r"[^\p{L}\p{N}]?")),
    ("word_front_many", "takes several characters along with a word", _put(_FRONT, r"[^\r\n\p{L}\p{N}]*")),
    ("words_by_letter", "cuts words into letters", _put(r"?\p{L}+", r"?\p{L}")),
    ("punctuation_split", "cuts each punctuation mark apart", _put(_SIGNS, _SIGNS[:-1])),
    ("punctuation_without_newlines", "takes no newlines along with punctuation", _put(_SIGNS_FRONT, f" ?{_SIGNS}")),
    ("no_space_before_punctuation", "takes no space along with punctuation", _put(_SIGNS_FRONT, _SIGNS_FRONT[2:])),
    ("punctuation_with_spaces", "takes spaces along with punctuation", _put(_SIGNS_FRONT, f" *{_SIGNS_FRONT[2:]}")),
    ("no_newlines", r"lacks \s*[\r\n]+", _put(_NEWLINES, "")),
    ("new_lines_one_by_one", "cuts newlines one by one", _put(_NEWLINES, r"\s*?[\r\n]|")),
    ("newlines_without_spaces", "leaves white space before newlines to another piece", _put(_NEWLINES, r"[\r\n]+|")),
    ("no_carriage_return", "does not know CR as an end of line",
        lambda p: p.replace(r"[\r\n]", r"[\n]").replace(r"[^\r\n", r"[^\n"), _put(r"[\r\n]", r"[\n]")),
    ("white_space_one_by_one", "cuts white space character by character",
        lambda p: p.replace(_LATE, "").replace(r"|\s+", r"|\s"),
        lambda p: p.replace(r"|\s*[\r\n]+", "").replace(_LATE, "").replace(r"|\s+", r"|\s")),
    ("words_and_spaces", r"cuts between white space and everything else (\S+|\s+)", _always(r"\S+|\s+")),
    ("words_and_spaces", r"cuts words with the space before them ( ?\S+|\s+)", _always(r" ?\S+|\s+(?!\S)|\s+")),
    ("words_and_signs", r"cuts by \w+|\W+", _always(r"\w+|\W+")),
    ("words_and_signs", r"cuts by \w+|[^\w\s]+ and white space", _always(r"\w+|[^\w\s]+|\s+")),
    ("characters", "cuts between all characters", _always(r"(?m:.)")),
    ("o200k_pattern", "cuts by the pattern of o200k (GPT-4o)", _always(_O200K)),
    ("letters_and_numbers_ascii", "knows ASCII letters and digits only", classes(_ASCII, "0-9")),
    ("classes_ascii", "knows ASCII letters, digits and white space only", classes(_ASCII, "0-9", r"\x09-\x0d\x20")),
    ("classes_latin1", "knows letters, numbers and white space up to U+00FF only",
        classes(_LATIN1, r"0-9\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}", r"\x09-\x0d\x20\x{85}\x{a0}")),
    ("classes_bmp", "knows no letters and numbers above U+FFFF", classes(r"\p{L}" + _BMP, r"\p{N}" + _BMP)),
])  # fmt: skip


def _after(change: Callable[[str, Pieces], Pieces]) -> Compute:
    """The right pieces of each segment, changed."""
    return lambda o, m, s: tuple(tuple(change(*both)) for both in zip(s["normalized"], _truth(o, m, s), strict=True))


def _each(change: Callable[[Piece, list[int]], Piece]) -> Compute:
    """Each right piece changed, from it and the places at which characters begin in UTF-16."""

    def units(text: str) -> list[int]:
        return list(accumulate((1 + (ord(character) > 0xFFFF) for character in text), initial=0))

    return _after(lambda text, pieces: [change(piece, begins) for begins in (units(text),) for piece in pieces])


def _recut(change: Callable[[str, int, int], Sequence[tuple[int, int]]]) -> Compute:
    """Other spans for each right piece, from its text, begin and end."""

    def spans(text: str, pieces: Pieces) -> list[tuple[int, int]]:
        return [span for p in pieces for span in change(text[p.begin : p.end], p.begin, p.end)]

    return _after(lambda text, pieces: _pieces(text, spans(text, pieces)))


def _moved(starts: Callable[[pb.Encoding, State], Sequence[tuple[int, int]]]) -> Compute:
    """The pieces of each segment counted from another place, in characters and in bytes."""

    def compute(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
        return tuple(
            tuple(Piece(p.begin + at, p.end + at, p.begin_byte + byte, p.end_byte + byte) for p in pieces)
            for (at, byte), pieces in zip(starts(message, state), _truth(oracle, message, state), strict=True)
        )

    return compute


def _in_text(message: pb.Encoding, state: State) -> list[tuple[int, int]]:
    begins = [begin for begin, _, added in state["segments"] if added is None]
    return [(begin, len(message.text[:begin].encode())) for begin in begins]


def _running(_: pb.Encoding, state: State) -> list[tuple[int, int]]:
    sizes = ((len(text), len(text.encode())) for text in state["normalized"])
    return list(accumulate(sizes, lambda at, size: (at[0] + size[0], at[1] + size[1]), initial=(0, 0)))[:-1]


_SPANS = wrong_ways("pre_tokens", directly,
    "count from the segment's start, characters (code points) and bytes of UTF-8", [
    ("bytes_for_characters", "gives bytes where characters are asked for", _each(lambda p, _: Piece(*p[2:], *p[2:]))),
    ("characters_for_bytes", "gives characters where bytes are asked for", _each(lambda p, _: Piece(*p[:2], *p[:2]))),
    ("bytes_and_characters_exchanged", "gives bytes for characters, and characters for bytes",
        _each(lambda p, _: Piece(*p[2:], *p[:2]))),
    ("utf16_units", "counts UTF-16 units as characters", _each(lambda p, u: Piece(u[p[0]], u[p[1]], *p[2:]))),
    ("utf16_bytes", "counts the bytes of UTF-16", _each(lambda p, u: Piece(*p[:2], 2 * u[p[0]], 2 * u[p[1]]))),
    ("end_inclusive", "gives the last character as the end, not the one behind it",
        _each(lambda p, _: Piece(p[0], p[1] - 1, p[2], p[3] - 1)), _each(lambda p, _: Piece(p[0], p[1] - 1, *p[2:]))),
    ("lengths_as_ends", "gives lengths where ends are asked for",
        _each(lambda p, _: Piece(p[0], p[1] - p[0], p[2], p[3] - p[2]))),
    ("counted_from_the_text", "counts from the start of the text, not of the segment", _moved(_in_text)),
    ("counted_over_segments", "goes on counting from one segment to the next", _moved(_running)),
])  # fmt: skip


def _limited(most: int) -> Compute:
    return _recut(lambda _, begin, end: [(at, min(at + most, end)) for at in range(begin, end, most)])


def _line_by_line(oracle: Oracle, message: pb.Encoding, state: State) -> Any:
    out = []
    for text in state["normalized"]:
        lines = text.splitlines(keepends=True)
        begins = accumulate(map(len, lines), initial=0)
        pieces = zip(begins, _truth(oracle, message, {"normalized": lines}), strict=False)
        out.append(_pieces(text, [(begin + p.begin, begin + p.end) for begin, line in pieces for p in line]))
    return tuple(out)


_MATCHES = wrong_ways("pre_tokens", directly,
    "keep every character: matches and what stands between them, white space included; the first alternative wins", [
    ("white_space_trimmed", "takes white space off the pieces",
        _recut(lambda t, b, e: [(e - len(t.lstrip()), b + len(t.rstrip()))] if t.strip() else [])),
    ("white_space_dropped", "leaves out pieces of white space", _recut(lambda t, b, e: [(b, e)] if t.strip() else [])),
    *(("limited", f"cuts pieces of more than {n} characters", _limited(n)) for n in (16, 32, 64, 128, 256, 512, 1024)),
    ("lines", "cuts each line for itself", _line_by_line),
    ("first_only", "stops after the first piece", _after(lambda _, ps: ps[:1])),
    ("last_missing", "loses the last piece", _after(lambda _, ps: ps[:-1])),
    ("empty_kept", "keeps empty pieces at the end", _after(lambda t, ps: [*ps, *_pieces(t, [(len(t),) * 2])])),
    ("matches_removed", "keeps what stands between the matches", _by(str, "Removed")),
    ("longest_match", "takes the longest of the alternatives (POSIX), not the first",
        lambda o, _, state: tuple(_pieces(text, longest_matches(o, text)) for text in state["normalized"])),
])  # fmt: skip

STAGE = Stage(
    _truth, _observed, _views, [*_PATTERNS, *_SPANS, *_MATCHES], holds=lambda value: any(map(any, chain(*value)))
)
