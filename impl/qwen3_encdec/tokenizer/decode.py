"""Ids to bytes to text. Text is made of all bytes together: a character may be spread over several ids."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import TokenizerError


def text_of(data: bytes) -> str:
    """UTF-8 to text; bytes that are none become U+FFFD, one for each longest beginning of a character (Unicode's and
    Rust's way), so E4 BD 41 is U+FFFD "A" and ED A0 80 three of U+FFFD."""
    return data.decode("utf-8", errors="replace")


def joined(ids: Iterable[Any], bytes_of: Callable[[Any, int], bytes]) -> bytes:
    """The bytes of all ids, one behind the other; `bytes_of` gets each id with its index."""
    try:
        numbered = enumerate(ids)
    except TypeError:
        raise TokenizerError(
            "ids",
            "what is decoded is a list of ids",
            expected="a list of int",
            got=type(ids).__name__,
            next_step="put a single id into a list",
        ) from None
    return b"".join([bytes_of(id, position) for position, id in numbered])


def piece_of(pieces: Mapping[int, str], id: Any, position: int) -> str:
    """The piece of an id; `position` is the id's index in what is decoded, for the error when it has none."""
    try:
        piece = pieces.get(operator.index(id))
    except TypeError:
        piece = None
    if piece is None:
        raise TokenizerError(
            f"ids[{position}]",
            "every id is one of the tokenizer's",
            expected=f"an id of one of {len(pieces)} tokens, the largest is {max(pieces, default=-1)}",
            got=reprlib.repr(id),
            next_step="check that the ids came from this tokenizer; a model may emit ids of its padding rows",
        )
    return piece
