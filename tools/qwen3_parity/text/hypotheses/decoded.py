"""Wrong ways to make a text of the bytes of all ids."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH

Part = tuple[int, bytes]
"""An id and its bytes."""


def kept(oracle: Oracle, given: pb.Decoding, state: State, skipped: Callable[[Oracle, bool], set[int]]) -> list[Part]:
    """The ids that are not skipped, with their bytes."""
    gone = skipped(oracle, given.skip_special_tokens)
    return [(n, piece) for n, piece in zip(given.id, state["pieces"], strict=False) if n not in gone]


def as_told(oracle: Oracle, skip: bool) -> set[int]:
    """Special tokens, if they are to be skipped."""
    return set(oracle.reference.special) if skip else set()


def _parts(text: Callable[[Oracle, list[Part]], str], skipped: Callable[[Oracle, bool], set[int]] = as_told) -> Compute:
    return lambda oracle, given, state: text(oracle, kept(oracle, given, state, skipped))


def _bytes(text: Callable[[bytes], str]) -> Compute:
    return _parts(lambda _, parts: text(b"".join(piece for _, piece in parts)))


def _text(change: Callable[[str], str]) -> Compute:
    """The right text, changed."""
    return lambda oracle, given, state: change(TRUTH["decoded"](oracle, given, state))


def replaced(data: bytes) -> str:
    """The right way: U+FFFD for each maximal part that is no UTF-8."""
    return data.decode(errors="replace")


def _skipping(skipped: Callable[[Oracle, bool], set[int]]) -> Compute:
    return _parts(lambda _, parts: replaced(b"".join(piece for _, piece in parts)), skipped)


def _ids(names: Sequence[str]) -> Callable[[Oracle, bool], set[int]]:
    def skipped(oracle: Oracle, skip: bool) -> set[int]:
        found = {getattr(oracle.reference.tokenizer, f"{name}_token_id", None) for name in names}
        return {number for number in found if number is not None} if skip else set()

    return skipped


def _broken(data: bytes, put: Callable[[str], str]) -> str:
    return re.sub("[\udc80-\udcff]+", lambda found: put(found[0]), data.decode(errors="surrogateescape"))


def _per_lead(data: bytes) -> str:
    """One U+FFFD for a lead byte with all the continuation bytes behind it."""
    return _broken(data, lambda run: re.sub("[\udcc0-\udcff][\udc80-\udcbf]*|[\udc80-\udcbf]", "\ufffd", run))


_ENDS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
_ENDS_NEW = (".", "?", "!", ",", "'", "n't", "'m", "'s", "'ve", "'re")


_OVERLONG = re.compile(b"[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}")


def _shortest(found: re.Match[bytes]) -> bytes:
    """The character that an overlong form stands for."""
    point = found[0][0] & (0x1F if len(found[0]) == 2 else 0x0F if len(found[0]) == 3 else 0x07)
    for byte in found[0][1:]:
        point = point << 6 | byte & 0x3F
    return chr(point).encode()


def _clean_up(text: str) -> str:
    for old, new in zip(_ENDS, _ENDS_NEW, strict=True):
        text = text.replace(old, new)
    return text


def _apart(oracle: Oracle, given: pb.Decoding, state: State, join: str = "") -> str:
    """Stretches between added tokens, skipped ones too, decoded each for itself."""
    everything, gone = kept(oracle, given, state, lambda o, skip: set()), as_told(oracle, given.skip_special_tokens)
    groups: list[list[Part]] = []
    for part in everything:  # each added token is a stretch of its own
        apart = not groups or part[0] in oracle.reference.added or groups[-1][-1][0] in oracle.reference.added
        groups = [*groups, [part]] if apart else [*groups[:-1], [*groups[-1], part]]
    texts = [replaced(b"".join(piece for number, piece in group if number not in gone)) for group in groups]
    return join.join(text for text in texts if text)


def _until(role: str) -> Compute:
    def text(oracle: Oracle, parts: list[Part]) -> str:
        end = getattr(oracle.reference.tokenizer, f"{role}_token_id", None)
        numbers = [number for number, _ in parts]
        stop = numbers.index(end) if end in numbers else len(parts)
        return replaced(b"".join(piece for _, piece in parts[:stop]))

    def compute(oracle: Oracle, given: pb.Decoding, state: State) -> Any:
        everything = kept(oracle, given, state, lambda o, skip: set())
        end = getattr(oracle.reference.tokenizer, f"{role}_token_id", None)
        numbers = [number for number, _ in everything]
        everything = everything[: numbers.index(end)] if end in numbers else everything
        gone = as_told(oracle, given.skip_special_tokens)
        return text(oracle, [one for one in everything if one[0] not in gone])

    return compute


def _complete(data: bytes) -> bytes:
    """Without the beginning of a character at the end."""
    for size in range(1, min(4, len(data) + 1)):
        if data[-size] >= 0xC0:
            needed = 2 if data[-size] < 0xE0 else 3 if data[-size] < 0xF0 else 4
            return data[:-size] if size < needed else data
        if data[-size] < 0x80:
            break
    return data


_ERRORS = wrong_ways(
    "decoded",
    "join the bytes of all ids, then decode UTF-8 once; U+FFFD for each maximal part that is none",
    [
        ("each_id_alone", "decodes each id alone: characters that stand in several ids break",
            _parts(lambda _, ps: "".join(replaced(p) for _, p in ps))),
        ("invalid_dropped", "drops bytes that are no UTF-8", _bytes(lambda data: data.decode(errors="ignore"))),
        ("invalid_dropped", "decodes each id alone and drops what is no UTF-8",
            _parts(lambda _, ps: "".join(p.decode(errors="ignore") for _, p in ps))),
        ("strict", "gives nothing where the bytes are no UTF-8",
            _bytes(lambda data: data.decode() if replaced(data).encode() == data else "")),
        ("strict", "leaves out ids that are no UTF-8 alone",
            _parts(lambda _, ps: "".join(replaced(p) for _, p in ps if replaced(p).encode() == p))),
        ("replacement_per_byte", "puts one U+FFFD for each bad byte",
            _bytes(lambda data: _broken(data, lambda run: "\ufffd" * len(run)))),
        ("replacement_per_run", "puts one U+FFFD for a run of bad bytes",
            _bytes(lambda data: _broken(data, lambda run: "\ufffd"))),
        ("replacement_per_run", "makes one of several U+FFFD", _text(lambda t: re.sub("\ufffd+", "\ufffd", t))),
        ("replacement_per_character", "puts one U+FFFD for a lead byte and all that follow it", _bytes(_per_lead)),
        ("overlong", "accepts overlong UTF-8", _bytes(lambda data: replaced(_OVERLONG.sub(_shortest, data)))),
        ("overlong", "accepts overlong UTF-8 of two bytes",
            _bytes(lambda data: replaced(re.sub(b"[\xc0\xc1][\x80-\xbf]", _shortest, data)))),
        ("backslashes", "writes bad bytes as \\x80", _bytes(lambda data: data.decode(errors="backslashreplace"))),
        ("question_marks", "writes ? for U+FFFD", _text(lambda t: t.replace("\ufffd", "?"))),
        ("replacement_dropped", "removes U+FFFD", _text(lambda t: t.replace("\ufffd", ""))),
        ("replacement_dropped", "removes U+FFFD at the end", _text(lambda t: t.rstrip("\ufffd"))),
        ("end_dropped", "drops an incomplete character at the end", _bytes(lambda data: replaced(_complete(data)))),
        ("latin1", "decodes Latin-1", _bytes(lambda data: data.decode("latin-1"))),
        ("latin1", "decodes Windows-1252", _bytes(lambda data: data.decode("cp1252", "replace"))),
        ("ascii_only", "decodes ASCII", _bytes(lambda data: data.decode("ascii", "replace"))),
        ("ascii_only", "decodes ASCII and drops the rest", _bytes(lambda data: data.decode("ascii", "ignore"))),
        ("cut_at_added", "decodes the stretches between added tokens each for itself", lambda o, g, s: _apart(o, g, s)),
    ],
)  # fmt: skip

_SKIPPED = wrong_ways(
    "decoded",
    "with skip_special_tokens leave out exactly the added tokens that are special, without it nothing",
    [
        ("skip_ignored", "skips no special tokens", _skipping(lambda o, skip: set())),
        ("always_skipped", "skips special tokens unasked", _skipping(lambda o, skip: as_told(o, True))),
        ("all_added_skipped", "skips all added tokens, also those that are not special",
            _skipping(lambda o, skip: set(o.reference.added) if skip else set())),
        ("all_added_skipped", "skips all added tokens, and unasked", _skipping(lambda o, skip: set(o.reference.added))),
        ("skip_inverted", "skips special tokens when they are to be kept",
            _skipping(lambda o, skip: as_told(o, not skip))),
        ("some_skipped", "skips only the tokens that end and pad", _skipping(_ids(["eos", "pad", "bos", "unk"]))),
        ("some_skipped", "skips only the token that ends", _skipping(_ids(["eos"]))),
        ("some_skipped", "skips only the token that pads", _skipping(_ids(["pad"]))),
        ("not_special_skipped", "skips the added tokens that are not special",
            _skipping(lambda o, skip: set(o.reference.added) - set(o.reference.special) if skip else set())),
        ("until_eos", "stops at the token that ends", _until("eos")),
        ("until_pad", "stops at the token that pads", _until("pad")),
    ],
)  # fmt: skip

_AFTER = wrong_ways(
    "decoded",
    "change nothing in the decoded text: no clean-up, no spaces added or taken away",
    [
        ("cleaned_up", "removes spaces before punctuation (clean_up_tokenization_spaces)", _text(_clean_up)),
        ("cleaned_up", "removes spaces before punctuation", _text(lambda t: re.sub(r" ([.?!,])", r"\1", t))),
        ("lstripped", "drops a leading space", _text(lambda t: t.removeprefix(" "))),
        ("lstripped", "strips leading white space", _text(str.lstrip)),
        ("rstripped", "strips trailing white space", _text(str.rstrip)),
        ("stripped", "strips white space", _text(str.strip)),
        ("spaces_between", "puts a space between ids", _parts(lambda _, ps: " ".join(replaced(p) for _, p in ps))),
        ("spaces_between", "puts spaces around added tokens", lambda o, g, s: _apart(o, g, s, " ")),
        ("spaces_collapsed", "makes one of several spaces", _text(lambda t: re.sub(" +", " ", t))),
        ("spaces_collapsed", "makes one space of a run of white space", _text(lambda t: re.sub(r"\s+", " ", t))),
        ("normalized", "normalises the text (NFC)", _text(lambda t: unicodedata.normalize("NFC", t))),
        ("normalized", "normalises the text (NFKC)", _text(lambda t: unicodedata.normalize("NFKC", t))),
        ("bom_dropped", "drops a byte order mark", _text(lambda t: t.removeprefix("\ufeff"))),
        ("bom_dropped", "drops byte order marks", _text(lambda t: t.replace("\ufeff", ""))),
        ("cut_at_nul", "ends at U+0000, as a C string does", _text(lambda t: t.partition("\0")[0])),
        ("nul_dropped", "drops U+0000", _text(lambda t: t.replace("\0", ""))),
        ("line_ends", "turns CR LF into LF", _text(lambda t: t.replace("\r\n", "\n"))),
        ("line_ends", "turns CR LF and CR into LF", _text(lambda t: t.replace("\r\n", "\n").replace("\r", "\n"))),
        ("line_ends", "drops CR", _text(lambda t: t.replace("\r", ""))),
        ("controls_dropped", "drops control characters",
            _text(lambda t: "".join(c for c in t if c in "\n\t\r" or unicodedata.category(c) != "Cc"))),
        ("byte_fallback", "takes <0x0A> for a byte, as SentencePiece does",
            _text(lambda t: re.sub(r"<0x([0-9A-F]{2})>", lambda f: chr(int(f[1], 16)), t))),
        ("lower_case", "turns letters into lower case", _text(str.lower)),
        ("first_missing", "loses the first id", _parts(lambda _, ps: replaced(b"".join(p for _, p in ps[1:])))),
        ("last_missing", "loses the last id", _parts(lambda _, ps: replaced(b"".join(p for _, p in ps[:-1])))),
    ],
)  # fmt: skip

WRONG: list[Wrong] = [*_ERRORS, *_SKIPPED, *_AFTER]
"""Of the stage `decoded`."""
