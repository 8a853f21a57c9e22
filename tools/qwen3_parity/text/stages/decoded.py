"""The stage `decoded`: the bytes of all ids as one text. Its value: the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from functools import reduce
from itertools import takewhile

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.stages.normalized import TIDIED
from qwen3_parity.text.view import View, escaped

Part = tuple[int, bytes]
"""An id and its bytes."""
Skip = Callable[[Oracle, bool], Collection[int]]
"""The ids that are left out, by skip_special_tokens."""


def replaced(data: bytes) -> str:
    """The right way: U+FFFD for each maximal part that is no UTF-8."""
    return data.decode(errors="replace")


def skipped(oracle: Oracle, skip: bool) -> Collection[int]:
    """Special tokens, if they are to be skipped."""
    return oracle.special if skip else ()


def _parts(text: Callable[[list[Part]], str], skip: Skip = skipped) -> Compute:
    def compute(oracle: Oracle, message: pb.Decoding, state: State) -> str:
        gone = skip(oracle, message.skip_special_tokens)
        parts = zip(message.id, state["pieces"], strict=False)
        return text([part for part in parts if part[0] not in gone])

    return compute


def _joined(parts: list[Part]) -> bytes:
    return b"".join(piece for _, piece in parts)


def _bytes(text: Callable[[bytes], str]) -> Compute:
    return _parts(lambda parts: text(_joined(parts)))


truth = _bytes(replaced)


def letters(text: str) -> View:
    """A text's characters."""
    return View(text, lambda at: escaped(text[at]), "")


def _broken(put: Callable[[str], str]) -> Compute:
    """Another text for each run of bad bytes, which are surrogates U+DC80 to U+DCFF."""

    def text(data: bytes) -> str:
        return re.sub("[\udc80-\udcff]+", lambda match: put(match[0]), data.decode(errors="surrogateescape"))

    return _bytes(text)


_LEADS = "[\udcc0-\udcff][\udc80-\udcbf]*|[\udc80-\udcbf]"
_OVERLONG_TWO = b"[\xc0\xc1][\x80-\xbf]"
_OVERLONG = _OVERLONG_TWO + b"|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}"


def _shortest(match: re.Match[bytes]) -> bytes:
    """The character that an overlong form stands for."""
    point = match[0][0] & (0x1F if len(match[0]) == 2 else 0x0F if len(match[0]) == 3 else 0x07)
    return chr(reduce(lambda high, byte: high << 6 | byte & 0x3F, match[0][1:], point)).encode()


def _complete(data: bytes) -> bytes:
    """Without the beginning of a character at the end."""
    for size in range(1, min(4, len(data) + 1)):
        if data[-size] >= 0xC0:
            needed = 2 if data[-size] < 0xE0 else 3 if data[-size] < 0xF0 else 4
            return data[:-size] if size < needed else data
        if data[-size] < 0x80:
            break
    return data


def _by_stretches(join: str) -> Compute:
    """Added tokens, skipped ones too, and the stretches between them decoded each for itself."""

    def compute(oracle: Oracle, message: pb.Decoding, state: State) -> str:
        added, gone = oracle.added, skipped(oracle, message.skip_special_tokens)
        groups: list[list[Part]] = []
        for part in zip(message.id, state["pieces"], strict=False):
            if not groups or part[0] in added or groups[-1][-1][0] in added:
                groups.append([])
            groups[-1].append(part)
        texts = [replaced(_joined([part for part in group if part[0] not in gone])) for group in groups]
        return join.join(text for text in texts if text)

    return compute


_ERRORS = wrong_ways("decoded", directly,
    "join the bytes of all ids, then decode UTF-8 once; U+FFFD for each maximal part that is none", [
    ("each_id_alone", "decodes each id alone: characters that stand in several ids break",
        _parts(lambda ps: "".join(replaced(p) for _, p in ps))),
    ("invalid_dropped", "drops bytes that are no UTF-8", _bytes(lambda b: b.decode(errors="ignore"))),
    ("invalid_dropped", "decodes each id alone and drops what is no UTF-8",
        _parts(lambda ps: "".join(p.decode(errors="ignore") for _, p in ps))),
    ("strict", "gives nothing for what is no UTF-8", _bytes(lambda b: b.decode() if replaced(b).encode() == b else "")),
    ("strict", "leaves out ids that are no UTF-8 alone",
        _parts(lambda ps: "".join(replaced(p) for _, p in ps if replaced(p).encode() == p))),
    ("replacement_per_byte", "puts one U+FFFD for each bad byte", _broken(lambda run: "\ufffd" * len(run))),
    ("replacement_per_run", "puts one U+FFFD for a run of bad bytes", _broken(lambda run: "\ufffd")),
    ("replacement_per_run", "makes one of several U+FFFD", _bytes(lambda b: re.sub("\ufffd+", "\ufffd", replaced(b)))),
    ("replacement_per_character", "puts one U+FFFD for a lead byte and all that follow it",
        _broken(lambda run: re.sub(_LEADS, "\ufffd", run))),
    ("overlong", "accepts overlong UTF-8", _bytes(lambda b: replaced(re.sub(_OVERLONG, _shortest, b)))),
    ("overlong", "takes overlong UTF-8 of two bytes", _bytes(lambda b: replaced(re.sub(_OVERLONG_TWO, _shortest, b)))),
    ("backslashes", "writes bad bytes as \\x80", _bytes(lambda b: b.decode(errors="backslashreplace"))),
    ("question_marks", "writes ? for U+FFFD", _bytes(lambda b: replaced(b).replace("\ufffd", "?"))),
    ("replacement_dropped", "removes U+FFFD", _bytes(lambda b: replaced(b).replace("\ufffd", ""))),
    ("replacement_dropped", "removes U+FFFD at the end", _bytes(lambda b: replaced(b).rstrip("\ufffd"))),
    ("end_dropped", "drops an incomplete character at the end", _bytes(lambda b: replaced(_complete(b)))),
    ("latin1", "decodes Latin-1", _bytes(lambda b: b.decode("latin-1"))),
    ("latin1", "decodes Windows-1252", _bytes(lambda b: b.decode("cp1252", "replace"))),
    ("ascii_only", "decodes ASCII", _bytes(lambda b: b.decode("ascii", "replace"))),
    ("ascii_only", "decodes ASCII and drops the rest", _bytes(lambda b: b.decode("ascii", "ignore"))),
    ("cut_at_added", "decodes the stretches between added tokens each for itself", _by_stretches("")),
])  # fmt: skip


def _roles(*roles: str) -> Skip:
    """Skips only tokens with these roles."""
    return lambda oracle, skip: {oracle.token(role) for role in roles} - {None} if skip else ()  # type: ignore[return-value]


def _until(role: str) -> Compute:
    def compute(oracle: Oracle, message: pb.Decoding, state: State) -> str:
        end, gone = oracle.token(role), skipped(oracle, message.skip_special_tokens)
        parts = takewhile(lambda part: part[0] != end, zip(message.id, state["pieces"], strict=False))
        return replaced(_joined([part for part in parts if part[0] not in gone]))

    return compute


_SKIPPED = wrong_ways("decoded", lambda skip: _parts(lambda parts: replaced(_joined(parts)), skip),
    "with skip_special_tokens leave out exactly the added tokens that are special, without it nothing", [
    ("skip_ignored", "skips no special tokens", lambda o, skip: ()),
    ("always_skipped", "skips special tokens unasked", lambda o, skip: skipped(o, True)),
    ("all_added_skipped", "skips all added tokens, also not special ones", lambda o, skip: o.added if skip else ()),
    ("all_added_skipped", "skips all added tokens, and unasked", lambda o, skip: o.added),
    ("skip_inverted", "skips special tokens when they are to be kept", lambda o, skip: skipped(o, not skip)),
    ("some_skipped", "skips only the tokens that end and pad", _roles("eos", "pad", "bos", "unk")),
    ("some_skipped", "skips only the token that ends", _roles("eos")),
    ("some_skipped", "skips only the token that pads", _roles("pad")),
    ("not_special_skipped", "skips the added tokens that are not special",
        lambda o, skip: set(o.added) - set(o.special) if skip else ()),
])  # fmt: skip

_ENDED = wrong_ways("decoded", _until,
    "decode all ids, also those behind a token that ends or pads", [
    ("until_eos", "stops at the token that ends", "eos"), ("until_pad", "stops at the token that pads", "pad")
])  # fmt: skip


def _clean_up(text: str) -> str:
    for end in (".", "?", "!", ",", "'", "n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {end} " if end == "'" else f" {end}", end)
    return text


_SHARED = {"stripped", "spaces_collapsed", "bom_dropped", "cut_at_nul", "line_ends", "controls_dropped", "lower_case"}
_AFTER = wrong_ways("decoded", lambda change: _bytes(lambda data: change(replaced(data))),
    "change nothing in the decoded text: no clean-up, no spaces added or taken away", [
    ("cleaned_up", "removes spaces before punctuation (clean_up_tokenization_spaces)", _clean_up),
    ("cleaned_up", "removes spaces before punctuation", lambda t: re.sub(r" ([.?!,])", r"\1", t)),
    ("lstripped", "drops a leading space", lambda t: t.removeprefix(" ")),
    ("lstripped", "strips leading white space", str.lstrip),
    ("rstripped", "strips trailing white space", str.rstrip),
    ("spaces_collapsed", "makes one space of a run of white space", lambda t: re.sub(r"\s+", " ", t)),
    ("normalized", "normalises the text (NFC)", lambda t: unicodedata.normalize("NFC", t)),
    ("normalized", "normalises the text (NFKC)", lambda t: unicodedata.normalize("NFKC", t)),
    ("nul_dropped", "drops U+0000", lambda t: t.replace("\0", "")),
    ("line_ends", "drops CR", lambda t: t.replace("\r", "")),
    ("byte_fallback", "takes <0x0A> for a byte, as SentencePiece does",
        lambda t: re.sub(r"<0x([0-9A-F]{2})>", lambda match: chr(int(match[1], 16)), t)),
    *(row for row in TIDIED if row[0] in _SHARED),
])  # fmt: skip

_BETWEEN = wrong_ways("decoded", directly, "put the bytes of all ids together, nothing between them", [
    ("spaces_between", "puts a space between ids", _parts(lambda ps: " ".join(replaced(p) for _, p in ps))),
    ("spaces_between", "puts spaces around added tokens", _by_stretches(" ")),
    ("first_missing", "loses the first id", _parts(lambda parts: replaced(_joined(parts[1:])))),
    ("last_missing", "loses the last id", _parts(lambda parts: replaced(_joined(parts[:-1])))),
])  # fmt: skip

STAGE = Stage(
    truth,
    lambda message: message.text,
    lambda message: {"decoded characters": letters(message.text)},
    [*_ERRORS, *_SKIPPED, *_ENDED, *_AFTER, *_BETWEEN],
)
