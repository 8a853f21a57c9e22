"""What the tokenizer does with a text, stage by stage: plain data under the names of the golden files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .added_tokens import AddedToken, Part
from .errors import TokenizerError
from .normalize import nfc_with_origin

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PreToken:
    """A piece within which merges happen; places are counted from 0 in the segment's normalised text, end exclusive."""

    begin: int
    end: int
    begin_byte: int
    end_byte: int
    symbols: str
    merges: tuple[int, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the text, in characters: one added token (its id), or plain text (None) with its pre-tokens."""

    begin: int
    end: int
    added_token: int | None
    normalized: str
    pre_tokens: tuple[PreToken, ...]


@dataclass(frozen=True, slots=True)
class Stages:
    """A whole text; `offsets` are the characters of `text` that each id stands for, as Hugging Face maps them."""

    text: str
    segments: tuple[Segment, ...]
    ids: list[int]
    offsets: list[tuple[int, int]]


class Functions(Protocol):
    """What a tokenizer is to `stages_of`."""

    added_tokens: tuple[AddedToken, ...]
    vocabulary: dict[str, int]
    split: Callable[[str, bool], list[Part]]
    normalize: Callable[[str], str]
    pre_tokenize: Callable[[str], list[str]]
    to_symbols: Callable[[str], str]
    merge: Callable[[str], tuple[list[str], list[int]]]


def stages_of(functions: Functions, text: str, split_special_tokens: bool) -> Stages:
    """Every stage of a text.

    An id's offset reaches from the first to the last character of which it holds a byte: several ids within one
    character have the same offset. Of characters that normalisation made into one it is what `nfc_with_origin` says.
    """
    stages = Stages(checked(text), (), [], [])
    segments: list[Segment] = []
    found_normalized = {token.id for token in functions.added_tokens if token.normalized}
    for begin, end, added_token in functions.split(text, split_special_tokens):
        part = text[begin:end]
        if added_token is None:
            normalized = functions.normalize(part)
            pre_tokens, places = _pre_tokens(functions, normalized)
            segments.append(Segment(begin, end, None, normalized, pre_tokens))
            stages.ids.extend(id for pre_token in pre_tokens for id in pre_token.ids)
        else:
            normalized = functions.normalize(part) if added_token in found_normalized else part
            places = [(0, len(normalized) - 1)]
            segments.append(Segment(begin, end, added_token, "", ()))
            stages.ids.append(added_token)
        origin = _origin(part, normalized)
        stages.offsets.extend((begin + _at(origin, first)[0], begin + _at(origin, last)[1]) for first, last in places)
    return Stages(text, tuple(segments), stages.ids, stages.offsets)


def checked(text: str) -> str:
    """The text itself; what is no text, or holds a surrogate (half a character), raises `TokenizerError`."""
    if not isinstance(text, str):
        raise TokenizerError(
            "text", "what is encoded is text", expected="str", got=type(text).__name__, next_step="decode bytes first"
        )
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TokenizerError(
                f"text[{error.start}]",
                "text is made of Unicode characters, and a lone surrogate is none",
                expected="no code point from U+D800 to U+DFFF",
                got=f"U+{ord(text[error.start]):04X}",
                next_step="read the text with the right encoding, or replace what was no character in it",
            ) from None
    return text


def _pre_tokens(functions: Functions, normalized: str) -> tuple[tuple[PreToken, ...], list[tuple[int, int]]]:
    """The pre-tokens, and of each id the first and the last character of `normalized` that it holds bytes of."""
    pre_tokens: list[PreToken] = []
    places: list[tuple[int, int]] = []
    end, end_byte = 0, 0
    for piece in functions.pre_tokenize(normalized):
        # A replaced function may have left text out, or put some in.
        begin = max(end, normalized.find(piece, end))
        begin_byte = end_byte + len(normalized[end:begin].encode("utf-8"))
        characters = [at for at, character in enumerate(piece, begin) for _ in character.encode("utf-8")]
        end, end_byte = begin + len(piece), begin_byte + len(characters)
        symbols = functions.to_symbols(piece)
        merged, ranks = functions.merge(symbols)
        ids = tuple(_id_of(functions.vocabulary, symbol, piece) for symbol in merged)
        pre_tokens.append(PreToken(begin, end, begin_byte, end_byte, symbols, tuple(ranks), ids))
        at = 0
        for symbol in merged:
            places.append((_at(characters, at), _at(characters, at + len(symbol) - 1)))
            at += len(symbol)
    return tuple(pre_tokens), places


def _at(items: list[Item], index: int) -> Item:
    # Symbols are bytes, so an index fits, unless a replaced function made other symbols.
    return items[min(index, len(items) - 1)]


def _id_of(vocabulary: dict[str, int], symbol: str, pre_token: str) -> int:
    if symbol not in vocabulary:
        raise TokenizerError(
            f"pre-token {pre_token!a}",
            "whatever merging leaves is in the vocabulary",
            expected=f"an entry for {symbol!r}",
            got="none",
            next_step="check that vocabulary and merges belong together",
        )
    return vocabulary[symbol]


def _origin(text: str, normalized: str) -> list[tuple[int, int]]:
    """Begin and end in `text` of each character of `normalized`."""
    if normalized != text:
        result, origin = nfc_with_origin(text)
        if result == normalized:
            return origin
    # Unchanged; or a replaced normaliser, of which nothing else is known.
    return [(min(at, len(text) - 1), min(at + 1, len(text))) for at in range(len(normalized))]
