"""Added tokens: what is found in a text before anything is normalised or merged, as Hugging Face finds it.

A search runs from the left; of the added tokens that start at the same place the longest is found, and the search goes
on behind it. It runs twice: first over the text as it is, for the added tokens that are not `normalized`; then over
each part between those, normalised, for those that are (their own content normalised as well).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from .errors import TokenizerError
from .unicode_tables import unicode_tables

Part = tuple[int, int, int | None]
"""Begin and end in characters of the text, and the id of the added token that stands there; None: plain text."""

WithOrigin = Callable[[str], tuple[str, list[tuple[int, int]]]]
"""A normaliser that says of each character of its result where it came from."""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """One added token, with Hugging Face's flags.

    special: left out by `skip_special_tokens`, and plain text to `split_special_tokens`. lstrip, rstrip: the white
    space before or behind it belongs to it. single_word: found only where no word character touches it. normalized:
    found in normalised text.
    """

    id: int
    content: str
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


def unchanged_with_origin(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text as it is: for a tokenizer without a normaliser."""
    return text, [(at, at + 1) for at in range(len(text))]


def splitter(added_tokens: Sequence[AddedToken], normalize: WithOrigin) -> Callable[[str, bool], list[Part]]:
    """A function that cuts a text at its added tokens; its second argument is `split_special_tokens`."""
    raw = _search([token for token in added_tokens if not token.normalized])
    late = [replace(token, content=normalize(token.content)[0]) for token in added_tokens if token.normalized]
    normalized = _search(late)

    def split(text: str, split_special_tokens: bool) -> list[Part]:
        parts = raw(text, split_special_tokens)
        if not late:
            return parts
        return [
            finer
            for part in parts
            for finer in ([part] if part[2] is not None else split_normalized(text, part, split_special_tokens))
        ]

    def split_normalized(text: str, part: Part, split_special_tokens: bool) -> list[Part]:
        begin, end, _ = part
        result, origin = normalize(text[begin:end])
        places = [begin + first for first, _ in origin] + [end]
        parts: list[Part] = []
        for first, behind, token in normalized(result, split_special_tokens):
            parts.append((places[first], places[behind], token))
            if normalize(text[places[first] : places[behind]])[0] != result[first:behind]:
                raise TokenizerError(
                    f"text[{places[first]}:{places[behind]}]",
                    "an added token that is found in normalised text begins and ends between characters of the text",
                    expected=f"{result[first:behind]!a} from these characters",
                    got=ascii(text[places[first] : places[behind]]),
                    next_step="give the added token normalized=False",
                )
        return parts

    return split


def _search(added_tokens: Sequence[AddedToken]) -> Callable[[str, bool], list[Part]]:
    tokens: dict[str, AddedToken] = {}
    for token in added_tokens:
        if token.content in tokens:
            raise TokenizerError(
                f"added tokens {tokens[token.content].id} and {token.id}",
                "no two added tokens are found in the same text; Hugging Face takes one by chance",
                expected="one of them",
                got=f"both are {token.content!a} when normalised",
                next_step="remove one of them",
            )
        if token.content:
            tokens[token.content] = token
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def search(text: str, split_special_tokens: bool) -> list[Part]:
        parts: list[Part] = []
        done = 0
        for match in pattern.finditer(text):
            token = tokens[match.group()]
            begin, end = match.span()
            if split_special_tokens and token.special:
                continue
            if token.single_word and (_is_word(text[begin - 1 : begin]) or _is_word(text[end : end + 1])):
                continue
            if token.lstrip:
                while begin > done and text[begin - 1] in _spaces():
                    begin -= 1
                begin = max(begin, done)
            if token.rstrip:
                while end < len(text) and text[end] in _spaces():
                    end += 1
            if begin >= end:
                continue  # the added token before has taken all of it
            if done < begin:
                parts.append((done, begin, None))
            parts.append((begin, end, token.id))
            done = end
        if done < len(text):
            parts.append((done, len(text), None))
        return parts

    return search


def _is_word(character: str) -> bool:
    return character != "" and character in _word_characters()


@cache
def _spaces() -> frozenset[str]:
    return _characters(unicode_tables().spaces)


@cache
def _word_characters() -> frozenset[str]:
    return _characters(unicode_tables().words)


def _characters(ranges: Sequence[tuple[int, int]]) -> frozenset[str]:
    return frozenset(chr(code) for begin, end in ranges for code in range(begin, end))
