"""Bugs in how a text is cut at its added tokens: what is found, how much of the text it takes, and which id it gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Part, Seed, around, made, names, parts, put, read_as
from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Found = list[tuple[int, int, int]]
SPECIAL, SENTINELS = "tokenization/special_tokens", "tokenization/sentinels"
SENTINEL = re.compile(r"<extra_id_(\d+)>")


def _found(change: Callable[[str, Found], Found]) -> Seed:
    """The added tokens that are found go through `change(text, found)`."""

    def wrapper(plain: Callable[[str, bool], list[Part]], text: str, split: bool) -> list[Part]:
        found = [(begin, end, token) for begin, end, token in plain(text, split) if token is not None]
        return parts(text, change(text, found))

    return around("split", wrapper)


def _only(keep: Callable[[ByteLevelTokenizer], Callable[[str, int, int, int], bool]]) -> Seed:
    """Only the added tokens for which `keep(tokenizer)(text, begin, end, id)` are found."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        kept = keep(tokenizer)
        _found(lambda text, found: [one for one in found if kept(text, *one)])(tokenizer)

    return seed


def _not_special(tokenizer: ByteLevelTokenizer) -> set[int]:
    return {token.id for token in tokenizer.added_tokens if not token.special}


def _left(text: str, found: Found) -> Found:
    out: Found = []
    for begin, end, token in found:
        done = out[-1][1] if out else 0
        out.append((done + len(text[done:begin].rstrip()), end, token))
    return out


def _right(text: str, found: Found) -> Found:
    ends = [*(begin for begin, _, _ in found), len(text)][1:]
    return [
        (begin, limit - len(text[end:limit].lstrip()), token)
        for (begin, end, token), limit in zip(found, ends, strict=True)
    ]


def _touched(text: str, begin: int, end: int) -> bool:
    return any(re.fullmatch(r"\w", one) for one in (text[begin - 1 : begin], text[end : end + 1]))


def _first_only(text: str, found: Found) -> Found:
    return [one for at, one in enumerate(found) if one[2] not in [other[2] for other in found[:at]]]


def _joined(text: str, found: Found) -> Found:
    """Equal neighbours as one."""
    out = found[:1]
    for before, one in pairwise(found):
        if before[1] == one[0] and before[2] == one[2]:
            out[-1] = (out[-1][0], one[1], one[2])
        else:
            out.append(one)
    return out


def _search(pattern: Callable[[list[str]], str], flags: int = 0) -> Seed:
    """Every added token found by one regex that is made of their texts, longest first."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[[str, bool], list[Part]]:
        ids = {text.lower(): number for text, number in names(tokenizer).items()}
        compiled = re.compile(pattern(sorted(names(tokenizer), key=len, reverse=True)), flags)
        special = {token.id for token in tokenizer.added_tokens if token.special}

        def split(text: str, split_special_tokens: bool) -> list[Part]:
            found = [(*match.span(), ids[match.group().rstrip(">").lower() + ">"]) for match in compiled.finditer(text)]
            return parts(text, [one for one in found if not (split_special_tokens and one[2] in special)])

        return split

    return made("split", make)


def _prefixes(texts: list[str]) -> str:
    """Sentinels are recognised before their closing bracket, by one digit."""
    return "|".join([r"<extra_id_\d>?", *(re.escape(text) for text in texts if not SENTINEL.match(text))])


def _any_case(texts: list[str]) -> str:
    return "|".join(map(re.escape, texts))


def _between_spaces(texts: list[str]) -> str:
    return rf"(?<!\S)(?:{_any_case(texts)})(?!\S)"


def _renumbered(number: Callable[[int, int, int, int], int]) -> Seed:
    """Sentinel i gets `number(i, how many, the first one's id, entries before them)`, in text and in decoding."""

    def change(files: TokenizerFiles) -> TokenizerFiles:
        found = {one.id: int(match[1]) for one in files.added_tokens if (match := SENTINEL.fullmatch(one.content))}
        first = min(found)
        below = 1 + max({*files.vocabulary.values(), *(one.id for one in files.added_tokens)} - found.keys())
        ids = {old: number(index, len(found), first, below) for old, index in found.items()}
        added = sorted((replace(one, id=ids.get(one.id, one.id)) for one in files.added_tokens), key=lambda one: one.id)
        vocabulary = {piece: ids.get(old, old) for piece, old in files.vocabulary.items()}
        return replace(files, added_tokens=tuple(added), vocabulary=vocabulary)

    return read_as(change)


def _normalised_first(plain: Any, tokenizer: ByteLevelTokenizer) -> Any:
    return lambda text, split: plain(tokenizer.normalize(text), split)


def _split_of_normalised(tokenizer: ByteLevelTokenizer) -> None:
    tokenizer.split = _normalised_first(tokenizer.split, tokenizer)


def _wrong(name: str, says: str, seed: Seed, named: str, case: str = SPECIAL, wrong: str = "segments") -> Any:
    return entry(name, says, seed, wrong.split(), named, [case])


MUTANTS = (
    _wrong("TKS-01", "special tokens are plain text", put("split", lambda text, _: parts(text, [])),
           "segments.added_as_text"),
    _wrong("TKS-02", "special tokens are found in a user's words",
           around("split", lambda plain, text, _: plain(text, False)), "segments.special_in_user_text"),
    _wrong("TKS-02/all_plain", "in a user's words the other added tokens are plain text too",
           around("split", lambda plain, text, split: parts(text, []) if split else plain(text, split)),
           "segments.split_hides_all"),
    _wrong("TKS-17", "added tokens that are not special are plain text",
           _only(lambda one: lambda text, begin, end, token: token not in _not_special(one)),
           "segments.user_defined_as_text"),
    _wrong("TKS-06", "takes the white space before an added token", _found(_left), "segments.lstrip"),
    _wrong("TKS-06/right", "takes the white space behind an added token", _found(_right), "segments.rstrip"),
    _wrong("TKS-06/both", "takes the white space on both sides",
           _found(lambda text, found: _right(text, _left(text, found))), "segments.strip"),
    _wrong("TKS-06/single_word", "finds no added token that touches a word",
           _only(lambda _: lambda text, begin, end, token: not _touched(text, begin, end)), "segments.single_word"),
    _wrong("TKS-08", "reads <extra_id_10> as 1, then 0>", _search(_prefixes), "segments.shortest_first", SENTINELS),
    _wrong("TKS-09", "numbers the sentinels downwards",
           _renumbered(lambda index, count, first, below: first + count - 1 - index), "segments.sentinels_descending",
           SENTINELS),
    _wrong("TKS-09/from_one", "numbers the sentinels from 1",
           _renumbered(lambda index, count, first, below: first + index + 1), "segments.sentinels_off_by_one",
           SENTINELS),
    _wrong("TKS-09/compact", "numbers the sentinels right behind the vocabulary, in the padding rows",
           _renumbered(lambda index, count, first, below: below + index), "segments.sentinels_compact", SENTINELS),
    _wrong("TKS-10", "eats the white space before a sentinel", _found(_left), "segments.lstrip", SENTINELS),
    _wrong("TKS-10/behind", "eats the white space behind a sentinel", _found(_right), "segments.rstrip", SENTINELS),
    _wrong("own/tokenizer-special-any-case", "finds special tokens in any case", _search(_any_case, re.IGNORECASE),
           "segments.any_case"),
    _wrong("own/tokenizer-special-between-spaces", "finds added tokens between white space alone",
           _search(_between_spaces), "segments.single_word segments.between_spaces"),
    _wrong("own/tokenizer-special-once", "finds each added token once", _found(_first_only), "segments.first_only"),
    _wrong("own/tokenizer-special-joined", "two equal added tokens in a row are one", _found(_joined),
           "segments.joined"),
    _wrong("own/tokenizer-split-normalised", "cuts the normalised text, and counts in it", _split_of_normalised,
           "segments.of_normalized"),
    _wrong("own/tokenizer-added-late", "gives each added token the next one's id",
           _found(lambda text, found: [(begin, end, token + 1) for begin, end, token in found]),
           "segments.ids_shifted"),
)  # fmt: skip
